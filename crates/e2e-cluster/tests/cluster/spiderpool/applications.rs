//! Pools by hand and pools that follow applications: the walk-through of Spiderpool's guide for third-party controllers.

use super::{apply, install, start};
use berth_e2e::until;
use berth_e2e_cluster::{Agent, Pod, World};
use serde_json::{Value, json};

/// OpenKruise's CloneSet, as far as anybody looks at it, and the right to read it.
fn install_clone_sets(world: &World) {
    let version = json!({"name": "v1alpha1", "served": true, "storage": true,
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clonesets.apps.kruise.io"},
        "spec": {"group": "apps.kruise.io", "scope": "Namespaced",
            "names": {"kind": "CloneSet", "plural": "clonesets", "singular": "cloneset"}, "versions": [version]}});
    world.apply(&crd.to_string());
    world.plane.kubectl_ok(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"]).unwrap();
    world.apply("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: kruise}, rules: [{apiGroups: [apps.kruise.io], resources: ['*'], verbs: [get, list, watch]}]}");
    world.apply("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: kruise}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kruise}, subjects: [{kind: ServiceAccount, name: berth-controller, namespace: berth-system}]}");
}

/// Makes or scales the CloneSet of the guide; its UID.
fn clone_set(world: &World, replicas: u32, annotations: &Value) -> String {
    let labels = json!({"app": "custom-kruise-cloneset"});
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": {"name": "custom-kruise-cloneset", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"annotations": annotations, "labels": labels},
                "spec": {"containers": [{"name": "custom-kruise-cloneset", "image": "busybox"}]}}}});
    world.apply(&object.to_string());
    world.field("clonesets.apps.kruise.io/custom-kruise-cloneset", ".metadata.uid")
}

/// Makes the pods of the CloneSet, as OpenKruise would.
fn clones(world: &World, names: &[&str], uid: &str, annotations: &Value) -> Vec<Pod> {
    let owner = json!([{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "custom-kruise-cloneset",
        "uid": uid, "controller": true}]);
    let one = |name: &&str| {
        let name = format!("custom-kruise-cloneset-{name}");
        world.make_pod("n1", &name, &json!({"annotations": annotations, "ownerReferences": owner}))
    };
    names.iter().map(one).collect()
}

/// A table of `kubectl get`: the header and the row of an object, with single spaces.
fn table(world: &World, what: &[&str], row: &str) -> (String, String) {
    let text = world.plane.kubectl_ok(&[&["get"], what].concat()).unwrap();
    let tidy = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let found = text.lines().find(|line| line.starts_with(row)).map(tidy).unwrap_or_default();
    (text.lines().next().map(tidy).unwrap_or_default(), found)
}

#[track_caller]
fn row(world: &World, what: &[&str], name: &str, expected: &str) {
    until(&format!("{expected}, not {:?}", table(world, what, name)), || {
        (table(world, what, name).1 == expected).then_some(())
    });
}

fn release(world: &World, agent: &Agent, pods: &[Pod]) {
    for pod in pods {
        agent.del(pod, &pod.name).silent();
        world.delete_pod(pod);
    }
}

