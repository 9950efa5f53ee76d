//! How API servers are told to ask about Berth's kinds.

use crate::kinds::{Dialect, KindInfo};
use crate::spiderpool;
use serde_json::{Value, json};

/// The name of the registration.
pub const WEBHOOK: &str = "berth";

/// The configurations, without a bundle: the controller puts its own in.
///
/// One refuses and one fills in, for Berth's own kinds and Spiderpool's, and never for pods. `failurePolicy` is `Ignore`, for all
/// of them: nothing that keeps addresses unique depends on an answer, a pool in use is kept by its finalizer, what should
/// have been refused is not accepted afterwards, and what should have been filled in is a moment later. `Fail` would save a
/// mistake from being made while the webhook is down, at the price of a cluster in which pools cannot be made before the
/// controller runs, nor mended while it does not.
#[must_use]
pub fn webhooks() -> [Value; 2] {
    let (native, spiderpool) = (("berth.io", Dialect::Native), (spiderpool::GROUP, Dialect::Spiderpool));
    let refuses = rules(&["CREATE", "UPDATE", "DELETE"], &[native, spiderpool]);
    // What Berth's own kinds lack, their schemas fill in.
    let fills_in = rules(&["CREATE", "UPDATE"], &[spiderpool]);
    let mut defaulting = registration("MutatingWebhookConfiguration", "default", &fills_in);
    defaulting["webhooks"][0]["reinvocationPolicy"] = json!("Never");
    [registration("ValidatingWebhookConfiguration", "validate", &refuses), defaulting]
}

fn rules(operations: &[&str], groups: &[(&str, Dialect)]) -> Value {
    let asked = |info: &&KindInfo| !info.derived;
    let rule = |(group, dialect): &(&str, Dialect)| {
        json!({
            "apiGroups": [group],
            "apiVersions": ["*"],
            "operations": operations,
            "resources": super::kinds_of(*dialect).filter(asked).map(|info| info.plural).collect::<Vec<_>>(),
            "scope": "*",
        })
    };
    groups.iter().map(rule).collect()
}

fn registration(kind: &str, verb: &str, rules: &Value) -> Value {
    let path = format!("/{verb}");
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": { "name": WEBHOOK },
        "webhooks": [{
            "name": format!("{verb}.berth.io"),
            "clientConfig": {
                "service": { "name": "berth-controller", "namespace": "berth-system", "path": path, "port": 443 },
            },
            "rules": rules,
            // What leaves the spec alone (labels, finalizers) is not asked about at all.
            "matchConditions": [{
                "name": "spec-changes",
                "expression": "request.operation != 'UPDATE' || !has(object.spec) || !has(oldObject.spec) \
                               || object.spec != oldObject.spec",
            }],
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": 3,
        }],
    })
}

/// The same as YAML.
///
/// # Errors
/// What the YAML writer says.
pub fn webhook_yaml() -> Result<String, serde_saphyr::ser::Error> {
    let documents: Result<Vec<String>, _> = webhooks().iter().map(serde_saphyr::to_string).collect();
    Ok(documents?.join("---\n"))
}
