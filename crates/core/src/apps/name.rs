//! What the pools of applications are called.

use super::{Identity, Workload};
use crate::addr::Family;
use crate::model::Subnet;

/// As long as a label's value may be, so that a pool's name can stand in one.
const LONGEST: usize = 63;

/// The name of an application's pool, e.g. `app-shop-web-eth0-v4-83tnzc7856`: for people as far as it goes, and told from
/// all others by what is behind the last dash, which is made of everything that makes the pool this one. The subnet is
/// part of that: an application that moves to another one has a pool in each while it moves.
#[must_use]
pub fn pool_name(workload: &Workload, interface: &str, subnet: &Subnet) -> String {
    name(&workload.identity, interface, subnet.cidr.family(), &subnet.name)
}

fn name(application: &Identity, interface: &str, family: Family, subnet: &str) -> String {
    let version = if family == Family::V4 { "v4" } else { "v6" };
    let Identity { group, kind, namespace, name } = application;
    let tail = format!("-{version}-{}", digest(&[group, kind, namespace, name, interface, version, subnet]));
    let interface: String = tame(interface).chars().take(15).collect();
    let mut words = format!("app-{}-{}", tame(namespace), tame(name));
    words.truncate(LONGEST - tail.len() - interface.len() - 1);
    format!("{}-{interface}{tail}", words.trim_end_matches('-'))
}

/// Only what may stand in a name; dots would make labels of their own.
fn tame(text: &str) -> String {
    let tamed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    text.chars().map(tamed).take(253).collect::<String>().trim_matches('-').to_owned()
}

/// Fifty bits of a hash (FNV-1a, stirred) in ten letters and digits. It is part of names that outlive a release, so it
/// never changes.
fn digest(parts: &[&str]) -> String {
    const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    // A byte that is in no text keeps parts apart.
    for byte in parts.iter().flat_map(|part| part.bytes().chain([0xff])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..10).map(|i| char::from(LETTERS[(hash >> (14 + 5 * i)) as usize & 31])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(kind: &str, namespace: &str, name: &str) -> Identity {
        Identity { group: "apps".into(), kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }

    #[test]
    fn a_name_is_readable_valid_and_never_changes() {
        let own = name(&app("Deployment", "shop", "web"), "eth0", Family::V4, "s");
        assert_eq!(own, "app-shop-web-eth0-v4-83tnzc7856");
    }

    #[test]
    fn whatever_differs_makes_another_name() {
        let names = [
            name(&app("Deployment", "shop", "web"), "eth0", Family::V4, "s"),
            name(&app("StatefulSet", "shop", "web"), "eth0", Family::V4, "s"),
            name(&app("Deployment", "shop-web", "web"), "eth0", Family::V4, "s"),
            name(&app("Deployment", "shop", "web-web"), "eth0", Family::V4, "s"),
            name(&app("Deployment", "shop", "web"), "net1", Family::V4, "s"),
            name(&app("Deployment", "shop", "web"), "eth0", Family::V6, "s"),
            name(&app("Deployment", "shop", "web"), "eth0", Family::V4, "t"),
        ];
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }

    #[test]
    fn long_and_odd_names_fit() {
        for long in ["x".repeat(253), format!("{}.-", "a-".repeat(100)), "a.b.c".into()] {
            for interface in ["eth0", "Bond_0.100@x", "."] {
                let pool = name(&app("Deployment", &"n".repeat(63), &long), interface, Family::V6, "s");
                assert!(pool.len() <= LONGEST, "{pool}");
                let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
                assert!(pool.chars().all(fits) && !pool.ends_with('-'), "{pool}");
            }
        }
    }
}