#[test]
fn t00001_a_clone_set_with_a_manual_pool() {
    let Some(world) = start() else { return };
    install_clone_sets(&world);
    let _controller = world.controller("r1", &[]);
    let agent = world.agent("n1");
    // As it is in the guide, without a version.
    apply(
        &world,
        "SpiderIPPool",
        "custom-ipv4-ippool",
        &json!({"subnet": "172.18.41.0/24", "ips": ["172.18.41.40-172.18.41.50"]}),
    );
    let asks = json!({"ipam.spidernet.io/ippool": "{\n  \"ipv4\": [\"custom-ipv4-ippool\"]\n}"});
    let uid = clone_set(&world, 3, &asks);
    let pods = clones(&world, &["8m9ls", "c4z9f", "w9kfm"], &uid, &asks);
    until("the pool", || (agent.add(&pods[0], &pods[0].name).code == 0).then_some(()));
    let addresses: Vec<String> = pods.iter().map(|pod| agent.address(pod, &pod.name).to_string()).collect();
    assert_eq!(addresses, ["172.18.41.40", "172.18.41.41", "172.18.41.42"], "the lowest free one first");
    row(&world, &["sp"], "custom-ipv4-ippool", "custom-ipv4-ippool 4 172.18.41.0/24 3 11 false false");
    let header = "NAME VERSION SUBNET ALLOCATED-IP-COUNT TOTAL-IP-COUNT DEFAULT DISABLE APP-NAMESPACE";
    assert_eq!(table(&world, &["sp"], "").0, header);
    row(&world, &["sp", "-o", "wide"], "custom-ipv4", "custom-ipv4-ippool 4 172.18.41.0/24 3 11 false false");
    let records: Value = serde_json::from_str(&world.field("sp/custom-ipv4-ippool", ".status.allocatedIPs")).unwrap();
    assert_eq!(records["172.18.41.40"], json!({"pod": "default/custom-kruise-cloneset-8m9ls", "podUid": pods[0].uid}));
    assert_eq!(
        world.field("sp/custom-ipv4-ippool", ".metadata.labels.ipam\\.spidernet\\.io/ippool-cidr"),
        "172-18-41-0-24"
    );
    until("the finalizer", || {
        (world.field("sp/custom-ipv4-ippool", ".metadata.finalizers") == r#"["spiderpool.spidernet.io"]"#).then_some(())
    });
    row(
        &world,
        &["se"],
        "custom-kruise-cloneset-8m9ls",
        "custom-kruise-cloneset-8m9ls eth0 custom-ipv4-ippool 172.18.41.40/24 n1",
    );
    assert_eq!(table(&world, &["se"], "").0, "NAME INTERFACE IPV4POOL IPV4 IPV6POOL IPV6 NODE");
    assert_eq!(world.field("se/custom-kruise-cloneset-8m9ls", ".status.ownerControllerType"), "CloneSet");
    release(&world, &agent, &pods);
    row(&world, &["sp"], "custom-ipv4-ippool", "custom-ipv4-ippool 4 172.18.41.0/24 0 11 false false");
    assert_eq!(world.field("sp/custom-ipv4-ippool", ".status.allocatedIPs"), "", "nothing is no string");
    until("no endpoints", || world.plane.kubectl_ok(&["get", "se", "-o", "name"]).unwrap().is_empty().then_some(()));
    world.check();
}

#[test]
fn t00002_a_clone_set_with_automatic_pools() {
    let Some(world) = start() else { return };
    install_clone_sets(&world);
    let _controller = world.controller("r1", &[]);
    let agent = world.agent("n1");
    apply(
        &world,
        "SpiderSubnet",
        "subnet-demo-v4",
        &json!({"subnet": "172.16.0.0/16", "ips": ["172.16.41.1-172.16.41.200"]}),
    );
    let six = json!({"subnet": "fc00:f853:ccd:e790::/64", "ips": ["fc00:f853:ccd:e790::10-fc00:f853:ccd:e790::ff"]});
    apply(&world, "SpiderSubnet", "subnet-demo-v6", &six);
    let asks = json!({"ipam.spidernet.io/subnet": r#"{"ipv4": ["subnet-demo-v4"], "ipv6": ["subnet-demo-v6"]}"#,
        "ipam.spidernet.io/ippool-ip-number": "5"});
    let uid = clone_set(&world, 3, &asks);
    let pods = clones(&world, &["f52dn", "mq67v", "nprpf"], &uid, &asks);
    until("the pools", || (agent.add(&pods[0], &pods[0].name).code == 0).then_some(()));
    for pod in &pods {
        let added = agent.add(pod, &pod.name);
        assert_eq!(added.code, 0, "{added:?}");
        assert!(added.addresses()[0].starts_with("172.16.41."), "{added:?}");
        assert!(added.addresses()[1].starts_with("fc00:f853:ccd:e790::1"), "{added:?}");
    }
    let part: String = uid.rsplit('-').next().unwrap().chars().take(5).collect();
    let (four, six) =
        (format!("auto4-custom-kruise-cloneset-eth0-{part}"), format!("auto6-custom-kruise-cloneset-eth0-{part}"));
    row(&world, &["sp", "-o", "wide"], &four, &format!("{four} 4 172.16.0.0/16 3 5 false false default"));
    row(&world, &["sp", "-o", "wide"], &six, &format!("{six} 6 fc00:f853:ccd:e790::/64 3 5 false false default"));
    row(&world, &["ss"], "subnet-demo-v4", "subnet-demo-v4 4 172.16.0.0/16 5 200");
    let controlled: Value =
        serde_json::from_str(&world.field("ss/subnet-demo-v4", ".status.controlledIPPools")).unwrap();
    let application = "apps.kruise.io_v1alpha1_CloneSet_default_custom-kruise-cloneset";
    assert_eq!(controlled, json!({&four: {"ips": ["172.16.41.1-172.16.41.5"], "application": application}}));
    // The guide says that it cannot be done; by the scale subresource it can.
    let flexible = json!({"ipam.spidernet.io/subnet": asks["ipam.spidernet.io/subnet"], "ipam.spidernet.io/ippool-ip-number": "+1"});
    clone_set(&world, 7, &flexible);
    row(&world, &["sp"], &four, &format!("{four} 4 172.16.0.0/16 3 8 false false default"));
    // The pods of others are kept out, even by name.
    let stranger =
        world.pod("n1", "stranger", &json!({"ipam.spidernet.io/ippool": json!({"ipv4": [&four]}).to_string()}));
    let refused = agent.add(&stranger, "stranger");
    assert_ne!(refused.code, 0, "{refused:?}");
    // Nor do bare pods have pools of their own.
    let bare = world.pod("n1", "bare", &asks);
    assert!(agent.add(&bare, "bare").stdout.contains("only pods of a controller"), "i00023");
    world.plane.kubectl_ok(&["delete", "clonesets.apps.kruise.io", "--all"]).unwrap();
    release(&world, &agent, &pods);
    until("no pools", || world.plane.kubectl_ok(&["get", "sp", "-o", "name"]).unwrap().is_empty().then_some(()));
    row(&world, &["ss"], "subnet-demo-v4", "subnet-demo-v4 4 172.16.0.0/16 0 200");
    world.check();
}

#[test]
fn i00015_an_automatic_pool_that_is_kept_is_found_again() {
    let Some(world) = start() else { return };
    let _controller = world.controller("r1", &[]);
    apply(&world, "SpiderSubnet", "s", &json!({"subnet": "10.9.0.0/24", "ips": ["10.9.0.10-10.9.0.99"]}));
    let deployment = |reclaim: &str| {
        let annotations = json!({"ipam.spidernet.io/subnet": r#"{"ipv4": ["s"]}"#, "ipam.spidernet.io/ippool-ip-number": "+2",
            "ipam.spidernet.io/ippool-reclaim": reclaim});
        let template = json!({"metadata": {"labels": {"app": "web"}, "annotations": annotations},
            "spec": {"containers": [{"name": "c", "image": "none"}]}});
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}});
        world.apply(&object.to_string());
        world.field("deployment/web", ".metadata.uid")
    };
    let pools = || world.plane.kubectl_ok(&["get", "sp", "-o", "name"]).unwrap().trim().to_owned();
    deployment("false");
    let pool = until("a pool", || Some(pools()).filter(|pools| !pools.is_empty()));
    row(&world, &["ss"], "s ", "s 4 10.9.0.0/24 4 90");
    assert_eq!(world.field(&pool, ".metadata.annotations.ipam\\.spidernet\\.io/ippool-ip-number"), "+2");
    let subnet = world.field("spidersubnet/s", ".metadata.uid");
    until("its subnet to own it", || (world.field(&pool, ".metadata.ownerReferences[0].uid") == subnet).then_some(()));
    world.plane.kubectl_ok(&["delete", "deployment", "web"]).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(pools(), pool, "it is kept");
    let uid = deployment("false");
    let label = |name: &str| world.field(&pool, &format!(".metadata.labels.ipam\\.spidernet\\.io/{name}"));
    until("the new UID", || (label("owner-application-uid") == uid).then_some(()));
    deployment("true");
    until("the switch", || (label("ippool-reclaim") == "true").then_some(()));
    world.plane.kubectl_ok(&["delete", "deployment", "web"]).unwrap();
    until("no pool", || pools().is_empty().then_some(()));
}

