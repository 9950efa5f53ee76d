//! Pools that follow applications. The test plays the controllers that make pods, and their kubelet.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use berth_e2e::until;
use berth_e2e_cluster::World;
use serde_json::{Value, json};
use std::net::IpAddr;

fn deployment(world: &World, name: &str, replicas: u32, annotations: &Value) -> String {
    let template = json!({
        "metadata": {"labels": {"app": name}, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    });
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template,
            "strategy": {"rollingUpdate": {"maxSurge": 1}}},
    });
    world.apply(&object.to_string());
    world.field(&format!("deployment/{name}"), ".metadata.uid")
}

/// Pools of an application: name, subnet and how many addresses they have.
fn pools(world: &World) -> Vec<(String, String, u64)> {
    let list: Value =
        serde_json::from_str(&world.plane.kubectl_ok(&["get", "ippools", "-o", "json"]).unwrap()).unwrap();
    let row = |item: &Value| {
        let ranges: Vec<&str> =
            item["spec"]["ranges"].as_array().unwrap().iter().map(|r| r.as_str().unwrap()).collect();
        let count = ranges.iter().map(|range| size(range)).sum();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&item["metadata"]["name"]), text(&item["spec"]["subnet"]), count)
    };
    list["items"].as_array().unwrap().iter().map(row).collect()
}

fn size(range: &str) -> u64 {
    let number = |text: &str| match text.parse::<IpAddr>().unwrap() {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    if let Some((first, last)) = range.split_once('-') {
        return u64::try_from(number(last) - number(first) + 1).unwrap();
    }
    match range.split_once('/') {
        Some((cidr, len)) => 1 << (if cidr.contains(':') { 128 } else { 32 } - len.parse::<u64>().unwrap()),
        None => 1,
    }
}

fn sizes(world: &World, expected: &[u64]) {
    until(&format!("pools of {expected:?}, not {:?}", pools(world)), || {
        let mut sizes: Vec<u64> = pools(world).into_iter().map(|(_, _, size)| size).collect();
        sizes.sort_unstable();
        (sizes == expected).then_some(())
    });
}

fn subnets(world: &World) {
    world.apply("{apiVersion: berth.io/v1alpha1, kind: IPSubnet, metadata: {name: v4}, spec: {cidr: 10.9.0.0/24}}");
    world.apply("{apiVersion: berth.io/v1alpha1, kind: IPSubnet, metadata: {name: v6}, spec: {cidr: 'fd00:9::/64'}}");
}

#[test]
fn i00003_a_deployment_has_pools_that_grow_and_shrink_with_it_and_go_with_it() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    subnets(&world);
    let _controller = world.controller("r1", &[]);
    let asks = json!({"berth.io/subnets": "v4,v6"});
    let uid = deployment(&world, "web", 2, &asks);
    sizes(&world, &[3, 3]);
    let agent = world.agent("n1");
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs1", "controller": true}]);
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-1", "namespace": "default",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid, "controller": true}]},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}, "annotations": asks}, "spec": {"containers": [{"name": "c", "image": "none"}]}}}});
    world.apply(&set.to_string());
    let set_uid = world.field("replicaset/web-1", ".metadata.uid");
    let mut owner = owner;
    owner[0]["uid"] = json!(set_uid);
    let pods: Vec<_> = (0..3)
        .map(|i| world.make_pod("n1", &format!("web-1-{i}"), &json!({"annotations": asks, "ownerReferences": owner})))
        .collect();
    for pod in &pods {
        let added = agent.add(pod, &pod.name);
        assert_eq!(added.code, 0, "{added:?}");
        assert_eq!(added.json()["ips"].as_array().unwrap().len(), 2);
    }
    deployment(&world, "web", 5, &asks);
    sizes(&world, &[6, 6]);
    // Nothing in use is taken away.
    deployment(&world, "web", 0, &asks);
    sizes(&world, &[3, 3]);
    for pod in &pods {
        agent.del(pod, &pod.name).silent();
        world.delete_pod(pod);
    }
    sizes(&world, &[1, 1]);
    world.plane.kubectl_ok(&["delete", "deployment,replicaset", "--all"]).unwrap();
    sizes(&world, &[]);
    world.check();
}

