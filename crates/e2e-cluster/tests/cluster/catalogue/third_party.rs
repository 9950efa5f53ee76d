//! T: workloads of kinds that are not Kubernetes' own.

use super::pools;
use super::subnets::{app_pools, sizes_of};
use berth_core::block::State;
use berth_e2e_cluster::Case;
use berth_e2e_cluster::third_party::THIRD_PARTY;
use serde_json::json;

#[test]
fn t00001_and_t00003_pods_of_a_third_party_get_addresses_of_a_pool_and_give_them_up_with_it() {
    let Some(case) = Case::begin() else { return };
    case.know_third_party();
    case.berth("IPPool", "p", &json!({"ranges": ["10.N.0.0/24"], "sticky": {}}));
    let _nodes = [case.node("n1", &json!({})), case.node("n2", &json!({}))];
    let asks = pools(&[case.name("p")]);
    for kind in ["CloneSet", "Plain", "StatefulSet"] {
        let name = kind.to_lowercase();
        let owner = case.run_third_party(kind, &name, 2, &asks);
        case.until("two pods", || case.reconcile_numbered(&name, &owner, 2, &asks));
        case.until_running(&name, 2);
    }
    case.sane(&[&case.namespace]);
    assert_eq!(case.used(), 6);
    let shrink = |kind: &str| {
        let name = kind.to_lowercase();
        let owner = case.run_third_party(kind, &name, 1, &asks);
        case.until("one pod", || case.reconcile_numbered(&name, &owner, 1, &asks));
    };
    let remove = |kind: &str| {
        let name = kind.to_lowercase();
        case.try_delete(THIRD_PARTY, kind, Some(&case.namespace), &name).unwrap();
        case.until("no pod", || case.reconcile_numbered(&name, &json!([]), 0, &asks));
    };
    let kept = |pod: &str| case.holders().values().any(|(state, holder)| *state == State::Held && holder.pod == pod);
    // Fewer: what was kept for the pod that does not come back is free by and by, while the others keep theirs. Nobody can
    // tell how many pods the kind without a `scale` wants: it keeps all.
    ["Plain", "CloneSet", "StatefulSet"].into_iter().for_each(shrink);
    case.until_used(4);
    assert!(kept("plain-1") && !kept("cloneset-1") && !kept("statefulset-1"), "{:?}", case.holders());
    // Gone: nothing is kept, and the endpoints are gone too.
    for (kind, left) in [("StatefulSet", 3), ("CloneSet", 2), ("Plain", 0)] {
        remove(kind);
        case.until_used(left);
        let name = format!("{}-0", kind.to_lowercase());
        let endpoint = || case.get("berth.io/v1alpha1", "IPEndpoint", Some(&case.namespace), &name);
        case.until("the endpoint to go", || endpoint().is_none());
    }
    case.sane(&[&case.namespace]);
}

#[test]
fn t00004_and_t00005_a_pool_that_is_kept_is_found_again_by_the_same_kind_and_no_other() {
    let Some(case) = Case::begin() else { return };
    case.know_third_party();
    case.berth("IPSubnet", "s", &json!({"cidr": "10.N.0.0/24"}));
    let _node = case.node("n1", &json!({}));
    let asks = json!({"berth.io/subnets": case.name("s"), "berth.io/pool-size": "3", "berth.io/keep-pool": "true"});
    let owner = case.run_third_party("CloneSet", "web", 2, &asks);
    case.until("two pods", || case.reconcile_numbered("web", &owner, 2, &asks));
    let first = case.until_running("web", 2);
    let before = app_pools(&case);
    assert_eq!(sizes_of(&before), [3]);
    case.try_delete(THIRD_PARTY, "CloneSet", Some(&case.namespace), "web").unwrap();
    case.until("no pod", || case.reconcile_numbered("web", &owner, 0, &asks));
    // Another kind of the same name is another application.
    let other = case.run_third_party("Plain", "web", 2, &asks);
    case.until("two pods", || case.reconcile_numbered("web", &other, 2, &asks));
    case.until("another pool", || sizes_of(&app_pools(&case)) == [3, 3]);
    for seen in case.until_running("web", 2) {
        assert!(first.iter().all(|old| old.addresses != seen.addresses), "{seen:?} is in the pool of another kind");
    }
    case.until("no pod", || case.reconcile_numbered("web", &other, 0, &asks));
    // The same kind finds its own.
    let again = case.run_third_party("CloneSet", "web", 2, &asks);
    case.until("two pods", || case.reconcile_numbered("web", &again, 2, &asks));
    let old = before[0]["metadata"]["name"].clone();
    for seen in case.until_running("web", 2) {
        let pool = app_pools(&case).into_iter().find(|pool| pool["metadata"]["name"] == old).unwrap();
        assert!(super::subnets::has(&pool, seen.addresses[0]), "{seen:?} is not in {pool}");
    }
    assert_eq!(sizes_of(&app_pools(&case)), [3, 3]);
    case.sane(&[&case.namespace]);
}
