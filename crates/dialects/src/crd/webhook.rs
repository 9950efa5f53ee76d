//! How API servers are told to ask about Berth's kinds.

use crate::kinds::{Dialect, KindInfo};
use crate::spiderpool;
use serde_json::{Value, json};

/// The name of the registration.
pub const WEBHOOK: &str = "berth";

/// The ValidatingWebhookConfiguration, without a bundle: the controller puts its own in.
///
/// It is for Berth's own kinds and Spiderpool's, and never for pods. `failurePolicy` is `Ignore`, for all of them: nothing that keeps
/// addresses unique depends on an answer, a pool in use is kept by its finalizer, and what should have been refused is
/// not accepted afterwards. `Fail` would save a mistake from being made while the webhook is down, at the price of a
/// cluster in which pools cannot be made before the controller runs, nor mended while it does not.
#[must_use]
pub fn webhook() -> Value {
    let asked = |info: &&KindInfo| !info.derived;
    let resources = |dialect| super::kinds_of(dialect).filter(asked).map(|info| info.plural).collect::<Vec<_>>();
    let rule = |group: &str, dialect| {
        json!({
            "apiGroups": [group],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
            "resources": resources(dialect),
            "scope": "*",
        })
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": WEBHOOK },
        "webhooks": [{
            "name": "validate.berth.io",
            "clientConfig": {
                "service": { "name": "berth-controller", "namespace": "berth-system", "path": "/validate", "port": 443 },
            },
            "rules": [rule("berth.io", Dialect::Native), rule(spiderpool::GROUP, Dialect::Spiderpool)],
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
    serde_saphyr::to_string(&webhook())
}
