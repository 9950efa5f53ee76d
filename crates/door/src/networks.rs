//! The networks that this machine is in, as the kernel has them.

use berth_core::addr::Cidr;
use berth_core::model::Uplink;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The networks that a NIC reaches without a router, by NIC.
type ByNic = BTreeMap<String, Vec<Cidr>>;

/// The networks that the machine reaches without a router.
#[must_use]
pub fn of_node() -> Vec<Cidr> {
    among(&by_nic(), &[])
}

/// These NICs, and where they are; all of the machine's, if none is named.
#[must_use]
pub fn uplink(nics: Vec<String>) -> Uplink {
    let cidrs = among(&by_nic(), &nics);
    Uplink { nics, cidrs }
}

fn by_nic() -> ByNic {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut all = ByNic::new();
    let rows = v4(&read("/proc/net/route")).into_iter().chain(v6(&read("/proc/net/if_inet6")));
    rows.for_each(|(nic, network)| all.entry(nic).or_default().push(network));
    all
}

fn among(all: &ByNic, nics: &[String]) -> Vec<Cidr> {
    let of = |nic: &String| nics.is_empty() || nics.contains(nic);
    let mut found: Vec<Cidr> = all.iter().filter(|(nic, _)| of(nic)).flat_map(|(_, own)| own.iter().copied()).collect();
    found.sort();
    found.dedup();
    found
}

/// Routes without a gateway: interface, destination, gateway, flags, three numbers, mask; hexadecimal, as the machine
/// stores them.
fn v4(table: &str) -> Vec<(String, Cidr)> {
    let row = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| u32::from_str_radix(columns.get(at)?, 16).ok().map(from_network_order);
        let (destination, gateway, mask) = (number(1)?, number(2)?, number(7)?);
        let len = u8::try_from(mask.leading_ones()).ok()?;
        let network = Cidr::containing(IpAddr::V4(Ipv4Addr::from_bits(destination)), len);
        (gateway == 0 && len > 0).then(|| (columns[0].to_owned(), network))
    };
    table.lines().skip(1).filter_map(row).collect()
}

/// The kernel prints an address that is in network order as if it were a number of the machine.
const fn from_network_order(printed: u32) -> u32 {
    u32::from_be_bytes(printed.to_ne_bytes())
}

/// Addresses: 32 hexadecimal digits, interface number, prefix length, scope, flags, name.
fn v6(table: &str) -> Vec<(String, Cidr)> {
    let row = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let address = Ipv6Addr::from_bits(u128::from_str_radix(columns.first()?, 16).ok()?);
        let len = u8::from_str_radix(columns.get(2)?, 16).ok().filter(|len| *len <= 128)?;
        let nic = (*columns.get(5)?).to_owned();
        let local = address.is_loopback() || address.is_unicast_link_local();
        (!local).then(|| (nic, Cidr::containing(IpAddr::V6(address), len)))
    };
    table.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(nic: &str, network: &str) -> (String, Cidr) {
        (nic.to_owned(), network.parse().unwrap())
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn routes_without_a_gateway_are_networks() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                     eth0\t00000000\t010014AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                     eth0\t000114AC\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
                     garbage\n";
        assert_eq!(v4(table), [row("eth0", "172.20.1.0/24")]);
    }

    #[test]
    fn link_local_and_loopback_are_no_networks() {
        let table = "00000000000000000000000000000001 01 80 10 80       lo\n\
                     fe80000000000000000000000000000a 02 40 20 80     eth0\n\
                     fd00000000200001000000000000000a 02 40 00 80     eth0\n";
        assert_eq!(v6(table), [row("eth0", "fd00:0:20:1::/64")]);
    }

    #[test]
    fn networks_are_told_apart_by_nic() {
        let mut all = ByNic::new();
        for (nic, network) in [row("a", "10.0.1.0/24"), row("b", "10.0.2.0/24"), row("b", "10.0.1.0/24")] {
            all.entry(nic).or_default().push(network);
        }
        let found = |nics: &[&str]| among(&all, &nics.iter().map(|&nic| nic.to_owned()).collect::<Vec<_>>());
        let [first, second] = ["10.0.1.0/24", "10.0.2.0/24"].map(|text| text.parse::<Cidr>().unwrap());
        assert_eq!(found(&["a"]), [first]);
        assert_eq!(found(&["b"]), [first, second]);
        assert_eq!(found(&[]), [first, second], "all of the machine's, each once");
        assert_eq!(found(&["c"]), []);
    }
}
