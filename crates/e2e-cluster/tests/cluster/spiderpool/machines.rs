//! Virtual machines in SpiderIPPools: an address and an endpoint under the name of the machine, whatever its pods are called.

use super::{apply, install};
use berth_e2e::until;
use berth_e2e_cluster::World;
use berth_e2e_cluster::machines::{KUBEVIRT, definitions, owner};
use serde_json::{Value, json};

#[test]
fn f00001_a_machine_has_an_endpoint_and_records_under_its_own_name() {
    let Some(world) = World::start() else { return };
    install(&world);
    definitions().iter().for_each(|definition| world.apply(&definition.to_string()));
    world.plane.kubectl_ok(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"]).unwrap();
    for kind in ["VirtualMachine", "VirtualMachineInstance"] {
        world.apply(&json!({"apiVersion": KUBEVIRT, "kind": kind, "metadata": {"name": "vm"}}).to_string());
    }
    let uid = world.field("virtualmachineinstance/vm", ".metadata.uid");
    let owner = owner(&json!({"metadata": {"name": "vm", "uid": uid}}));
    world.nodes(&["n1", "n2"]);
    ["n1", "n2"].iter().for_each(|node| world.node_is(node, "True"));
    apply(
        &world,
        "SpiderIPPool",
        "p",
        &json!({"subnet": "10.33.0.0/24", "ips": ["10.33.0.10-10.33.0.19"], "default": true}),
    );
    let _controller = world.controller("r1", &["--reclaim", "not-coming-back=1s"]);
    let (one, two) = (world.agent("n1"), world.agent("n2"));
    let first = world.make_pod("n1", "virt-launcher-vm-aaaaa", &json!({"ownerReferences": owner}));
    let address = one.address(&first, "c1").to_string();
    let said = |path: &str| world.field("spiderendpoint/vm", path);
    until("its endpoint", || (said(".status.current.uid") == first.uid).then_some(()));
    assert_eq!(said(".status.ownerControllerType"), "VirtualMachineInstance");
    assert_eq!(said(".status.ownerControllerName"), "vm");
    assert_eq!(said(".status.current.ips[0].ipv4"), format!("{address}/24"));
    assert_eq!(said(".metadata.ownerReferences"), "");
    let record = || -> Value {
        let text = world.field("spiderippool/p", ".status.allocatedIPs");
        serde_json::from_str::<Value>(&text).unwrap_or_default()[&address].clone()
    };
    until("its record", || (record() == json!({"pod": "default/vm", "podUid": first.uid})).then_some(()));
    // Away: it stays; and the next pod is the machine again. One that stays for nobody comes and goes meanwhile.
    one.del(&first, "c1").silent();
    world.delete_pod(&first);
    let second = world.make_pod("n2", "virt-launcher-vm-bbbbb", &json!({"ownerReferences": owner}));
    assert_eq!(two.address(&second, "c2").to_string(), address);
    until("the endpoint to follow", || (said(".status.current.uid") == second.uid).then_some(()));
    assert_eq!(said(".status.current.node"), "n2");
    until("and the record", || (record() == json!({"pod": "default/vm", "podUid": second.uid})).then_some(()));
    // Gone, and what made it: nothing is left.
    two.del(&second, "c2").silent();
    world.delete_pod(&second);
    for kind in ["virtualmachine", "virtualmachineinstance"] {
        world.plane.kubectl_ok(&["delete", kind, "vm"]).unwrap();
    }
    until("the address to come back", || (world.used() == 0).then_some(()));
    let names = || world.plane.kubectl_ok(&["get", "spiderendpoints", "-o", "name"]).unwrap();
    until("the endpoint to go", || names().is_empty().then_some(()));
}
