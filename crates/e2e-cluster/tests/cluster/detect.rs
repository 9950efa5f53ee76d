//! Strangers on a real wire, and an agent with an API server behind it: what one node sees, all nodes know.

use berth_e2e::Segment;
use berth_e2e::needs::{IP, Need, UTIL_LINUX, met};
use berth_e2e_cluster::{Agent, Pod, World};
use serde_json::json;

fn add(agent: &Agent, pod: &Pod, container: &str, segment: &Segment, netns: &berth_e2e::Netns) -> berth_e2e::Ran {
    let call = agent.call("ADD", pod, container, "eth0").between(&segment.host, netns);
    call.run(&agent.config(&json!({"pools": ["four", "six"]})))
}

#[test]
fn c00007_c00018_what_a_stranger_has_is_given_to_nobody_on_any_node() {
    if !met(&[Need::Root, IP, UTIL_LINUX]) {
        return;
    }
    let Some(world) = World::start() else { return };
    world.nodes(&["n1", "n2"]);
    // An address each for two strangers, and two for pods.
    let detect = json!({"gateway": "Ignore"});
    world.pool("four", &json!({"ranges": ["10.44.0.2-10.44.0.5"], "prefixLength": 24, "detect": detect}));
    world.pool("six", &json!({"ranges": ["fd44::/64"], "blockSize": 122, "detect": detect}));
    let segment = Segment::new();
    let _strangers = segment.stranger(&["10.44.0.2/24", "10.44.0.4/24"]);
    let (one, two) = (world.agent("n1"), world.agent("n2"));
    let (a, b) = (segment.container(), segment.container());
    let (web, shop) = (world.pod("n1", "web", &json!({})), world.pod("n2", "shop", &json!({})));
    let first = add(&one, &web, "c1", &segment, &a).addresses();
    let second = add(&two, &shop, "c2", &segment, &b).addresses();
    let mut four = [first[0].as_str(), second[0].as_str()];
    four.sort_unstable();
    assert_eq!(four, ["10.44.0.3/24", "10.44.0.5/24"]);
    assert_ne!(first[1], second[1]);
    assert_eq!(add(&one, &web, "c1", &segment, &a).addresses(), first, "asked again, the same answer");

    let third = world.pod("n1", "more", &json!({}));
    let c = segment.container();
    add(&one, &third, "c3", &segment, &c).failed(102);
    one.del(&third, "c3").silent();
    one.del(&web, "c1").silent();
    two.del(&shop, "c2").silent();
}

#[test]
fn c00019_a_sticky_pod_waits_for_its_own_address_while_a_stranger_has_it() {
    if !met(&[Need::Root, IP, UTIL_LINUX]) {
        return;
    }
    let Some(world) = World::start() else { return };
    world.nodes(&["n1"]);
    let detect = json!({"gateway": "Ignore"});
    world.pool("four", &json!({"ranges": ["10.44.0.0/24"], "sticky": {}, "detect": detect}));
    let segment = Segment::new();
    let agent = world.agent("n1");
    let add = |pod: &Pod, container: &str, netns: &berth_e2e::Netns| {
        let call = agent.call("ADD", pod, container, "eth0").between(&segment.host, netns);
        call.run(&agent.config(&json!({})))
    };
    let (pod, netns) = (world.pod("n1", "db-0", &json!({})), segment.container());
    let address = add(&pod, "c1", &netns).addresses().remove(0);
    agent.del(&pod, "c1").silent();
    world.delete_pod(&pod);
    let stranger = segment.stranger(&[&address]);
    let again = world.pod("n1", "db-0", &json!({}));
    add(&again, "c2", &netns).failed(103);
    agent.del(&again, "c2").silent();
    drop(stranger);
    assert_eq!(add(&again, "c3", &netns).addresses(), [address]);
}
