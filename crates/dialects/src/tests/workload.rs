//! Controller objects of every kind, as the API server has them.

use crate::native::workload::{Found, workload};
use crate::spiderpool::settings::Conf;
use berth_core::apps::{Size, Workload};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[expect(clippy::needless_pass_by_value, reason = "it is written in place")]
fn object(api_version: &str, kind: &str, spec: Value) -> Value {
    let metadata = json!({"name": "web", "namespace": "shop", "uid": "u1"});
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
}

fn template() -> Value {
    json!({"metadata": {"annotations": {"berth.io/subnets": "a", "berth.io/pool-size": "+1", "other": "x"}}})
}

fn read(object: &Value) -> Workload {
    match workload(object, None, None, &Conf::default()) {
        Ok(Found::Application(workload)) => workload,
        other => panic!("{other:?}"),
    }
}

/// Replicas, surge and whether names may stay.
fn facts(object: &Value) -> (Option<u32>, u32, bool) {
    let found = read(object);
    (found.replicas, found.surge, found.stable)
}

#[test]
fn a_deployment_has_replicas_and_a_surge() {
    let with = |spec: Value| {
        let mut all = json!({"template": template()});
        all.as_object_mut().expect("fields").extend(spec.as_object().cloned().expect("fields"));
        object("apps/v1", "Deployment", all)
    };
    let found = read(&with(json!({})));
    assert_eq!(found.interfaces, [("eth0".to_owned(), vec!["a".to_owned()])]);
    assert_eq!((found.size, found.keep, found.uid.as_str()), (Some(Size::Spare(1)), false, "u1"));
    assert_eq!(found.identity.to_string(), "Deployment shop/web");
    assert_eq!(facts(&with(json!({}))), (Some(1), 1, false), "a quarter of one, rounded up");
    assert_eq!(facts(&with(json!({"replicas": 10}))), (Some(10), 3, false));
    let surge = |surge: Value| with(json!({"replicas": 10, "strategy": {"rollingUpdate": {"maxSurge": surge}}}));
    assert_eq!(facts(&surge(json!("11%"))).1, 2);
    assert_eq!(facts(&surge(json!(4))).1, 4);
    assert_eq!(facts(&surge(json!("0%"))).1, 0);
    assert_eq!(facts(&with(json!({"replicas": 3, "strategy": {"type": "Recreate"}}))), (Some(3), 0, false));
    let mut leaving = with(json!({"replicas": 3}));
    leaving["status"] = json!({"terminatingReplicas": 2});
    assert_eq!(read(&leaving).leaving, 2);
}

#[test]
fn every_kind_of_kubernetes_says_how_many_pods_it_has() {
    let set =
        object("apps/v1", "StatefulSet", json!({"replicas": 3, "ordinals": {"start": 5}, "template": template()}));
    assert_eq!(facts(&set), (Some(3), 0, true));
    let has = |name: &str| read(&set).has_pod(name);
    assert_eq!(
        (has("web-5"), has("web-7"), has("web-8"), has("web-4")),
        (Some(true), Some(true), Some(false), Some(false))
    );
    assert_eq!(
        (has("web-x"), has("web-"), has("other-5"), has("web--5")),
        (Some(false), Some(false), Some(false), Some(false))
    );
    let mut daemons = object("apps/v1", "DaemonSet", json!({"template": template()}));
    assert_eq!(facts(&daemons), (Some(0), 0, false));
    daemons["status"] = json!({"desiredNumberScheduled": 9});
    daemons["spec"]["updateStrategy"] = json!({"rollingUpdate": {"maxSurge": "10%"}});
    assert_eq!(facts(&daemons), (Some(9), 1, false));
    assert_eq!(read(&daemons).has_pod("web-5"), None, "nobody can tell");
    let job = |spec: Value| facts(&object("batch/v1", "Job", spec)).0;
    assert_eq!(job(json!({})), Some(1));
    assert_eq!(job(json!({"parallelism": 5, "completions": 3})), Some(3));
    assert_eq!(job(json!({"parallelism": 5, "completions": 100})), Some(5));
    assert_eq!(job(json!({"parallelism": 5})), Some(5));
    let cron = |policy: Option<&str>, active: usize| {
        let spec =
            json!({"concurrencyPolicy": policy, "jobTemplate": {"spec": {"parallelism": 2, "template": template()}}});
        let mut cron = object("batch/v1", "CronJob", spec);
        cron["status"] = json!({"active": vec![json!({}); active]});
        assert_eq!(read(&cron).interfaces.len(), 1, "its template is further down");
        facts(&cron).0
    };
    assert_eq!((cron(Some("Forbid"), 1), cron(Some("Replace"), 1), cron(None, 2)), (Some(2), Some(4), Some(6)));
}

