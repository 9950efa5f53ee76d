//! Manifests: parsed or refused, lowered or refused, never anything else.

use berth_dialects::{lower, lower_all, parse_manifests};

/// Any text.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(objects) = parse_manifests(text) else { return };
    for object in &objects {
        lower(object).expect("what a manifest may say can be lowered");
        let json = serde_json::to_string(object).expect("an object is JSON");
        let again = parse_manifests(&json).expect("what was taken once is taken again");
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].spec, object.spec);
    }
    if let Ok(config) = lower_all(&objects) {
        let _ = config.validate();
    }
}
