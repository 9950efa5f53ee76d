//! The networks this node is in, as the kernel has them.

use berth_core::addr::Cidr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The networks that the node reaches without a router.
pub(crate) fn of_node() -> Vec<Cidr> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut all = v4(&read("/proc/net/route"));
    all.extend(v6(&read("/proc/net/if_inet6")));
    all.sort();
    all.dedup();
    all
}

/// Routes without a gateway: interface, destination, gateway, flags, three numbers, mask; hexadecimal, as the machine
/// stores them.
fn v4(table: &str) -> Vec<Cidr> {
    let row = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| u32::from_str_radix(columns.get(at)?, 16).ok().map(from_network_order);
        let (destination, gateway, mask) = (number(1)?, number(2)?, number(7)?);
        let len = u8::try_from(mask.leading_ones()).ok()?;
        (gateway == 0 && len > 0).then(|| Cidr::containing(IpAddr::V4(Ipv4Addr::from_bits(destination)), len))
    };
    table.lines().skip(1).filter_map(row).collect()
}

/// The kernel prints an address that is in network order as if it were a number of the machine.
const fn from_network_order(printed: u32) -> u32 {
    u32::from_be_bytes(printed.to_ne_bytes())
}

/// Addresses: 32 hexadecimal digits, interface number, prefix length, scope, flags, name.
fn v6(table: &str) -> Vec<Cidr> {
    let row = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let address = Ipv6Addr::from_bits(u128::from_str_radix(columns.first()?, 16).ok()?);
        let len = u8::from_str_radix(columns.get(2)?, 16).ok().filter(|len| *len <= 128)?;
        let local = address.is_loopback() || address.is_unicast_link_local();
        (!local).then(|| Cidr::containing(IpAddr::V6(address), len))
    };
    table.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn routes_without_a_gateway_are_networks() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                     eth0\t00000000\t010014AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                     eth0\t000114AC\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
                     garbage\n";
        assert_eq!(v4(table), ["172.20.1.0/24".parse().unwrap()]);
    }

    #[test]
    fn link_local_and_loopback_are_no_networks() {
        let table = "00000000000000000000000000000001 01 80 10 80       lo\n\
                     fe80000000000000000000000000000a 02 40 20 80     eth0\n\
                     fd00000000200001000000000000000a 02 40 00 80     eth0\n";
        assert_eq!(v6(table), ["fd00:0:20:1::/64".parse().unwrap()]);
    }
}
