//! The cases of host-local's own tests, with their inputs and outcomes.

use super::{Node, got, texts};
use crate::Command;

const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

fn sets(sets: &[&[&str]]) -> String {
    let set = |set: &&[&str]| {
        let ranges: Vec<String> = set.iter().map(|net| format!(r#"{{"subnet":"{net}"}}"#)).collect();
        format!("[{}]", ranges.join(","))
    };
    format!(r#""ranges":[{}]"#, sets.iter().map(set).collect::<Vec<_>>().join(","))
}

#[test]
fn b4_round_robin() {
    let one = &["10.0.0.0/29"][..];
    let two = &["10.0.0.0/30", "10.0.1.0/30"][..];
    for (nets, taken, last, expected) in [
        (one, "", "", "10.0.0.2/29"),
        (&["2001:db8:1::/64"], "", "", "2001:db8:1::2/64"),
        (&["10.0.0.0/30"], "", "", "10.0.0.2/30"),
        (one, "10.0.0.2", "", "10.0.0.3/29"),
        (one, "", "10.0.0.5", "10.0.0.6/29"),
        (one, "10.0.0.4 10.0.0.5", "10.0.0.3", "10.0.0.6/29"),
        (one, "10.0.0.6", "10.0.0.5", "10.0.0.2/29"),
        (one, "10.0.0.2", "10.0.0.128", "10.0.0.3/29"),
        (one, "10.0.0.2 10.0.0.4 10.0.0.5 10.0.0.6", "10.0.0.3", "10.0.0.3/29"),
        (two, "", "", "10.0.0.2/30"),
        (two, "", "10.0.0.2", "10.0.1.2/30"),
        (&["10.0.0.0/30", "10.0.1.0/30", "10.0.2.0/30"], "", "10.0.2.2", "10.0.0.2/30"),
    ] {
        let node = Node::new(&sets(&[nets]));
        for address in taken.split_whitespace() {
            node.put(address, "other\r\neth0");
        }
        if !last.is_empty() {
            node.put("last_reserved_ip.0", last);
        }
        assert_eq!(node.add("c"), got([expected]), "{nets:?} taken {taken:?} last {last:?}");
    }
}

#[test]
fn b4_a_subnet_is_given_out_whole_and_no_further() {
    let node = Node::subnet("192.168.1.0/29");
    for last in 2..=6 {
        assert_eq!(node.add(&format!("id{last}")), got([&format!("192.168.1.{last}/29")]));
    }
    let full = "failed to allocate for range 0: no IP addresses available in range set: 192.168.1.1-192.168.1.6";
    assert_eq!(node.add("id7"), Err(full.to_owned()));
    node.del("id4");
    assert_eq!(node.add("id7"), got(["192.168.1.4/29"]));
}

#[test]
fn b4_a_released_address_is_not_the_next_one() {
    let node = Node::subnet("10.0.0.0/29");
    assert_eq!(node.add("a"), got(["10.0.0.2/29"]));
    node.del("a");
    assert_eq!(node.add("a"), got(["10.0.0.3/29"]));
}

#[test]
fn b4_exhaustion() {
    for (nets, taken) in [
        (&["10.0.0.0/30"][..], &["10.0.0.2"][..]),
        (&["10.0.0.0/29"], &["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]),
        (&["10.0.0.0/30", "10.0.1.0/30"], &["10.0.0.2", "10.0.1.2"]),
    ] {
        let node = Node::new(&sets(&[nets]));
        taken.iter().for_each(|address| node.put(address, "other\r\neth0"));
        let error = node.add("c").unwrap_err();
        assert!(error.starts_with("failed to allocate for range 0: no IP addresses available in range set"), "{error}");
    }
}

#[test]
fn b4_requested() {
    let node = Node::subnet("192.168.1.0/29");
    assert_eq!(node.add_args("a", "IP=192.168.1.5"), got(["192.168.1.5/29"]));
    assert_eq!(node.content("last_reserved_ip.0").unwrap(), "192.168.1.5");
    let taken = "failed to allocate for range 0: requested IP address 192.168.1.5 is not available in range set \
                 192.168.1.1-192.168.1.6";
    assert_eq!(node.add_args("b", "IP=192.168.1.5"), Err(taken.to_owned()));
    let gateway = "failed to allocate for range 0: requested ip 192.168.1.1 is subnet's gateway";
    assert_eq!(node.add_args("b", "IP=192.168.1.1/29"), Err(gateway.to_owned()));
    for (ipam, address) in [
        (r#""subnet":"192.168.1.0/29","rangeEnd":"192.168.1.4""#, "192.168.1.5"),
        (r#""subnet":"192.168.1.0/29","rangeStart":"192.168.1.3""#, "192.168.1.2"),
    ] {
        let error = Node::new(ipam).add_args("a", &format!("IP={address}")).unwrap_err();
        assert_eq!(error, format!("failed to allocate all requested IPs: {address}"));
    }
}

#[test]
fn b4_1_dual_stack_with_routes() {
    for version in VERSIONS {
        let ipam = sets(&[&["10.1.2.0/24", "10.2.2.0/24"], &["2001:db8:1::0/64"]]);
        let routes = r#""routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"},{"dst":"192.168.0.0/16","gw":"1.1.1.1"},
            {"dst":"2001:db8:2::0/64","gw":"2001:db8:3::1"}]"#;
        let mut node = Node::new(&format!("{ipam},{routes}"));
        node.version = version;
        let result = node.add_result("dummy").unwrap();
        assert_eq!(texts(Ok(result.clone())), got(["10.1.2.2/24", "2001:db8:1::2/64"]));
        let gateways: Vec<String> = result.ips.iter().map(|ip| ip.gateway.unwrap().to_string()).collect();
        assert_eq!(gateways, ["10.1.2.1", "2001:db8:1::1"]);
        assert_eq!(result.routes.len(), 4);
        assert_eq!(result.routes[3].dst, "2001:db8:2::/64");
        for address in ["10.1.2.2", "2001:db8:1::2"] {
            assert_eq!(node.content(address).unwrap(), "dummy\r\neth0");
        }
        assert_eq!(node.content("last_reserved_ip.0").unwrap(), "10.1.2.2");
        assert_eq!(node.content("last_reserved_ip.1").unwrap(), "2001:db8:1::2");
        node.del("dummy");
        assert!(node.leases().is_empty());
        node.assert_sealed();
    }
}

#[test]
fn b4_2_networks_and_interfaces_are_apart() {
    let mut node = Node::subnet("10.1.2.0/24");
    let add = |node: &Node, ifname| texts(node.call_with(Command::Add, "dummy", ifname, "", 1).map(Option::unwrap));
    assert_eq!(add(&node, "eth0"), got(["10.1.2.2/24"]));
    assert_eq!(add(&node, "eth1"), got(["10.1.2.3/24"]));
    node.network = "other";
    assert_eq!(add(&node, "eth1"), got(["10.1.2.2/24"]));
    node.del("dummy");
    assert_eq!(node.leases().len(), 1, "eth1 of the other network stays");
    node.network = "mynet";
    node.del("dummy");
    assert_eq!(node.leases().into_iter().collect::<Vec<_>>(), [("10.1.2.3".into(), "dummy\r\neth1".into())]);
}

#[test]
fn b4_3_a_second_add_does_not_get_a_second_address() {
    let node = Node::subnet("10.1.2.0/24");
    assert_eq!(node.add("dummy"), got(["10.1.2.2/24"]));
    assert_eq!(node.add("dummy"), got(["10.1.2.2/24"]), "host-local refuses; Berth answers the same again");
    assert_eq!(node.add("other"), got(["10.1.2.3/24"]));
    assert_eq!(node.add("dummy"), got(["10.1.2.2/24"]));
    node.del("dummy");
    node.del("other");
    assert!(node.leases().is_empty());
}

#[test]
fn b4_4_files_of_old_versions_are_released() {
    let node = Node::subnet("10.1.2.0/24");
    node.put("10.1.2.2", "dummy");
    assert_eq!(node.add("dummy"), got(["10.1.2.2/24"]));
    assert_eq!(node.call(Command::Check, "dummy", 0), Ok(None));
    node.del("dummy");
    assert!(node.leases().is_empty());
}

#[test]
fn b4_5_an_unknown_container_is_deleted_in_peace() {
    let node = Node::subnet("10.1.2.0/24");
    node.del("nobody");
    node.del("nobody");
}

#[test]
fn b4_6_spaces_around_an_id_do_not_count() {
    let node = Node::subnet("10.1.2.0/24");
    node.add("   dummy\n ").unwrap();
    assert_eq!(node.content("10.1.2.2").unwrap(), "dummy\r\neth0");
    node.del("   dummy\n ");
    assert!(node.leases().is_empty());
}

#[test]
fn b4_8_to_11_addresses_in_args() {
    let ips = |ips: &str| format!(r#","args":{{"cni":{{"ips":[{ips}]}}}}"#);
    let mut node = Node::new(&sets(&[&["10.1.2.0/24"]]));
    node.extra = ips(r#""10.1.2.88""#);
    assert_eq!(node.add("a"), got(["10.1.2.88/24"]));

    let mut node = Node::new(&sets(&[&["10.1.2.0/24"], &["10.1.3.0/24"]]));
    node.extra = ips(r#""10.1.2.88","10.1.3.77""#);
    assert_eq!(node.add("a"), got(["10.1.2.88/24", "10.1.3.77/24"]));
    node.version = "0.2.0";
    assert_eq!(node.add("b"), Err("CNI version 0.2.0 does not support more than 1 address per family".to_owned()));

    let mut node = Node::new(&sets(&[&["172.16.1.0/24", "10.1.2.0/24"], &["2001:db8:1::/48"]]));
    node.extra = ips(r#""10.1.2.88/24","2001:db8:1::999""#);
    assert_eq!(node.add("a"), got(["10.1.2.88/24", "2001:db8:1::999/48"]));

    let mut node = Node::new(&sets(&[&["172.16.1.0/24", "10.1.2.0/24"]]));
    node.extra = ips(r#""10.1.2.88","10.1.2.77""#);
    assert_eq!(node.add("a"), Err("failed to allocate all requested IPs: 10.1.2.77".to_owned()));
    assert!(node.leases().is_empty());
}

#[test]
fn b4_resolv_conf() {
    let mut node = Node::subnet("10.1.2.0/24");
    node.put("resolv.conf", "nameserver 192.0.2.3\ndomain b.example\n");
    node.ipam += &format!(r#","resolvConf":"{}""#, node.dir().join("resolv.conf").display());
    let dns = node.add_result("a").unwrap().dns;
    assert_eq!((dns.nameservers, dns.domain.as_str()), (vec!["192.0.2.3".to_owned()], "b.example"));
    let node = Node::new(r#""subnet":"10.1.2.0/24","resolvConf":"/nonexistent/resolv.conf""#);
    assert!(node.add("a").unwrap_err().starts_with("open /nonexistent/resolv.conf: "));
    assert!(node.leases().is_empty());
}
