//! The machine boots: what dies with it is free, what does not is kept.

use berth_e2e::needs::{Need, UTIL_LINUX, met};
use berth_e2e::{Call, Home};
use berth_wire::protocol::{Attachment, Op, Request};
use serde_json::json;

const MANIFESTS: &str = "
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: mine}
spec: {ranges: [10.5.0.0/24], pick: Sequential}
---
apiVersion: berth.io/v1alpha1
kind: IPPool
metadata: {name: sticky}
spec: {ranges: [10.6.0.0/24], sticky: {keep: 24h}}
---
apiVersion: berth.io/v1alpha1
kind: IPClaim
metadata: {name: used}
spec: {addresses: [10.5.0.50]}
---
apiVersion: berth.io/v1alpha1
kind: IPClaim
metadata: {name: unused}
spec: {addresses: [10.5.0.51]}
";

const NOVEMBER: &str = "11111111-1111-1111-1111-111111111111";
const DECEMBER: &str = "22222222-2222-2222-2222-222222222222";

#[test]
fn containers_are_gone_and_everything_else_stays() {
    if !met(&[Need::Root, UTIL_LINUX]) {
        return;
    }
    let home = Home::new();
    let daemon = home.start_in_boot(NOVEMBER);
    let _ = daemon.http.apply(MANIFESTS).ok();
    let add = |container: &str, ipam| Call::new("ADD", container).run(&home.config("1.0.0", &ipam)).addresses();
    assert_eq!(add("plain", json!({"pools": ["mine"]})), ["10.5.0.2/24"]);
    assert_eq!(add("claimer", json!({"claim": "used"})), ["10.5.0.50/24"]);
    let sticky =
        Call::new("ADD", "web-0-a").pod("shop", "web-0").run(&home.config("1.0.0", &json!({"pools": ["sticky"]})));
    let allocate = |kind: &str, id: &str, address: &str| {
        let body = json!({"holder": {"kind": kind, "id": id}, "addresses": [address]});
        let _ = daemon.http.post("/v1alpha1/addresses", &body).ok();
    };
    allocate("named", "vm-1", "10.5.0.60");
    allocate("remote", "elsewhere", "10.5.0.61");
    let _ = daemon.http.post("/v1alpha1/quarantine", &json!({"address": "10.5.0.62"})).ok();
    daemon.kill();

    let daemon = home.start_in_boot(DECEMBER);
    let pair = |address: &str, id: &str| (address.to_owned(), id.to_owned());
    assert_eq!(daemon.held("Active"), [pair("10.5.0.60", "vm-1"), pair("10.5.0.61", "elsewhere")]);
    let held: Vec<String> = daemon.held("Held").into_iter().map(|(address, _)| format!("{address}/24")).collect();
    assert_eq!(held, ["10.5.0.50".to_owned() + "/24", "10.5.0.51/24".to_owned(), sticky.addresses()[0].clone()]);
    assert_eq!(daemon.held("Quarantined"), [pair("10.5.0.62", "")]);
    let claim = daemon.http.get("/v1alpha1/objects/ipclaims/used").ok();
    assert_eq!(claim["status"], json!({"phase": "Bound", "addresses": ["10.5.0.50"]}));
    daemon.check();

    assert_eq!(add("new", json!({"pools": ["mine"]})), ["10.5.0.2/24"], "the dead container's address is free");
    assert_eq!(add("claimer-2", json!({"claim": "used"})), ["10.5.0.50/24"]);
    let back =
        Call::new("ADD", "web-0-b").pod("shop", "web-0").run(&home.config("1.0.0", &json!({"pools": ["sticky"]})));
    assert_eq!(back.addresses(), sticky.addresses(), "the pod of that name has its address again");
}

#[test]
fn a_restart_within_the_boot_frees_nothing() {
    if !met(&[Need::Root, UTIL_LINUX]) {
        return;
    }
    let home = Home::new();
    for boot in [NOVEMBER, DECEMBER] {
        let daemon = home.start_in_boot(boot);
        assert!(daemon.held("Active").is_empty());
        let _ = home.add("c1");
        daemon.kill();
        let daemon = home.start_in_boot(boot);
        assert_eq!(daemon.holders("Active"), ["c1"]);
        daemon.kill();
    }
}

#[test]
fn a_deletion_queued_in_the_last_boot_does_not_outdo_an_add_of_this_one() {
    if !met(&[Need::Root, UTIL_LINUX]) {
        return;
    }
    let home = Home::new();
    home.start_in_boot(NOVEMBER).kill();
    // Stamps count from the boot. The last one lasted longer than this one has so far.
    let attachment = Attachment { network: "net1".into(), container: "c1".into(), ifname: "eth0".into() };
    berth_wire::queue::enqueue(&home.queue(), &Request::new(u64::MAX / 2, Op::Del(attachment))).unwrap();
    let daemon = home.start_in_boot(DECEMBER);
    assert_eq!(home.add("c1").len(), 1, "podman starts a container again under the same ID");
    drop(daemon);
}
