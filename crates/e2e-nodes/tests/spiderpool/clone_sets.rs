//! The walk-through of Spiderpool's guide for third-party controllers, command by command and column by column. The
//! manifests are the guide's.

use crate::{last_byte, object, row, table};
use berth_e2e_nodes::{Lab, Pod, clone_set};
use serde_json::{Value, json};
use std::net::IpAddr;

const NAME: &str = "custom-kruise-cloneset";

const CUSTOM_IPV4_IPPOOL: &str = "
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata:
  name: custom-ipv4-ippool
spec:
  subnet: 172.18.41.0/24
  ips:
    - 172.18.41.40-172.18.41.50
";

const BY_HAND: &str = r#"
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata:
  name: custom-kruise-cloneset
spec:
  replicas: 3
  selector:
    matchLabels:
      app: custom-kruise-cloneset
  template:
    metadata:
      annotations:
        ipam.spidernet.io/ippool: |-
          {
            "ipv4": ["custom-ipv4-ippool"]
          }
      labels:
        app: custom-kruise-cloneset
    spec:
      containers:
      - name: custom-kruise-cloneset
        image: busybox
        imagePullPolicy: IfNotPresent
        command: ["/bin/sh", "-c", "trap : TERM INT; sleep infinity & wait"]
"#;

const AUTOMATIC: &str = r#"
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata:
  name: custom-kruise-cloneset
spec:
  replicas: 3
  selector:
    matchLabels:
      app: custom-kruise-cloneset
  template:
    metadata:
      annotations:
        ipam.spidernet.io/subnet: |- 
          {"ipv4": ["subnet-demo-v4"], "ipv6": ["subnet-demo-v6"]}
        ipam.spidernet.io/ippool-ip-number: "5"
      labels:
        app: custom-kruise-cloneset
    spec:
      containers:
      - name: custom-kruise-cloneset
        image: busybox
        imagePullPolicy: IfNotPresent
        command: ["/bin/sh", "-c", "trap : TERM INT; sleep infinity & wait"]
"#;

/// The pods of the CloneSet when all of them run, each with what is in its namespace; `kubectl get po -o wide` says the
/// same.
#[track_caller]
fn running(lab: &Lab, count: usize) -> Vec<(Pod, Vec<IpAddr>)> {
    clone_set::reconcile(lab, NAME);
    lab.kubectl(&format!("wait --for=condition=Ready pod --selector app={NAME} --timeout 180s"));
    let pods = lab.pods(Some(NAME));
    assert_eq!((pods.len(), lab.holders(&pods).is_empty()), (count, false), "{pods:?}");
    let (header, rows) = table(lab, &format!("get po -l app={NAME} -o wide"));
    assert_eq!(header, "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES");
    let look = |pod: Pod| {
        let own = lab.addresses(&pod).unwrap();
        let told = rows.iter().find(|row| row.starts_with(&format!("{} ", pod.name))).unwrap();
        let cells: Vec<&str> = told.split(' ').collect();
        assert_eq!(cells[1..4], ["1/1", "Running", "0"], "{told}");
        assert_eq!(cells[5..], [&*own[0].to_string(), &*pod.node, "<none>", "<none>"], "{told}");
        (pod, own)
    };
    pods.into_iter().map(look).collect()
}

#[track_caller]
fn delete(lab: &Lab) {
    lab.kubectl(&format!("delete cloneset {NAME} --cascade=foreground --timeout 60s"));
    lab.kubectl(&format!("wait --for=delete pod --selector app={NAME} --timeout 60s"));
}

pub(crate) fn by_hand(lab: &mut Lab) {
    let apply = |yaml: &str| lab.cluster.control_plane().apply(yaml).unwrap();
    apply(CUSTOM_IPV4_IPPOOL);
    apply(BY_HAND);
    for (pod, own) in running(lab, 3) {
        assert_eq!(own.len(), 1, "{pod:?}: {own:?}");
        assert!((40..=50).contains(&last_byte(own[0], "172.18.41.")), "{pod:?}: {own:?}");
        let endpoint = format!("{} eth0 custom-ipv4-ippool {}/24 {}", pod.name, own[0], pod.node);
        row(lab, "get se", &endpoint);
    }
    row(lab, "get sp", "custom-ipv4-ippool 4 172.18.41.0/24 3 11 false false");
    delete(lab);
    row(lab, "get sp", "custom-ipv4-ippool 4 172.18.41.0/24 0 11 false false");
    lab.kubectl("delete sp custom-ipv4-ippool --timeout 30s");
}

pub(crate) fn automatic(lab: &mut Lab) {
    let subnet = |name: &str, spec: &Value| object(lab, "SpiderSubnet", &json!({"name": name}), spec);
    subnet("subnet-demo-v4", &json!({"subnet": "172.16.0.0/16", "ips": ["172.16.41.1-172.16.41.200"]}));
    let ips = json!(["fc00:f853:ccd:e790::10-fc00:f853:ccd:e790::ff"]);
    subnet("subnet-demo-v6", &json!({"subnet": "fc00:f853:ccd:e790::/64", "ips": ips}));
    lab.cluster.control_plane().apply(AUTOMATIC).unwrap();
    for (pod, own) in running(lab, 3) {
        assert_eq!(own.len(), 2, "{pod:?}: {own:?}");
        assert!((1..=5).contains(&last_byte(own[0], "172.16.41.")), "{pod:?}: {own:?}");
        assert!(own[1].to_string().starts_with("fc00:f853:ccd:e790::1"), "{pod:?}: {own:?}");
    }
    let uid = lab.kubectl(&format!("get cloneset {NAME} -o jsonpath={{.metadata.uid}}"));
    let part: String = uid.rsplit('-').next().unwrap().chars().take(5).collect();
    let names = [4, 6].map(|family| format!("auto{family}-{NAME}-eth0-{part}"));
    let (header, _) = table(lab, "get sp");
    assert_eq!(header, "NAME VERSION SUBNET ALLOCATED-IP-COUNT TOTAL-IP-COUNT DEFAULT DISABLE APP-NAMESPACE");
    let rows = |used: u8| {
        row(lab, "get sp", &format!("{} 4 172.16.0.0/16 {used} 5 false false default", names[0]));
        row(lab, "get sp", &format!("{} 6 fc00:f853:ccd:e790::/64 {used} 5 false false default", names[1]));
    };
    rows(3);
    // As many as the pools have, and not one more.
    lab.kubectl(&format!("scale cloneset {NAME} --replicas 5"));
    running(lab, 5);
    rows(5);
    row(lab, "get ss", "subnet-demo-v4 4 172.16.0.0/16 5 200");
    delete(lab);
    lab.until("the pools to be gone with their application", || {
        let (_, rows) = table(lab, "get sp");
        if rows.iter().any(|row| row.contains(NAME)) { Err(rows.join("\n")) } else { Ok(()) }
    });
    row(lab, "get ss", "subnet-demo-v4 4 172.16.0.0/16 0 200");
}
