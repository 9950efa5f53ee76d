//! S: addresses that nobody gets.

use super::pools;
use berth_e2e_cluster::Case;
use serde_json::json;

#[test]
fn s00001_a_reserved_address_is_given_to_nobody() {
    let Some(case) = Case::begin() else { return };
    case.berth("IPReservation", "r", &json!({"addresses": ["10.N.0.1", "10.N.0.3-10.N.0.4"]}));
    case.berth("IPPool", "p", &json!({"ranges": ["10.N.0.0-10.N.0.5"]}));
    let node = case.node("n1", &json!({}));
    let asks = json!({"annotations": pools(&[case.name("p")])});
    let pods: Vec<_> = (0..3).map(|i| case.pod_on(&node, &case.namespace, &format!("web-{i}"), &asks)).collect();
    let mut given: Vec<_> = pods.iter().map(|pod| case.running(pod)[0].to_string()).collect();
    given.sort();
    assert_eq!(given, ["10.N.0.0", "10.N.0.2", "10.N.0.5"].map(|text| case.here(text)));
    let late = case.pod_on(&node, &case.namespace, "late", &asks);
    case.refused(&late, "cN-p");
    // Nor if it is asked for by itself.
    let asked = json!({"annotations": {"berth.io/addresses": case.here("10.N.0.3")}});
    case.refused(&case.pod_on(&node, &case.namespace, "asks", &asked), "keeps it");
    case.sane(&[&case.namespace]);
    // What is set free is there for whoever waits.
    case.delete_berth("IPReservation", "r").unwrap();
    case.running(&late);
}

#[test]
fn s00003_and_s00004_what_is_in_use_cannot_be_excluded_and_what_is_free_can() {
    let Some(case) = Case::begin() else { return };
    let spec = |exclude: &[&str]| json!({"ranges": ["10.N.0.1-10.N.0.4"], "exclude": exclude});
    case.berth("IPPool", "p", &spec(&[]));
    let node = case.node("n1", &json!({}));
    let asks = json!({"annotations": pools(&[case.name("p")])});
    let fixed = json!({"annotations": {"berth.io/pools": case.name("p"), "berth.io/addresses": case.here("10.N.0.1")}});
    case.running(&case.pod_on(&node, &case.namespace, "fixed", &fixed));
    case.until("the webhook to know", || case.try_berth("IPPool", "p", &spec(&["10.N.0.1"])).is_err());
    case.berth_refused("IPPool", "p", &spec(&["10.N.0.1"]), "is in use: 10.N.0.1 by");
    case.berth("IPPool", "p", &spec(&["10.N.0.2-10.N.0.3"]));
    case.until("the pool to be smaller", || {
        case.get_berth("IPPool", "p").unwrap()["status"]["usage"]["capacity"] == "2"
    });
    let other = case.pod_on(&node, &case.namespace, "other", &asks);
    let late = case.pod_on(&node, &case.namespace, "late", &asks);
    case.until("one of two", || case.running_now(&other).len() + case.running_now(&late).len() == 1);
    let waiting = if case.running_now(&late).is_empty() { &late } else { &other };
    case.refused(waiting, "cN-p");
    case.berth("IPPool", "p", &spec(&[]));
    case.running(&other);
    case.running(&late);
    case.sane(&[&case.namespace]);
}
