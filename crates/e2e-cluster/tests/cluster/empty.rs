//! Blocks that nobody uses any more, against a real API server.

use berth_e2e::until;
use berth_e2e_cluster::World;
use serde_json::json;

/// The object of a block goes when the last address has left it for a while, whoever emptied it; the next pod begins it
/// anew. Two agents that know the block from before are not confused by that.
#[test]
fn a_block_that_stays_empty_is_deleted_and_begun_anew() {
    let Some(world) = World::start() else { return };
    world.nodes(&["n1", "n2"]);
    world.pool("p", &json!({"ranges": ["10.9.0.0/26"], "coolDown": "0s"}));
    let (one, other) = (world.agent("n1"), world.agent("n2"));
    let (first, second) = (world.pod("n1", "web-1", &json!({})), world.pod("n2", "web-2", &json!({})));
    for round in 0..3 {
        let addresses = [one.address(&first, &format!("a{round}")), other.address(&second, &format!("b{round}"))];
        assert_ne!(addresses[0], addresses[1]);
        one.del(&first, &format!("a{round}")).silent();
        assert_eq!(world.blocks().len(), 1, "an address of it is in use");
        other.del(&second, &format!("b{round}")).silent();
        if round == 1 {
            // Who emptied it comes back without any memory of it.
            other.kill();
            other.start();
        }
        until("the empty block to be deleted", || world.blocks().is_empty().then_some(()));
    }
    let _ = (one.address(&first, "again-1"), other.address(&second, "again-2"));
    assert_eq!(world.used(), 2);
}
