//! Annotations of pods and namespaces: a plan, or an error that names the annotation, never anything else.

use crate::bytes::Bytes;
use berth_core::error::Error;
use berth_dialects::native::pod::{
    ADDRESSES, Applications, Asked, Attached, CLAIM, KEEP_POOL, MAX_INTERFACES, MAX_LIST, NETWORKS, Namespace, Node,
    POOL_SIZE, POOLS, Pod, SUBNETS, Terms, plan,
};
use berth_dialects::spiderpool::settings::Conf;

/// The first byte says which annotations are there, the second which interface asks; the rest is their text.
pub fn check(data: &[u8]) {
    let mut bytes = Bytes(data);
    let (keys, ifname) = (bytes.below(255), bytes.one_of(&["eth0", "net1", "net2"]));
    let Ok(text) = std::str::from_utf8(bytes.0) else { return };
    let nic = |ifname: &str| Attached { ifname: ifname.to_owned(), network: ifname.to_owned(), ..Attached::default() };
    let mut pod = Pod { namespace: "ns".to_owned(), name: "pod".to_owned(), ..Pod::default() };
    let mut namespace = Namespace::default();
    for (bit, key) in [NETWORKS, POOLS, ADDRESSES, CLAIM].into_iter().enumerate() {
        if keys >> bit & 1 == 1 {
            pod.annotations.insert(key.to_owned(), text.to_owned());
        }
    }
    for (bit, key) in [SUBNETS, POOL_SIZE, KEEP_POOL].into_iter().enumerate() {
        if keys >> (bit + 5) & 1 == 1 {
            pod.annotations.insert(key.to_owned(), text.to_owned());
        }
    }
    if let Ok(terms) = Terms::read(&pod.annotations, &Conf::default()) {
        assert!(terms.interfaces.len() <= MAX_INTERFACES + 1);
        assert!(terms.interfaces.iter().all(|(_, subnets)| (1..=MAX_LIST).contains(&subnets.len())));
    }
    if keys >> 4 & 1 == 1 {
        namespace.annotations.insert(POOLS.to_owned(), text.to_owned());
        namespace.annotations.insert(format!("{POOLS}.net1"), text.to_owned());
    }
    let (interface, others) = (nic(ifname), ["eth0", "net1", "net2"].map(nic));
    let asked = Asked {
        pod: &pod,
        namespace: &namespace,
        node: &Node::default(),
        container: "c",
        interface: &interface,
        others: &others,
        applications: &Applications::default(),
    };
    let plan = match plan(&asked) {
        Ok(plan) => plan,
        Err(Error::Invalid { field, reason }) => {
            assert!(field.contains(", annotation berth.io/") && !reason.is_empty(), "{field}: {reason}");
            return;
        }
        Err(other) => panic!("annotations can be invalid and nothing else: {other}"),
    };
    assert!((1..=MAX_INTERFACES).contains(&plan.interfaces.len()));
    assert_eq!(plan.interfaces[0].request.holder.ifname, ifname);
    for (i, one) in plan.interfaces.iter().enumerate() {
        assert!(!plan.interfaces[..i].iter().any(|other| other.request.holder.ifname == one.request.holder.ifname));
        assert!(one.rule.starts_with(&one.request.holder.ifname), "{}", one.rule);
        assert_eq!(one.claim.is_some(), one.request.groups.is_empty(), "a claim asks for nothing until it is found");
        assert!(one.claim.as_ref().is_none_or(|claim| claim.namespace == "ns"), "a pod uses its own claims");
        assert!(one.routes.extra.len() <= MAX_LIST);
        for group in &one.request.groups {
            assert!(group.pools.len() <= MAX_LIST && group.addresses.len() <= MAX_LIST && group.families.len() <= 2);
            assert!(group.pools.iter().all(|name| !name.is_empty()));
        }
    }
}
