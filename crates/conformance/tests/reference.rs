//! The suite against the reference, wherever it is installed: a case that host-local fails is a wrong case.

use berth_conformance::case::Implementation;
use berth_conformance::load;
use berth_conformance::plugin::Plugin;
use berth_conformance::run::{Bench, Verdict};
use std::path::Path;

#[test]
fn host_local_passes_the_suite() {
    let path = Path::new("/usr/lib/cni/host-local");
    if !path.exists() {
        eprintln!("SKIPPED: {} is not installed (Debian: containernetworking-plugins)", path.display());
        return;
    }
    let plugin = Plugin::new(path);
    let bench = Bench {
        versions: plugin.versions().unwrap(),
        reference: Some(plugin.clone()),
        plugin,
        implementation: Implementation::HostLocal,
        berth: None,
    };
    for case in load::load_dir(&load::default_dir()).unwrap() {
        if let Verdict::Failed(failures) = bench.run(&case).unwrap() {
            panic!("{}:\n{}", case.name, failures.join("\n"));
        }
    }
}
