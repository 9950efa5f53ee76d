//! The dashboard and the alert rules name metrics that there are.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Every word that looks like a metric of Berth's.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !word(c)).filter(|word| word.starts_with("berth_")).map(str::to_owned).collect()
}

#[test]
fn what_is_watched_is_there() {
    let output = Command::new(env!("CARGO_BIN_EXE_berth")).args(["generate", "metrics"]).output().unwrap();
    let known = metrics_in(&String::from_utf8(output.stdout).unwrap());
    assert!(known.contains("berth_controller_reclaimed_total"), "{known:?}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitoring");
    for name in ["dashboard.json", "alerts.yaml"] {
        let text = std::fs::read_to_string(root.join(name)).unwrap();
        let used = metrics_in(&text);
        assert!(used.len() > 3, "{name}: {used:?}");
        for metric in used {
            // A histogram has series of its own.
            let plain = metric.trim_end_matches("_bucket");
            assert!(known.contains(plain), "{name} names {metric}, which there is not");
        }
    }
}
