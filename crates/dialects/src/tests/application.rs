//! Pods that ask for a pool of their application, and the pools as objects.

use super::pod::{World, nic};
use crate::native::application::{pool_patch, raise_pool};
use crate::native::lower_pool;
use crate::native::pod::{Applications, Owner, Pod, Terms};
use crate::spiderpool::settings::Conf;
use crate::{Object, lower_all, parse_manifests};
use berth_core::apps::{Application, Effect, Identity, Size, Workload, World as Planned, decide, pool_name};
use berth_core::detect::{Conflicts, Detection, GatewayCheck};
use berth_core::error::Error;
use berth_core::ipam::Config;
use std::collections::BTreeMap;

const CONFIGURED: &str = r#"
apiVersion: berth.io/v1alpha1
kind: IPSubnet
metadata: {name: a}
spec: {cidr: 10.0.0.0/24}
---
apiVersion: berth.io/v1alpha1
kind: IPSubnet
metadata: {name: six}
spec: {cidr: "fd00::/64"}
---
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: web4}
spec: {ranges: [10.0.0.2], subnet: a, application: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web}}
---
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: web6}
spec: {ranges: ["fd00::2"], subnet: six, application: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web}}
---
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: web4-net1}
spec:
  ranges: [10.0.0.3]
  subnet: a
  application: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web, interface: net1}
---
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: rollout}
spec:
  ranges: [10.0.0.4]
  subnet: a
  application: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, namespace: shop, name: r, uid: u9, controllers: [rs9]}
---
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: cron}
spec: {ranges: [10.0.0.5], subnet: a, application: {apiVersion: batch/v1, kind: CronJob, namespace: shop, name: tidy}}
---
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: job}
spec: {ranges: [10.0.0.6], subnet: a, application: {apiVersion: batch/v1, kind: Job, namespace: shop, name: tidy-7}}
"#;

