use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn subnet(text: &str) -> Subnet {
    let (address, len) = text.split_once('/').unwrap();
    Subnet { address: ip(address), prefix_len: len.parse().unwrap() }
}

fn spec(net: &str) -> Spec {
    Spec { subnet: Some(subnet(net)), ..Spec::default() }
}

fn spec_from_to(net: &str, start: &str, end: &str) -> Spec {
    let opt = |text: &str| (!text.is_empty()).then(|| ip(text));
    Spec { start: opt(start), end: opt(end), ..spec(net) }
}

fn set(nets: &[&str]) -> Set {
    Set::lower(&nets.iter().map(|net| spec(net)).collect::<Vec<_>>()).unwrap()
}

fn refusal(spec: Spec) -> String {
    lower_range(&spec).unwrap_err()
}

#[test]
fn b4_range_defaults() {
    for (net, first, last, gateway) in [
        ("192.0.2.0/24", "192.0.2.1", "192.0.2.254", "192.0.2.1"),
        ("192.0.2.0/25", "192.0.2.1", "192.0.2.126", "192.0.2.1"),
        ("2001:DB8:1::/64", "2001:db8:1::1", "2001:db8:1::ffff:ffff:ffff:ffff", "2001:db8:1::1"),
        ("0.0.0.0/0", "0.0.0.1", "255.255.255.254", "0.0.0.1"),
        ("10.0.0.0/30", "10.0.0.1", "10.0.0.2", "10.0.0.1"),
    ] {
        let (range, link) = lower_range(&spec(net)).unwrap();
        assert_eq!((range.first(), range.last(), link.gateway), (ip(first), ip(last), ip(gateway)), "{net}");
    }
    let explicit = Spec { gateway: Some(ip("10.9.9.9")), ..spec_from_to("10.0.0.0/24", "10.0.0.0", "10.0.0.255") };
    let (range, link) = lower_range(&explicit).unwrap();
    assert_eq!((range.first(), range.last()), (ip("10.0.0.0"), ip("10.0.0.255")), "named addresses may be used");
    assert_eq!(link.gateway, ip("10.9.9.9"), "the gateway may lie outside");
}

#[test]
fn b4_range_refusals() {
    let bits =
        |len, net| format!("Network has host bits set. For a subnet mask of length {len} the network address is {net}");
    assert_eq!(refusal(spec("192.0.2.12/24")), bits(24, "192.0.2.0"));
    assert_eq!(refusal(spec("2001:DB8:1::24:19ff:fee1:c44a/64")), bits(64, "2001:db8:1::"));
    assert_eq!(refusal(spec("2001:DB8:24:19ff::/63")), bits(63, "2001:db8:24:19fe::"));
    assert_eq!(refusal(spec("192.168.127.0/23")), bits(23, "192.168.126.0"));
    for small in ["192.0.2.0/31", "192.0.2.7/32", "2001:db8::/127", "2001:db8::/128"] {
        assert_eq!(refusal(spec(small)), format!("Network {small} too small to allocate from"));
    }
    let between = |start, end| refusal(spec_from_to("192.0.2.0/24", start, end));
    assert_eq!(between("192.0.3.0", ""), "RangeStart 192.0.3.0 not in network 192.0.2.0/24");
    assert_eq!(between("", "192.0.4.0"), "RangeEnd 192.0.4.0 not in network 192.0.2.0/24");
    assert_eq!(between("192.0.2.50", "192.0.2.40"), "RangeStart 192.0.2.50 not in network 192.0.2.0/24");
    assert_eq!(between("", "192.0.2.0"), "RangeEnd 192.0.2.0 not in network 192.0.2.0/24");
    assert_eq!(between("192.0.2.255", ""), "RangeStart 192.0.2.255 not in network 192.0.2.0/24");
    assert_eq!(between("2001:db8::1", ""), "RangeStart 2001:db8::1 not in network 192.0.2.0/24");
    assert_eq!(between("192.0.2.4", "2001:db8::1"), "RangeEnd 2001:db8::1 not in network 192.0.2.0/24");
    assert_eq!(refusal(spec("::ffff:10.0.0.0/104")), "IPNet IP and Mask version mismatch");
    assert_eq!(refusal(Spec::default()), "a range has no subnet");
}

#[test]
fn b4_contains() {
    for (net, prefix) in [("192.0.2.0/24", "192.0.2."), ("2001:db8::/64", "2001:db8::")] {
        let range = spec_from_to(net, &format!("{prefix}40"), &format!("{prefix}50"));
        let set = Set::lower(&[range]).unwrap();
        for inside in ["40", "45", "50"] {
            assert!(set.contains(ip(&format!("{prefix}{inside}"))));
        }
        for outside in ["39", "51"] {
            assert!(!set.contains(ip(&format!("{prefix}{outside}"))));
        }
        assert!(!set.contains(ip("192.0.3.45")) && !set.contains(ip("2001:db9::45")));
    }
}

