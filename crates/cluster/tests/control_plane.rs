//! A control plane does what a cluster's does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use berth_cluster::{ControlPlane, Options, or_skip, tools};
use std::fs;
use std::process::Command;
use std::time::Instant;

#[test]
fn the_api_server_is_real_and_can_be_paused_stopped_and_started() {
    let began = Instant::now();
    let Some(plane) = or_skip(ControlPlane::start(&Options::default())) else { return };
    eprintln!("control plane ready after {:?}", began.elapsed());

    let version = plane.kubectl_ok(&["version", "-o", "json"]).unwrap();
    assert_eq!(version.matches(&format!("\"{}\"", tools::kubernetes_version().unwrap())).count(), 2, "{version}");
    assert!(plane.kubectl_ok(&["get", "--raw", "/metrics"]).unwrap().contains("apiserver_request_total"));

    plane.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: kept}, data: {a: b}}").unwrap();
    plane.pause().unwrap();
    assert!(!plane.kubectl(&["get", "configmap", "kept", "--request-timeout", "1s"]).unwrap().status.success());
    plane.resume().unwrap();
    plane.kubectl_ok(&["get", "configmap", "kept"]).unwrap();

    let url = plane.url();
    plane.stop_apiserver();
    assert!(!plane.kubectl(&["get", "configmap", "kept"]).unwrap().status.success());
    assert!(plane.pause().is_err());
    plane.start_apiserver().unwrap();
    assert_eq!(plane.url(), url);
    assert_eq!(plane.kubectl_ok(&["get", "configmap", "kept", "-o", "jsonpath={.data.a}"]).unwrap(), "b");

    let error = plane.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: Bad_Name}}").unwrap_err();
    assert!(error.to_string().contains("Bad_Name"), "{error}");
}

#[test]
fn a_service_account_has_the_rights_it_was_given_and_its_token_names_the_node() {
    let options = Options { controllers: true, scheduler: true, ..Options::default() };
    let Some(plane) = or_skip(ControlPlane::start(&options)) else { return };
    plane
        .apply(
            "
apiVersion: v1
kind: Node
metadata: {name: worker}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: agent, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: agent}
rules: [{apiGroups: [''], resources: [configmaps], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: agent}
subjects: [{kind: ServiceAccount, name: agent, namespace: default}]
",
        )
        .unwrap();
    for node in [None, Some("worker")] {
        let kubeconfig = plane.kubeconfig_for_service_account("default", "agent", node).unwrap();
        let kubectl = |args: &[&str]| {
            Command::new(plane.kubectl_path()).arg("--kubeconfig").arg(&kubeconfig).args(args).output().unwrap()
        };
        assert!(kubectl(&["get", "configmaps", "--all-namespaces"]).status.success());
        assert!(!kubectl(&["get", "secrets", "--all-namespaces"]).status.success());
        let whoami = kubectl(&["auth", "whoami", "-o", "json"]);
        let text = String::from_utf8(whoami.stdout).unwrap();
        assert!(text.contains("system:serviceaccount:default:agent"), "{text}");
        assert_eq!(text.contains("authentication.kubernetes.io/node-name"), node.is_some(), "{text}");
    }
}

#[test]
fn two_live_side_by_side_and_nothing_is_left() {
    let Some(first) = or_skip(ControlPlane::start(&Options::default())) else { return };
    let Some(second) = or_skip(ControlPlane::start(&Options::default())) else { return };
    assert_ne!(first.url(), second.url());
    first.kubectl_ok(&["create", "configmap", "only-in-the-first"]).unwrap();
    assert!(!second.kubectl(&["get", "configmap", "only-in-the-first"]).unwrap().status.success());
    let dirs = [first.dir().to_owned(), second.dir().to_owned()];
    drop((first, second));
    for dir in dirs {
        assert!(!dir.exists());
        assert_eq!(processes_that_mention(&dir.to_string_lossy()), Vec::<String>::new());
    }
}

fn processes_that_mention(text: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).filter(|line| line.contains(text)).collect()
}
