//! Which rule wins, what is asked of the core, and what the core makes of it.

use crate::lower_all;
use crate::native::pod::{Applications, Asked, Attached, DefaultRoute, Namespace, Node, Owner, Plan, Pod, Rule, plan};
use crate::native::{Claim, lower_claim};
use crate::parse_manifests;
use berth_core::addr::Family;
use berth_core::error::Error;
use berth_core::holder::Sticky;
use berth_core::ipam::{Entropy, Group, Ipam, Outcome, Request};
use berth_core::net::Route;
use berth_core::time::Time;

const NOW: Time = Time::from_secs(1_000);

/// All that an agent knows, with nothing said about addresses.
#[derive(Clone, Default)]
pub(super) struct World {
    pub(super) pod: Pod,
    pub(super) namespace: Namespace,
    pub(super) node: Node,
    pub(super) interface: Attached,
    pub(super) others: Vec<Attached>,
    pub(super) applications: Applications,
}

impl World {
    pub(super) fn new() -> Self {
        let pod = Pod { namespace: "shop".into(), name: "web-0".into(), uid: "u1".into(), ..Pod::default() };
        let node = Node { name: "n1".into(), ..Node::default() };
        Self { pod, node, interface: nic("eth0"), ..Self::default() }
    }

    /// With annotations of the pod.
    pub(super) fn pod(mut self, annotations: &[(&str, &str)]) -> Self {
        self.pod.annotations.extend(annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        self
    }

    /// With annotations of the namespace.
    pub(super) fn namespace(mut self, annotations: &[(&str, &str)]) -> Self {
        self.namespace.annotations.extend(annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        self
    }

    pub(super) fn at(mut self, interface: Attached) -> Self {
        self.interface = interface;
        self
    }

    fn others(mut self, others: &[&str]) -> Self {
        self.others = others.iter().map(|name| nic(name)).collect();
        self
    }

    fn owned_by(mut self, kind: &str, controller: bool) -> Self {
        self.pod.owners.push(Owner { kind: kind.into(), controller, ..Owner::default() });
        self
    }

    pub(super) fn plan(&self) -> Result<Plan, Error> {
        plan(&Asked {
            pod: &self.pod,
            namespace: &self.namespace,
            node: &self.node,
            container: "c1",
            interface: &self.interface,
            others: &self.others,
            applications: &self.applications,
        })
    }
}

pub(super) fn nic(ifname: &str) -> Attached {
    let network = format!("cni-{ifname}");
    Attached { attachment: format!("kube-system/{ifname}"), network, ifname: ifname.into(), ..Attached::default() }
}

fn pools(group: &Group) -> Vec<&str> {
    group.pools.iter().map(String::as_str).collect()
}

#[test]
fn the_first_rule_that_speaks_wins_as_a_whole() {
    let all = || {
        World::new()
            .pod(&[("berth.io/networks", r#"[{"interface":"eth0","pools":["one"]}]"#), ("berth.io/pools", "two")])
            .namespace(&[("berth.io/pools", "three")])
            .at(Attached { pools: vec!["four".into()], families: vec![Family::V4], ..nic("eth0") })
    };
    let without = |steps: usize| {
        let mut world = all();
        if steps > 0 {
            world.pod.annotations.remove("berth.io/networks");
        }
        if steps > 1 {
            world.pod.annotations.clear();
        }
        if steps > 2 {
            world.namespace.annotations.clear();
        }
        if steps > 3 {
            world.interface = nic("eth0");
        }
        world.plan().expect("plans")
    };
    for (steps, rule, named, words) in [
        (
            0,
            Rule::Networks,
            &["one"][..],
            "eth0: pod annotation berth.io/networks[0] asks for pool one; overruled: pod annotation berth.io/pools, \
             namespace annotation berth.io/pools, the CNI configuration of network \"cni-eth0\" (pools, families)",
        ),
        (
            1,
            Rule::Pod,
            &["two"],
            "eth0: pod annotation berth.io/pools asks for pool two; overruled: namespace annotation berth.io/pools, \
             the CNI configuration of network \"cni-eth0\" (pools, families)",
        ),
        (
            2,
            Rule::Namespace,
            &["three"],
            "eth0: namespace annotation berth.io/pools asks for pool three; overruled: the CNI configuration of \
             network \"cni-eth0\" (pools, families)",
        ),
        (
            3,
            Rule::Configuration,
            &["four"],
            "eth0: the CNI configuration of network \"cni-eth0\" (pools, families) asks for pool four, IPv4 only",
        ),
        (4, Rule::Default, &[], "eth0: nothing asks for anything else than the default pools"),
    ] {
        let plan = without(steps);
        let [interface] = &plan.interfaces[..] else { panic!("one interface") };
        assert_eq!((interface.decided_by, interface.rule.as_str()), (rule, words));
        let [group] = &interface.request.groups[..] else { panic!("one group") };
        assert_eq!(pools(group), named);
        let families = if rule == Rule::Configuration { vec![Family::V4] } else { vec![] };
        assert_eq!(group.families, families, "nothing of an overruled rule is left");
    }
}

#[test]
fn a_pods_short_annotations_are_for_its_first_interface() {
    let world = World::new()
        .pod(&[("berth.io/pools", "a")])
        .namespace(&[("berth.io/pools", "b"), ("berth.io/pools.net2", "c,d*")]);
    for (ifname, rule, named, words) in [
        (
            "net1",
            Rule::Default,
            &[][..],
            "net1: nothing asks for anything else than the default pools; silent: pod annotation berth.io/pools (for \
             eth0 only), namespace annotation berth.io/pools (for eth0 only)",
        ),
        (
            "net2",
            Rule::Namespace,
            &["c", "d*"],
            "net2: namespace annotation berth.io/pools.net2 asks for pools c, d* in this order; silent: pod \
             annotation berth.io/pools (for eth0 only)",
        ),
    ] {
        let plan = world.clone().at(nic(ifname)).plan().expect("plans");
        assert_eq!((plan.interfaces[0].decided_by, plan.interfaces[0].rule.as_str()), (rule, words));
        assert_eq!(pools(&plan.interfaces[0].request.groups[0]), named);
    }
}

#[test]
fn all_that_is_known_goes_into_the_request() {
    let mut world = World::new().pod(&[("berth.io/pools", "a"), ("berth.io/addresses", "10.0.0.5, ::ffff:10.0.0.6")]);
    world.pod.labels.insert("app".into(), "web".into());
    world.namespace.labels.insert("tier".into(), "gold".into());
    world.node.labels.insert("zone".into(), "z".into());
    world.node.cidrs = vec!["172.20.1.0/24".parse().expect("a CIDR")];
    world.interface.domain = Some("red".into());
    let plan = world.plan().expect("plans");
    let Request { holder, subject, groups } = &plan.interfaces[0].request;
    let key = holder.attachment();
    assert_eq!((key.network, key.id, key.ifname), ("cni-eth0", "c1", "eth0"));
    let of = [&holder.namespace, &holder.pod, &holder.uid, &holder.node];
    assert_eq!(of, ["shop", "web-0", "u1", "n1"]);
    assert_eq!((subject.namespace.as_str(), subject.node.as_str()), ("shop", "n1"));
    assert_eq!(subject.attachment, "kube-system/eth0");
    assert_eq!(subject.node_cidrs, world.node.cidrs);
    let labels = [&subject.pod_labels, &subject.namespace_labels, &subject.node_labels];
    assert_eq!(labels, [&world.pod.labels, &world.namespace.labels, &world.node.labels]);
    assert_eq!(groups[0].network.as_deref(), Some("red"), "the wire binds under every rule");
    assert_eq!(groups[0].addresses, ["10.0.0.5", "10.0.0.6"].map(|a| a.parse::<std::net::IpAddr>().expect("an IP")));
    assert!(plan.interfaces[0].rule.contains("address 10.0.0.5, 10.0.0.6 of pool a, in network \"red\""));
}

#[test]
fn a_listed_pod_gets_all_its_known_interfaces_at_once() {
    let list = r#"[{"pools":["a"]},{"pools":["b"]},{"pools":["c"]}]"#;
    let names = |world: World| {
        let plan = world.pod(&[("berth.io/networks", list)]).plan().expect("plans");
        let served: Vec<String> = plan.interfaces.iter().map(|i| i.request.holder.ifname.clone()).collect();
        (served, plan.interfaces[0].rule.clone())
    };
    let (served, rule) = names(World::new().others(&["net2", "net1", "net9", "net1", "eth0"]));
    assert_eq!(served, ["eth0", "net2", "net1", "net9"], "the one asked about first, each once");
    assert!(!rule.contains("left to"), "{rule}");
    let (served, rule) = names(World::new().at(nic("net1")));
    assert_eq!(served, ["net1"], "what is not known is not guessed");
    assert!(rule.ends_with("; left to their own ADD, as nothing is known of them yet: eth0, net2"), "{rule}");
    let (served, _) = names(World::new().at(nic("net9")).others(&["eth0", "net1"]));
    assert_eq!(served, ["net9", "eth0", "net1"], "listed or not");
    let plan = World::new().others(&["net1"]).pod(&[("berth.io/networks", list)]).plan().expect("plans");
    assert_eq!(plan.interfaces[1].request.holder.network, "cni-net1");
    let awaited: Vec<bool> = plan.interfaces.iter().map(|i| i.request.holder.awaited).collect();
    assert_eq!(awaited, [false, true], "only the one asked about is told of its addresses");
    assert_eq!(plan.interfaces[1].request.subject.attachment, "kube-system/net1");
    assert_eq!(pools(&plan.interfaces[1].request.groups[0]), ["b"]);
}

#[test]
fn routes_are_no_wish_for_an_address() {
    let list = r#"[{"interface":"net1","defaultRoute":true,"routes":[{"dst":"10.9.0.0/16","gw":"10.0.0.9"}]}]"#;
    let net1 = Attached { pools: vec!["vlan".into()], ..nic("net1") };
    let plan = World::new().pod(&[("berth.io/networks", list)]).at(net1).plan().expect("plans");
    let interface = &plan.interfaces[0];
    assert_eq!((interface.decided_by, pools(&interface.request.groups[0])), (Rule::Configuration, vec!["vlan"]));
    assert!(interface.rule.contains("silent: pod annotation berth.io/networks[0] (routes only)"), "{}", interface.rule);
    assert_eq!(interface.routes.default, DefaultRoute::Here);
    assert_eq!(interface.routes.extra[0].dst, "10.9.0.0/16");
    let eth0 = World::new().pod(&[("berth.io/networks", list)]).plan().expect("plans");
    assert_eq!(eth0.interfaces[0].routes.default, DefaultRoute::Elsewhere, "a pod has one way out");
    let families = World::new().pod(&[("berth.io/networks", r#"[{"families":["IPv6"]}]"#)]).plan().expect("plans");
    assert_eq!(families.interfaces[0].decided_by, Rule::Networks);
    assert!(families.interfaces[0].rule.contains("asks for the default pools, IPv6 only"));
}

/// An allocator with these manifests.
fn ipam(manifests: &str) -> Ipam {
    let objects = parse_manifests(manifests).expect("parses");
    let config = lower_all(&objects).expect("lowers");
    config.validate().expect("is valid");
    let mut ipam = Ipam::new();
    ipam.configure(config);
    ipam
}

fn pool(name: &str, spec: &str) -> String {
    format!("---\napiVersion: berth.io/v1alpha1\nkind: IPPool\nmetadata: {{name: {name}}}\nspec: {spec}\n")
}

fn run(ipam: &mut Ipam, world: &World, container: &str) -> Result<Vec<Outcome>, Error> {
    let mut requests: Vec<Request> = world.plan()?.interfaces.into_iter().map(|i| i.request).collect();
    for request in &mut requests {
        container.clone_into(&mut request.holder.id);
        container.clone_into(&mut request.holder.uid);
    }
    let outcomes = ipam.allocate_all(&requests, NOW, &mut Entropy(7)).map_err(|(_, error)| error);
    ipam.commit();
    outcomes
}

fn addresses(outcomes: &[Outcome]) -> Vec<String> {
    outcomes.iter().flat_map(|o| &o.given).map(|given| given.address().to_string()).collect()
}

#[test]
fn pools_of_a_rule_are_tried_in_order_and_no_rule_falls_through_to_the_next() {
    let mut ipam = ipam(
        &[
            pool("b", "{ranges: [10.0.1.1]}"),
            pool("a", "{ranges: [10.0.2.1]}"),
            pool("closed", "{ranges: [10.0.3.1], allow: {namespaces: [other]}}"),
            pool("spare", "{ranges: [10.0.4.0/24], default: true}"),
        ]
        .concat(),
    );
    let world = World::new().pod(&[("berth.io/pools", "closed,b,a")]).namespace(&[("berth.io/pools", "spare")]);
    assert_eq!(addresses(&run(&mut ipam, &world, "1").expect("served")), ["10.0.1.1"]);
    assert_eq!(addresses(&run(&mut ipam, &world, "2").expect("served")), ["10.0.2.1"]);
    let error = run(&mut ipam, &world, "3").expect_err("full");
    assert_eq!(error.to_string(), "no address left in pools \"b\", \"a\"");
}

#[test]
fn replicas_of_one_deployment_get_the_subnet_of_their_node() {
    let rack =
        |n: u8| pool(&format!("rack{n}"), &format!("{{ranges: [172.20.{n}.0/24], allow: {{reachableNodes: true}}}}"));
    let mut ipam = ipam(&[rack(1), rack(2)].concat());
    let mut world = World::new().owned_by("ReplicaSet", true).pod(&[("berth.io/pools", "rack*")]);
    for (turn, n) in [2, 1, 2].into_iter().enumerate() {
        world.node.cidrs = vec![format!("172.20.{n}.0/24").parse().expect("a CIDR")];
        let got = addresses(&run(&mut ipam, &world, &format!("c{turn}")).expect("served"));
        assert!(got[0].starts_with(&format!("172.20.{n}.")), "{got:?}");
    }
}

#[test]
fn an_add_is_all_or_nothing_over_the_interfaces() {
    let mut ipam = ipam(
        &[
            pool("a", "{ranges: [10.0.1.0/24], allow: {attachments: [kube-system/eth0]}}"),
            pool("b", "{ranges: [10.0.2.1], allow: {attachments: [kube-system/net*]}}"),
        ]
        .concat(),
    );
    let list = r#"[{"interface":"eth0","pools":["a"]},{"interface":"net1","pools":["b"]}]"#;
    let world = World::new().others(&["net1"]).pod(&[("berth.io/networks", list)]);
    assert_eq!(addresses(&run(&mut ipam, &world, "1").expect("served")).len(), 2);
    run(&mut ipam, &world, "2").expect_err("net1 finds nothing");
    assert_eq!(ipam.slots().count(), 2, "and eth0 got nothing either");
    let second = world.clone().at(nic("net1")).others(&["eth0"]);
    let again = addresses(&run(&mut ipam, &second, "1").expect("served"));
    assert_eq!(again[0], "10.0.2.1", "the ADD of the second interface finds its address");
    let swapped = r#"[{"interface":"eth0","pools":["b"]}]"#;
    let error = run(&mut ipam, &World::new().pod(&[("berth.io/networks", swapped)]), "3").expect_err("refused");
    assert!(error.to_string().contains("attachment \"kube-system/eth0\" is not among kube-system/net*"), "{error}");
}

#[test]
fn sticky_pools_keep_addresses_for_names_that_come_back() {
    for (world, kept) in [
        (World::new(), true),
        (World::new().owned_by("StatefulSet", true), true),
        (World::new().owned_by("Node", true), true),
        (World::new().owned_by("Whatever", false), true),
        (World::new().owned_by("ReplicaSet", true), false),
        (World::new().owned_by("Whatever", false).owned_by("Job", true), false),
        (World::new().owned_by("StatefulSet", false).owned_by("DaemonSet", true), false),
    ] {
        let mut ipam = ipam(&pool("p", "{ranges: [10.0.0.0/24], sticky: {}}"));
        run(&mut ipam, &world, "c1").expect("served");
        let held = ipam.slots().filter(|(_, _, view)| view.identity().is_some()).count();
        assert_eq!(held, usize::from(kept), "{:?}", world.pod.owners);
    }
}

fn claim(spec: &str) -> Claim {
    let text = format!(
        "apiVersion: berth.io/v1alpha1\nkind: IPClaim\nmetadata: {{name: db, namespace: shop}}\nspec: {spec}\n"
    );
    lower_claim(&super::object(&text)).expect("lowers")
}

#[test]
fn a_claim_is_asked_for_by_name_and_put_in_later() {
    for world in [
        World::new().pod(&[("berth.io/claim", "db")]),
        World::new().pod(&[("berth.io/claim", "shop/db")]),
        World::new().pod(&[("berth.io/networks", "- claim: db")]),
        World::new().at(Attached { claim: Some("db".into()), pools: vec!["x".into()], ..nic("eth0") }),
    ] {
        let mut interface = world.plan().expect("plans").interfaces.remove(0);
        assert!(interface.rule.contains("asks for claim shop/db"), "{}", interface.rule);
        assert!(interface.request.groups.is_empty());
        let mut ipam = ipam(&pool("p", "{ranges: [10.0.0.0/24]}"));
        let error = ipam.allocate(&interface.request, NOW, &mut Entropy(7)).expect_err("refused");
        assert!(matches!(error, Error::Invalid { .. }), "a forgotten claim is no request for the default pools");
        interface.bind(&claim("{pools: [p], keep: 1h}")).expect("binds");
        assert_eq!(pools(&interface.request.groups[0]), ["p"]);
        let identity = interface.request.holder.sticky.as_ref().map(|Sticky { identity, .. }| identity.as_str());
        assert_eq!(identity, Some("claim/shop/db"));
        ipam.allocate(&interface.request, NOW, &mut Entropy(7)).expect("served");
    }
    let on_red = || World::new().at(Attached { claim: Some("db".into()), domain: Some("red".into()), ..nic("eth0") });
    let mut interface = on_red().plan().expect("plans").interfaces.remove(0);
    interface.bind(&claim("{pools: [p]}")).expect("binds");
    assert_eq!(interface.request.groups[0].network.as_deref(), Some("red"));
    let mut interface = on_red().plan().expect("plans").interfaces.remove(0);
    let error = interface.bind(&claim("{network: blue}")).expect_err("another wire").to_string();
    assert_eq!(
        error,
        "IPClaim \"shop/db\", spec.network: is \"blue\", and interface eth0 is on network \"red\"; use a claim of that \
         network"
    );
    assert!(interface.request.groups.is_empty());
    let mut plain = World::new().plan().expect("plans").interfaces.remove(0);
    plain.bind(&claim("{}")).expect_err("no claim was asked for");
}

#[test]
fn configured_addresses_and_ranges_count_as_without_a_cluster() {
    let ranges = vec![vec!["10.0.0.5-10.0.0.9".to_owned()], vec!["fd00::/120".to_owned()]];
    let attached = Attached { ranges: ranges.clone(), pools: vec!["p".into()], ..nic("eth0") };
    let plan = World::new().at(attached).plan().expect("plans");
    let groups = &plan.interfaces[0].request.groups;
    let within: Vec<String> = groups.iter().map(|group| group.within[0].to_string()).collect();
    assert_eq!(within, ["10.0.0.5-10.0.0.9", "fd00::/120"]);
    let exact = Attached { ranges, addresses: vec![[10, 0, 0, 7].into()], ..nic("eth0") };
    let plan = World::new().at(exact).plan().expect("plans");
    assert_eq!(plan.interfaces[0].request.groups.len(), 1);
    for (bad, expected) in [
        (vec![vec![]], "ipRanges[0]: is empty"),
        (vec![vec!["10.0.0.0/24".to_owned()], vec!["x".to_owned()]], "ipRanges[1]: "),
    ] {
        let error = World::new().at(Attached { ranges: bad, ..nic("eth0") }).plan().expect_err("refused").to_string();
        assert!(error.starts_with(&format!("CNI network \"cni-eth0\", {expected}")), "{error}");
    }
}

#[test]
fn routes_of_the_pod_change_those_of_the_pools() {
    let spec = "{ranges: [10.0.0.0/24], routes: [{dst: 0.0.0.0/0}, {dst: 10.9.0.0/16, gw: 10.0.0.3}]}";
    let answer = |ifname: &str, list: &str| {
        let mut ipam = ipam(&[pool("four", spec), pool("six", "{ranges: [\"fd00::/64\"]}")].concat());
        let plan = World::new().at(nic(ifname)).pod(&[("berth.io/networks", list)]).plan().expect("plans");
        let mut outcome = ipam.allocate(&plan.interfaces[0].request, NOW, &mut Entropy(7)).expect("served");
        plan.interfaces[0].routes.apply(&mut outcome, &[]);
        let text = |route: &Route| route.gw.map_or_else(|| route.dst.clone(), |gw| format!("{} via {gw}", route.dst));
        outcome.routes.iter().map(text).collect::<Vec<_>>()
    };
    for (ifname, list, expected) in [
        ("eth0", r#"[{"pools":["*"]}]"#, &["0.0.0.0/0", "10.9.0.0/16 via 10.0.0.3"][..]),
        ("eth0", r#"[{"defaultRoute":true}]"#, &["0.0.0.0/0", "10.9.0.0/16 via 10.0.0.3", "::/0"]),
        ("eth0", r#"[{"defaultRoute":false}]"#, &["10.9.0.0/16 via 10.0.0.3"]),
        ("eth0", r#"[{"pools":["*"]},{"defaultRoute":true}]"#, &["10.9.0.0/16 via 10.0.0.3"]),
        ("net7", r#"[{"defaultRoute":true}]"#, &["10.9.0.0/16 via 10.0.0.3"]),
        ("net1", r#"[{"routes":[{"dst":"::/0"}]},{"pools":["*"]}]"#, &["10.9.0.0/16 via 10.0.0.3"]),
        (
            "eth0",
            r#"[{"routes":[{"dst":"10.9.0.0/16","gw":"10.0.0.4"},{"dst":"0.0.0.0/0","gw":"10.0.0.5"}]}]"#,
            &["10.9.0.0/16 via 10.0.0.4", "0.0.0.0/0 via 10.0.0.5"],
        ),
        (
            "eth0",
            r#"[{"defaultRoute":true,"routes":[{"dst":"::/0","gw":"fd00::9"}]}]"#,
            &["0.0.0.0/0", "10.9.0.0/16 via 10.0.0.3", "::/0 via fd00::9"],
        ),
    ] {
        assert_eq!(answer(ifname, list), expected, "{ifname} {list}");
    }
}
