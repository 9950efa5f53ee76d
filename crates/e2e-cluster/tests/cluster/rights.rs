//! What a node's agent may do, and what it may not: its token is as good as the node is trusted.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use berth_e2e_cluster::World;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Applies an object with somebody's rights.
fn apply(world: &World, kubeconfig: &Path, verb: &str, object: &Value) -> Output {
    let mut command = Command::new(world.plane.kubectl_path());
    command.arg("--kubeconfig").arg(kubeconfig).args([verb, "-f", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("kubectl runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    std::io::Write::write_all(&mut stdin, object.to_string().as_bytes()).expect("kubectl reads");
    drop(stdin);
    child.wait_with_output().expect("kubectl ends")
}

fn endpoint(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "berth.io/v1alpha1",
        "kind": "IPEndpoint",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"uid": "u1", "node": node, "interfaces": []},
    })
}

fn block(writer: Option<&str>) -> Value {
    let mut block = json!({
        "apiVersion": "berth.io/v1alpha1",
        "kind": "IPBlock",
        "metadata": {"name": "default.10-9-0-0-26"},
        "spec": {"network": "default", "unit": 32, "cidr": "10.9.0.0/26", "used": 0, "slots": ""},
    });
    if let Some(writer) = writer {
        block["spec"]["writer"] = json!(writer);
    }
    block
}

#[track_caller]
fn refused(output: &Output, words: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it was let through");
    assert!(said.contains(words), "{words:?} is not in {said}");
}

/// What a node leases as a whole is its agent's alone to write, until it gives it back.
#[test]
fn no_agent_writes_what_is_leased_to_another_node() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1", "n2"]);
    world.pool("leased", &json!({"ranges": ["10.9.0.0/24"], "blockSize": 26}));
    let agent = world.agent("n1");
    let pod = world.pod("n1", "web-0", &json!({}));
    let address = agent.address(&pod, "c1");
    let read = || world.plane.kubectl_ok(&["get", "ipblocks", "-o", "json"]).expect("blocks can be listed");
    let block = berth_e2e::until("the block to be the node's", || {
        let all: Value = serde_json::from_str(&read()).expect("kubectl speaks JSON");
        let mut blocks = all["items"].as_array().into_iter().flatten();
        blocks.find(|block| block["spec"]["lessee"] == "n1").cloned()
    });
    let other = world.plane.kubeconfig_for_service_account("berth-system", "berth-agent", Some("n2"));
    let other = other.expect("a token that is bound to n2");
    let mut stolen = block.clone();
    stolen["spec"]["writer"] = json!("n2");
    for lessee in [json!("n1"), json!("n2"), Value::Null] {
        stolen["spec"]["lessee"] = lessee;
        refused(&apply(&world, &other, "replace", &stolen), "leased to node n1");
    }
    refused(&apply(&world, &other, "delete", &block), "leased to node n1");
    assert_eq!(agent.address(&pod, "c1"), address);
    agent.del(&pod, "c1").silent();
}

#[test]
fn an_agent_writes_for_its_own_node_and_for_no_other() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1", "n2"]);
    let own = world.plane.kubeconfig_for_service_account("berth-system", "berth-agent", Some("n1"));
    let own = own.expect("a token that is bound to n1");
    let allowed = |output: Output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    // The policy takes a moment to be in force.
    berth_e2e::until("the policy to be in force", || {
        (!apply(&world, &own, "create", &endpoint("early", "n2")).status.success()).then_some(())
    });
    allowed(apply(&world, &own, "create", &endpoint("mine", "n1")));
    refused(&apply(&world, &own, "create", &endpoint("theirs", "n2")), "berth");
    allowed(apply(&world, &own, "create", &block(Some("n1"))));
    let mut forged = block(Some("n2"));
    forged["metadata"]["name"] = json!("default.10-9-0-64-26");
    forged["spec"]["cidr"] = json!("10.9.0.64/26");
    refused(&apply(&world, &own, "create", &forged), "berth");
    // A token that is of no node at all may write nothing.
    let nobody = world.plane.kubeconfig_for_service_account("berth-system", "berth-agent", None);
    let nobody = nobody.expect("a token that is bound to no node");
    refused(&apply(&world, &nobody, "create", &endpoint("nobodys", "n1")), "berth");
    // And what is none of an agent's business is not in its role.
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
                     "spec": {"containers": [{"name": "c", "image": "none"}]}});
    refused(&apply(&world, &own, "create", &pod), "forbidden");
    let pool = json!({"apiVersion": "berth.io/v1alpha1", "kind": "IPPool", "metadata": {"name": "p"},
                      "spec": {"ranges": ["10.0.0.0/24"]}});
    refused(&apply(&world, &own, "create", &pool), "forbidden");
    for (verb, what) in [("get", "secrets"), ("delete", "pods"), ("update", "nodes"), ("update", "ippools")] {
        let mut command = Command::new(world.plane.kubectl_path());
        command.arg("--kubeconfig").arg(&own).args(["auth", "can-i", verb, what, "-A"]);
        assert!(!berth_e2e::run(&mut command).status.success(), "an agent can {verb} {what}");
    }
}