#[test]
fn other_kinds_are_known_by_their_scale_or_not_at_all() {
    let spec = json!({"replicas": 3, "template": template(), "updateStrategy": {"maxSurge": "50%"}});
    let clones = object("apps.kruise.io/v1alpha1", "CloneSet", spec);
    assert_eq!(facts(&clones), (None, 0, true), "what its replicas are is its own affair");
    let scale = |scale: Value| match workload(&clones, Some(&scale), None, &Conf::default()) {
        Ok(Found::Application(found)) => (found.replicas, found.surge),
        other => panic!("{other:?}"),
    };
    assert_eq!(scale(json!({"spec": {"replicas": 4}})), (Some(4), 2));
    assert_eq!(scale(json!({"spec": {}})), (Some(0), 0), "zero is left out");
    // Its template is nowhere to be seen: its pods have the annotations.
    let annotations = BTreeMap::from([("berth.io/subnets".to_owned(), "b".to_owned())]);
    let hidden = object("example.org/v1", "Database", json!({}));
    let Ok(Found::Application(found)) = workload(&hidden, None, Some(&annotations), &Conf::default()) else {
        panic!("an application")
    };
    assert_eq!(found.interfaces, [("eth0".to_owned(), vec!["b".to_owned()])]);
}

#[test]
fn what_comes_and_goes_belongs_to_what_stays() {
    let owned = |api: &str, kind: &str, owner: Value| {
        let mut object = object(api, kind, json!({"template": template()}));
        object["metadata"]["ownerReferences"] = json!([{"kind": "Other", "controller": false}, owner]);
        workload(&object, None, None, &Conf::default()).expect("reads")
    };
    let rollout =
        json!({"apiVersion": "argoproj.io/v1", "kind": "Rollout", "name": "r", "uid": "u9", "controller": true});
    let Found::Part { uid, namespace, of } = owned("apps/v1", "ReplicaSet", rollout.clone()) else { panic!("a part") };
    assert_eq!((uid.as_str(), namespace.as_str()), ("u1", "shop"));
    assert_eq!((of.group.as_str(), of.kind.as_str(), of.uid.as_str()), ("argoproj.io", "Rollout", "u9"));
    assert!(matches!(owned("batch/v1", "Job", rollout.clone()), Found::Part { .. }));
    assert!(
        matches!(owned("apps/v1", "StatefulSet", rollout), Found::Application(_)),
        "an operator's StatefulSet stays"
    );
    assert!(matches!(owned("apps/v1", "ReplicaSet", json!({"kind": "X"})), Found::Application(_)), "nobody manages it");
}

#[test]
fn who_needs_no_pool_asks_for_none_and_who_asks_wrongly_is_told() {
    let mut host = object("apps/v1", "Deployment", json!({"template": template()}));
    host["spec"]["template"]["spec"] = json!({"hostNetwork": true});
    assert!(read(&host).interfaces.is_empty());
    let mut job = object("batch/v1", "Job", json!({"template": template()}));
    job["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    assert!(read(&job).interfaces.is_empty(), "it is done");
    job["spec"]["template"]["metadata"]["annotations"]["berth.io/keep-pool"] = json!("true");
    assert_eq!(read(&job).interfaces.len(), 1, "it is done, and its pool is kept as it is");
    let mut wrong = object("apps/v1", "Deployment", json!({"template": template()}));
    wrong["spec"]["template"]["metadata"]["annotations"]["berth.io/pool-size"] = json!("5x");
    let said = workload(&wrong, None, None, &Conf::default()).expect_err("no size").to_string();
    assert!(said.contains("Deployment \"shop/web\", annotation berth.io/pool-size of its pod template"), "{said}");
    assert!(read(&json!({"kind": "Nothing"})).interfaces.is_empty());
}