#[test]
fn b4_overlaps() {
    for (a, b, expected) in [
        (("10.0.0.0/24", "", ""), ("10.0.1.0/24", "", ""), false),
        (("0.0.0.0/24", "", ""), ("::/24", "", ""), false),
        (("10.0.0.0/24", "", ""), ("10.0.0.0/24", "", ""), true),
        (("10.0.0.0/20", "", ""), ("10.0.1.0/24", "", ""), true),
        (("10.0.0.0/24", "", "10.0.0.127"), ("10.0.0.0/24", "10.0.0.128", ""), false),
        (("10.0.0.0/24", "", "10.0.0.127"), ("10.0.0.0/24", "10.0.0.127", ""), true),
    ] {
        let of = |(net, start, end)| Set::lower(&[spec_from_to(net, start, end)]).unwrap();
        assert_eq!(of(a).overlaps(&of(b)), expected, "{a:?} {b:?}");
        assert_eq!(of(b).overlaps(&of(a)), expected, "{b:?} {a:?}");
    }
}

#[test]
fn b4_range_sets() {
    let two = set(&["192.168.0.0/24", "172.16.1.0/24"]);
    assert!(two.contains(ip("192.168.0.99")) && two.contains(ip("172.16.1.1")) && !two.contains(ip("192.168.99.99")));
    assert_eq!(two.to_string(), "192.168.0.1-192.168.0.254,172.16.1.1-172.16.1.254");
    let refused = |nets: &[&str]| Set::lower(&nets.iter().map(|net| spec(net)).collect::<Vec<_>>()).unwrap_err();
    assert_eq!(
        refused(&["192.168.0.0/20", "192.168.2.0/24"]),
        "subnets 192.168.0.1-192.168.15.254 and 192.168.2.1-192.168.2.254 overlap"
    );
    assert_eq!(refused(&["10.0.0.0/24", "2001:db8::/64"]), "mixed address families");
    assert_eq!(refused(&[]), "empty range set");
}

#[test]
fn b4_sets_of_sets() {
    let lower = |sets: &[&[&str]], version| {
        let specs: Vec<Vec<Spec>> = sets.iter().map(|set| set.iter().map(|net| spec(net)).collect()).collect();
        lower(&specs, version).map(|sets| sets.len())
    };
    let error = |text: &str| Err(text.to_owned());
    assert_eq!(lower(&[], "1.0.0"), error("no IP ranges specified"));
    assert_eq!(lower(&[&["10.1.0.0/22"], &["10.1.2.0/24"]], "1.0.0"), error("range set 0 overlaps with 1"));
    let overlap = error("invalid range set 0: subnets 10.1.0.1-10.1.3.254 and 10.1.2.1-10.1.2.254 overlap");
    assert_eq!(lower(&[&["10.1.0.0/22", "10.1.2.0/24"]], "1.0.0"), overlap);
    let mixed = error("invalid range set 1: mixed address families");
    assert_eq!(lower(&[&["10.0.0.0/24"], &["10.1.0.0/22", "2001:db8::/64"]], "1.0.0"), mixed);
    let two = [&["10.0.0.0/24"][..], &["10.1.0.0/24"]];
    for old in ["0.1.0", "0.2.0", ""] {
        let text = format!("CNI version {old} does not support more than 1 address per family");
        assert_eq!(lower(&two, old), Err(text));
        assert_eq!(lower(&[&["10.0.0.0/24"], &["2001:db8::/64"]], old), Ok(2));
    }
    for new in ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        assert_eq!(lower(&two, new), Ok(2));
    }
}

#[test]
fn b4_iterator() {
    let set = set(&["192.168.1.0/29"]);
    let from = |last: Option<&str>| {
        set.candidates(last.map(ip)).map(|address| address.to_string().pop().unwrap()).collect::<String>()
    };
    assert_eq!(from(None), "23456");
    assert_eq!(from(Some("192.168.1.6")), "23456");
    assert_eq!(from(Some("192.168.1.3")), "45623");
    let bare =
        |net: &str, start: &str, end: &str| Spec { gateway: Some(ip("9.9.9.9")), ..spec_from_to(net, start, end) };
    let two =
        [bare("192.168.1.0/24", "192.168.1.0", "192.168.1.3"), bare("192.168.2.0/24", "192.168.2.0", "192.168.2.3")];
    let two = Set::lower(&two).unwrap();
    assert_eq!(two.candidates(Some(ip("192.168.1.3"))).next(), Some(ip("192.168.2.0")));
    assert_eq!(two.candidates(None).next(), Some(ip("192.168.1.0")));
    assert_eq!(two.candidates(Some(ip("192.168.1.3"))).count(), 8);
}

#[test]
fn a_huge_range_is_not_walked() {
    let set = set(&["::/0"]);
    assert_eq!(set.candidates(Some(ip("2001:db8::ffff"))).next(), Some(ip("2001:db8::1:0")));
}