#[test]
fn a_pool_in_use_stays_and_kinds_that_come_later_are_noticed() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    let _controller = world.controller("r1", &[]);
    let agent = world.agent("n1");
    install(&world);
    apply(
        &world,
        "SpiderIPPool",
        "p",
        &json!({"subnet": "10.9.0.0/24", "ips": ["10.9.0.10-10.9.0.12"], "default": true}),
    );
    apply(&world, "SpiderReservedIP", "r", &json!({"ips": ["10.9.0.10"]}));
    let pod = world.pod("n1", "web", &json!({}));
    let started = std::time::Instant::now();
    while agent.add(&pod, "c").code != 0 {
        assert!(started.elapsed().as_secs() < 90, "the kinds are noticed");
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    until("the reservation's version", || (world.field("sr/r", ".spec.ipVersion") == "4").then_some(()));
    let used = until("a record", || Some(world.field("sp/p", ".status.allocatedIPCount")).filter(|count| count == "1"));
    assert_eq!(used, "1");
    // A name that a pool of another kind has.
    world.pool("p", &json!({"ranges": ["10.8.0.0/24"]}));
    until("the refusal", || {
        let path = ".status.conditions[?(@.type=='Accepted')].reason";
        (world.field("ippools.berth.io/p", path) == "NameTaken").then_some(())
    });
    world.plane.kubectl_ok(&["delete", "sp", "p", "--wait=false"]).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(world.field("sp/p", ".metadata.name"), "p", "it is in use and stays");
    let another = world.pod("n1", "another", &json!({"ipam.spidernet.io/ippool": r#"{"ipv4":["p"]}"#}));
    assert_ne!(agent.add(&another, "c2").code, 0, "it gives out nothing new");
    agent.del(&pod, "c").silent();
    until("the pool is gone", || {
        let left = world.plane.kubectl_ok(&["get", "sp", "-o", "name"]).unwrap();
        left.is_empty().then_some(())
    });
}
