//! Conditions in the status of objects.

use serde_json::{Value, json};

/// A condition with the time since when it is so: since before, if it said the same before.
pub(crate) fn dated(status: &Value, mut condition: Value) -> Value {
    let known = of(status, condition["type"].as_str().unwrap_or_default());
    condition["lastTransitionTime"] = match known.filter(|known| known["status"] == condition["status"]) {
        Some(known) => known["lastTransitionTime"].clone(),
        None => json!(jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string()),
    };
    condition
}

/// The condition of a type that a status has.
pub(crate) fn of<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|known| known["type"] == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_been_so_since_it_was_so() {
        let status = json!({"conditions": [
            {"type": "Other", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"},
            {"type": "Bound", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]});
        let same = dated(&status, json!({"type": "Bound", "status": "True"}));
        assert_eq!(same["lastTransitionTime"], "2026-01-01T00:00:00Z");
        let other = dated(&status, json!({"type": "Bound", "status": "False"}));
        assert_ne!(other["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert!(other["lastTransitionTime"].is_string());
    }
}
