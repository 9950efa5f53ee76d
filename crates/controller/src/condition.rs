//! Conditions in the status of objects.

use berth_core::time::Time;
use serde_json::{Value, json};

/// A condition with the time since when it is so: since before, if it said the same before.
pub(crate) fn dated(status: &Value, mut condition: Value, now: Time) -> Value {
    let known = of(status, condition["type"].as_str().unwrap_or_default());
    condition["lastTransitionTime"] = match known.filter(|known| known["status"] == condition["status"]) {
        Some(known) => known["lastTransitionTime"].clone(),
        None => json!(written(now)),
    };
    condition
}

/// To the second, as Kubernetes writes instants.
fn written(now: Time) -> String {
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).unwrap_or_default().to_string()
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
        let same = dated(&status, json!({"type": "Bound", "status": "True"}), Time::from_secs(0));
        assert_eq!(same["lastTransitionTime"], "2026-01-01T00:00:00Z");
        let other = dated(&status, json!({"type": "Bound", "status": "False"}), Time(1_800_000_000_900_000));
        assert_eq!(other["lastTransitionTime"], "2027-01-15T08:00:00Z");
    }
}
