//! The definitions on a real API server: what it takes, what it refuses, and in which words.

use berth_e2e_cluster::World;

const ACCEPTED: &str = include_str!("../../../dialects/src/crd/testdata/accepted.yaml");
const REFUSED: &str = include_str!("../../../dialects/src/crd/testdata/refused.yaml");

#[test]
fn the_server_takes_what_is_sound_and_says_what_is_not() {
    let Some(world) = World::start() else { return };
    let namespaces = ACCEPTED.lines().filter_map(|line| line.split("namespace: ").nth(1));
    for name in namespaces.filter_map(|rest| rest.split(['}', ',', ' ']).next()).filter(|name| *name != "default") {
        world.apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}"));
    }
    let accepted = world.plane.dir().join("accepted.yaml");
    std::fs::write(&accepted, ACCEPTED).expect("a file");
    // As people do it. With --server-side a field that is written and left empty reaches the server as null.
    let accepted = accepted.to_string_lossy();
    world.plane.kubectl_ok(&["apply", "-f", &accepted]).expect("the server takes them");
    let documents: Vec<&str> = REFUSED.split("---\n").filter(|document| document.contains("kind:")).collect();
    assert!(documents.len() > 20, "{}", documents.len());
    for document in documents {
        let words = document.lines().next().unwrap_or_default().trim_start_matches("# ");
        let error = world.plane.apply(document).expect_err(document).to_string();
        assert!(error.contains(words), "{words:?} is not in {error}\n{document}");
    }
}