fn configured() -> Config {
    lower_all(&parse_manifests(CONFIGURED).expect("reads")).expect("lowers")
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Owner {
    Owner { api_version: api_version.into(), kind: kind.into(), name: name.into(), uid: uid.into(), controller: true }
}

/// A pod of that owner that asks for these subnets.
fn asking(owner: Owner, annotations: &[(&str, &str)]) -> World {
    let mut world = World::new().pod(annotations);
    world.applications = Applications::of(&configured(), &Conf::default());
    world.pod.owners.push(owner);
    world
}

fn of_web(annotations: &[(&str, &str)]) -> World {
    let mut world = asking(owner("apps/v1", "ReplicaSet", "web-5d4f", "rs1"), annotations);
    world.pod.labels.insert("pod-template-hash".into(), "5d4f".into());
    world
}

fn pools(world: &World) -> Vec<String> {
    world.plan().expect("plans").interfaces[0].request.groups[0].pools.clone()
}

#[test]
fn a_pod_finds_the_pools_of_its_application_in_the_order_of_its_subnets() {
    assert_eq!(pools(&of_web(&[("berth.io/subnets", "a")])), ["web4"]);
    assert_eq!(pools(&of_web(&[("berth.io/subnets", "six,a")])), ["web6", "web4"]);
    assert_eq!(pools(&of_web(&[("berth.io/subnets", "[a, six]"), ("berth.io/pool-size", "+2")])), ["web4", "web6"]);
    let listed = [("berth.io/networks", "[{interface: eth0}, {interface: net1, subnets: [a]}]")];
    assert_eq!(pools(&of_web(&listed).at(nic("net1"))), ["web4-net1"]);
    let plan = of_web(&[("berth.io/subnets", "a")]).plan().expect("plans");
    let words = "eth0: pod annotation berth.io/subnets asks for pool web4 of its application in subnet a";
    assert_eq!(plan.interfaces[0].rule, words);
    assert_eq!(plan.interfaces[0].request.subject.controllers.len(), 2);
}

#[test]
fn whose_pod_it_is_is_told_by_names_only_where_kubernetes_makes_them() {
    let ask = [("berth.io/subnets", "a")];
    assert_eq!(pools(&asking(owner("apps/v1", "ReplicaSet", "r-1", "rs9"), &ask)), ["rollout"], "in between");
    assert_eq!(pools(&asking(owner("batch/v1", "Job", "tidy-28391", "j1"), &ask)), ["cron"]);
    assert_eq!(pools(&asking(owner("batch/v1", "Job", "tidy-7", "j2"), &ask)), ["job"], "its own goes first");
    let other = |api: &str, kind: &str, name: &str| {
        let error = asking(owner(api, kind, name, "u"), &ask).plan().expect_err("not its pool");
        assert!(matches!(error, Error::PoolPending { .. }), "{error}");
    };
    // Without the label that only the Deployment's controller sets, a name says nothing.
    other("apps/v1", "ReplicaSet", "web-5d4f");
    other("apps/v1", "StatefulSet", "web");
    other("apps.kruise.io/v1beta1", "Job", "tidy-28391");
    other("batch/v1", "Job", "tidy-x");
    other("batch/v1", "Job", "tidy");
}

#[test]
fn what_is_not_there_yet_is_told_from_what_never_will_be() {
    let error = of_web(&[("berth.io/subnets", "a")]).at(nic("eth0"));
    assert!(error.plan().is_ok());
    let mut late = of_web(&[("berth.io/subnets", "a,six")]);
    late.applications = {
        let mut config = configured();
        config.pools.remove("web6");
        Applications::of(&config, &Conf::default())
    };
    let error = late.plan().expect_err("one family is missing");
    assert_eq!(error.to_string(), "Deployment shop/web has no pool of a, six for eth0 yet");
    assert_eq!(error.names().cni, 11, "try again");
    let mut bare = of_web(&[("berth.io/subnets", "a")]);
    bare.pod.owners.clear();
    let said = bare.plan().expect_err("nobody's").to_string();
    assert!(said.contains("only pods of a controller") && said.contains("berth.io/subnets"), "{said}");
    let said = of_web(&[("berth.io/subnets", "a,b")]).plan().expect_err("no such subnet").to_string();
    assert!(said.contains("subnet \"b\" does not exist"), "{said}");
}

#[test]
fn wishes_that_exclude_each_other_are_refused() {
    for (annotations, words) in [
        (&[("berth.io/subnets", "a"), ("berth.io/pools", "x")][..], "annotation berth.io/pools: remove it, or"),
        (&[("berth.io/subnets", "a"), ("berth.io/addresses", "10.0.0.9")], "berth.io/addresses: remove it"),
        (&[("berth.io/subnets", "a"), ("berth.io/claim", "c")], "berth.io/claim: remove it"),
        (&[("berth.io/subnets", "a,a")], "berth.io/subnets[1]: \"a\" is there twice"),
        (&[("berth.io/subnets", "A")], "berth.io/subnets[0]: \"A\" is not a valid name"),
        (&[("berth.io/subnets", "a"), ("berth.io/pool-size", "many")], "berth.io/pool-size: \"many\" is no size"),
        (&[("berth.io/subnets", "a"), ("berth.io/keep-pool", "yes")], "berth.io/keep-pool: \"yes\" is neither"),
        (&[("berth.io/subnet", "a")], "did you mean berth.io/subnets?"),
        (&[("berth.io/networks", "[{subnets: [a], pools: [x]}]")], "networks[0].pools: leave it out: subnets"),
        (&[("berth.io/networks", "[{subnets: [a], families: [IPv4]}]")], "networks[0].families: leave it out"),
    ] {
        let said = of_web(annotations).plan().expect_err(words).to_string();
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_template_says_what_is_wanted_for_every_interface() {
    let read = |annotations: &[(&str, &str)]| {
        let all: BTreeMap<String, String> =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Terms::read(&all, &Conf::default())
    };
    let eth0 = |subnets: &[&str]| ("eth0".to_owned(), subnets.iter().map(|&s| s.to_owned()).collect::<Vec<_>>());
    let terms = read(&[("berth.io/subnets", "a, six"), ("berth.io/pool-size", "5"), ("berth.io/keep-pool", "true")]);
    let expected =
        Terms { interfaces: vec![eth0(&["a", "six"])], size: Some(Size::Fixed(5)), keep: true, detect: None };
    assert_eq!(terms, Ok(expected));
    let both = [("berth.io/networks", "[{interface: net1, subnets: [b]}]"), ("berth.io/subnets", "a")];
    let interfaces = read(&both).expect("reads").interfaces;
    assert_eq!(interfaces, [eth0(&["a"]), ("net1".to_owned(), vec!["b".to_owned()])]);
    let overruled = [("berth.io/networks", "[{pools: [x]}, {subnets: [b]}]"), ("berth.io/subnets", "a")];
    assert_eq!(read(&overruled).expect("reads").interfaces, [("net1".to_owned(), vec!["b".to_owned()])]);
    assert_eq!(read(&[("berth.io/pool-size", "nonsense")]), Ok(Terms::default()), "what has no effect is not read");
    let detect = |text: &str| read(&[("berth.io/subnets", "a"), ("berth.io/detect", text)]).map(|terms| terms.detect);
    assert_eq!(detect("{}"), Ok(Some(Detection::default())));
    for wrong in ["", "yes", r#"{"conflicts": "Sometimes"}"#, r#"{"gateways": "Warn"}"#] {
        let error = detect(wrong).expect_err("not accepted").to_string();
        assert!(error.contains("berth.io/detect"), "{error}");
    }
}

#[test]
fn pods_that_are_numbered_or_called_like_their_controller_keep_their_names() {
    let pod = |name: &str, kind: &str, owner_name: &str| {
        let owners = vec![owner("example.org/v1", kind, owner_name, "u")];
        Pod { name: name.into(), owners, ..Pod::default() }.has_stable_name()
    };
    assert!(pod("pg-1", "Cluster", "pg") && pod("pg-9999", "Cluster", "pg") && pod("pg", "Cluster", "pg"));
    assert!(!pod("pg-x7k2p", "CloneSet", "pg") && !pod("pg-24567", "CloneSet", "pg"), "five characters are drawn");
    assert!(!pod("pg-01", "Cluster", "pg") && !pod("pg-", "Cluster", "pg") && !pod("other-1", "Cluster", "pg"));
}

#[test]
fn the_pods_of_a_virtual_machine_come_back_as_the_machine() {
    let pod = |name: &str, version: &str, kind: &str, uid: &str| {
        let owners = vec![owner(version, kind, "vm", uid)];
        Pod { namespace: "a".into(), name: name.into(), uid: name.into(), owners, ..Pod::default() }
    };
    let launcher = |name: &str, uid: &str| pod(name, "kubevirt.io/v1", "VirtualMachineInstance", uid);
    let first = launcher("virt-launcher-vm-x7k2p", "i1");
    assert_eq!((first.machine(), first.lasting_name()), (Some("vm"), Some("vm")));
    assert_eq!(first.identity("eth0").as_deref(), Some("machine/a/vm/eth0"));
    assert!(!first.is_of_set());
    assert_eq!(launcher("virt-launcher-vm-aaaaa", "i2").identity("net1").as_deref(), Some("machine/a/vm/net1"));
    assert!(pod("p", "kubevirt.io/v1alpha3", "VirtualMachineInstance", "i1").machine().is_some(), "of any version");
    for (version, kind) in [("example.org/v1", "VirtualMachineInstance"), ("kubevirt.io/v1", "VirtualMachine")] {
        let other = pod("virt-launcher-vm-x7k2p", version, kind, "i1");
        assert_eq!((other.machine(), other.identity("eth0")), (None, None), "{version} {kind}");
    }
    assert_eq!(pod("vm", "apps/v1", "StatefulSet", "s").identity("eth0").as_deref(), Some("pod/a/vm/eth0"));

    // It moves only where KubeVirt makes it move, from a pod of the very same instance.
    let moving = |mut pod: Pod| {
        pod.annotations.insert("kubevirt.io/migrationJobName".into(), "m1".into());
        pod
    };
    let (target, elsewhere) = (moving(launcher("t", "i1")), moving(launcher("t", "i2")));
    assert!(target.moves_from(&first));
    assert!(!launcher("t", "i1").moves_from(&first), "no migration");
    assert!(!elsewhere.moves_from(&first), "another instance of the name");
    assert!(!target.moves_from(&target), "from itself");
    assert!(!target.moves_from(&Pod { namespace: "b".into(), ..first.clone() }), "another namespace");
    assert!(!moving(launcher("t", "")).moves_from(&launcher("s", "")), "nothing tells");
    assert!(!target.moves_from(&pod("s", "apps/v1", "StatefulSet", "i1")));
}

#[test]
fn what_is_decided_reads_back_as_the_same_pool() {
    let who =
        Identity { group: "apps".into(), kind: "StatefulSet".into(), namespace: "shop".into(), name: "db".into() };
    let workload = Workload {
        api_version: "apps/v1".into(),
        identity: who.clone(),
        uid: "u1".into(),
        controllers: vec!["c1".into()],
        interfaces: vec![("net1".into(), vec!["a".into(), "six".into()])],
        replicas: Some(3),
        keep: true,
        stable: true,
        detect: Some(Detection { conflicts: Conflicts::Rfc5227, gateway: GatewayCheck::Require }),
        ..Workload::default()
    };
    let config = configured();
    let world = Planned { config: &config, occupied: &BTreeMap::new(), name: pool_name };
    let effects = decide(&who, Some(&workload), &world);
    assert_eq!(effects.len(), 2);
    for effect in effects {
        let Effect::Create(pool) = effect else { panic!("{effect:?}") };
        let object = raise_pool(&pool);
        assert_eq!(lower_pool(&object).expect("lowers"), *pool);
        // And as a manifest, with everything that is checked of one.
        let text = serde_json::to_string(&object).expect("JSON");
        assert_eq!(parse_manifests(&text).expect("reads")[0].spec, object.spec);
        let mut changed: Object = object;
        let own = Application { uid: "u2".into(), keep: false, ..pool.application.clone().expect("one") };
        let patch = pool_patch(&pool.ranges[..1], &own, Some(Detection::default()));
        for (key, value) in patch["spec"].as_object().expect("fields") {
            changed.spec[key] = value.clone();
        }
        let lowered = lower_pool(&changed).expect("lowers");
        assert_eq!((lowered.application, lowered.ranges.len()), (Some(own), 1));
        assert_eq!(lowered.detect, Some(Detection::default()));
    }
}

#[test]
fn a_pool_made_before_its_subnet_is_of_it_unless_it_says_otherwise() {
    let config = |spec: &str| {
        let pool = super::native("IPPool", "p", spec);
        let all = format!("{CONFIGURED}---\n{pool}");
        lower_all(&parse_manifests(&all).expect("reads")).expect("lowers")
    };
    for (spec, adopted) in [
        ("{ranges: [10.0.0.20-10.0.0.29]}", true),
        ("{ranges: [10.0.0.20, 10.0.0.99]}", true),
        ("{ranges: [10.0.0.20-10.0.0.29], prefixLength: 24}", true),
        ("{ranges: [10.0.0.20-10.0.0.29], prefixLength: 25}", false),
        ("{ranges: [10.0.0.64/26]}", false),
        ("{ranges: [10.0.0.20, 10.0.1.20]}", false),
        ("{ranges: [10.0.0.20-10.0.0.29], network: red}", false),
    ] {
        assert_eq!(config(spec).pools["p"].subnet.is_some(), adopted, "{spec}");
    }
}