#[test]
fn i00015_i00016_i00019_a_pool_that_is_kept_is_found_again_by_the_same_application() {
    let Some(world) = World::start() else { return };
    subnets(&world);
    let _controller = world.controller("r1", &[]);
    let asks = |keep: &str| json!({"berth.io/subnets": "v4", "berth.io/pool-size": "4", "berth.io/keep-pool": keep});
    deployment(&world, "web", 1, &asks("true"));
    sizes(&world, &[4]);
    let before = pools(&world);
    world.plane.kubectl_ok(&["delete", "deployment", "web"]).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(pools(&world), before, "it is kept");
    let uid = deployment(&world, "web", 1, &asks("true"));
    let pool = format!("ippool/{}", before[0].0);
    until("the new UID", || (world.field(&pool, ".spec.application.uid") == uid).then_some(()));
    // Another kind of the same name has its own.
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "serviceName": "web", "selector": {"matchLabels": {"app": "w"}},
            "template": {"metadata": {"labels": {"app": "w"}, "annotations": {"berth.io/subnets": "v4"}},
                "spec": {"containers": [{"name": "c", "image": "none"}]}}}});
    world.apply(&set.to_string());
    sizes(&world, &[2, 4]);
    deployment(&world, "web", 1, &asks("false"));
    until("the switch", || (world.field(&pool, ".spec.application.keep") != "true").then_some(()));
    world.plane.kubectl_ok(&["delete", "deployment", "web"]).unwrap();
    sizes(&world, &[2]);
}

#[test]
fn t00002_a_third_party_controller_is_followed_by_its_scale() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    world.node_is("n1", "True");
    subnets(&world);
    for (kind, plural, scale) in [("CloneSet", "clonesets", true), ("Plain", "plains", false)] {
        let subresources = json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
        let mut version = json!({"name": "v1alpha1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        if scale {
            version["subresources"] = subresources;
        }
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.apps.kruise.io")},
            "spec": {"group": "apps.kruise.io", "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()}, "versions": [version]}});
        world.apply(&crd.to_string());
    }
    world.plane.kubectl_ok(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"]).unwrap();
    // What a cluster's administrator does, and the controller manager puts together.
    world.apply("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: kruise}, rules: [{apiGroups: [apps.kruise.io], resources: ['*'], verbs: [get, list, watch]}]}");
    world.apply("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: kruise}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kruise}, subjects: [{kind: ServiceAccount, name: berth-controller, namespace: berth-system}]}");
    let _controller = world.controller("r1", &[]);
    let agent = world.agent("n1");
    let apply = |kind: &str, replicas: u32, annotations: &Value| {
        let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": kind, "metadata": {"name": "set", "namespace": "default"},
            "spec": {"replicas": replicas, "template": {"metadata": {"annotations": annotations}}}});
        world.apply(&object.to_string());
        let uid = world.field(&format!("{}.apps.kruise.io/set", kind.to_lowercase()), ".metadata.uid");
        json!([{"apiVersion": "apps.kruise.io/v1alpha1", "kind": kind, "name": "set", "uid": uid, "controller": true}])
    };
    let asks = json!({"berth.io/subnets": "v4", "berth.io/pool-size": "+1"});
    let owner = apply("CloneSet", 3, &asks);
    let pod = world.make_pod("n1", "set-a", &json!({"annotations": asks, "ownerReferences": owner}));
    let added = agent.add(&pod, "c1");
    assert_eq!(added.code, 0, "{added:?}");
    sizes(&world, &[4]);
    apply("CloneSet", 6, &asks);
    sizes(&world, &[7]);
    let fixed = json!({"berth.io/subnets": "v4", "berth.io/pool-size": "5"});
    let owner = apply("Plain", 3, &fixed);
    let pod = world.make_pod("n1", "set-b", &json!({"annotations": fixed, "ownerReferences": owner}));
    let added = agent.add(&pod, "c2");
    assert_eq!(added.code, 0, "{added:?}");
    sizes(&world, &[5, 7]);
}

#[test]
fn i00006_a_hundred_applications_on_one_subnet_at_once() {
    let Some(world) = World::start() else { return };
    world.apply("{apiVersion: berth.io/v1alpha1, kind: IPSubnet, metadata: {name: v4}, spec: {cidr: 10.9.0.0/22}}");
    let _controller = world.controller("r1", &[]);
    let all = |replicas: u32| {
        let one = |i: u32| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": format!("web-{i}"), "namespace": "default"},
                "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "w"}}, "template": {
                    "metadata": {"labels": {"app": "w"}, "annotations": {"berth.io/subnets": "v4", "berth.io/pool-size": "+0"}},
                    "spec": {"containers": [{"name": "c", "image": "none"}]}}}})
        };
        let items: Vec<Value> = (0..100).map(one).collect();
        world.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
    };
    all(5);
    sizes(&world, &[5; 100]);
    all(9);
    sizes(&world, &[9; 100]);
    all(3);
    sizes(&world, &[3; 100]);
    world.check();
    world.plane.kubectl_ok(&["delete", "deployment", "--all"]).unwrap();
    sizes(&world, &[]);
}
