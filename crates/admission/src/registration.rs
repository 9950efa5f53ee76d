//! How API servers are told to ask: the registrations, and the bundle in them.
//!
//! The objects themselves are [`berth_dialects::crd::webhooks`], which are also what `deploy/kubernetes/webhook.yaml` has,
//! without a bundle. Only the bundle is written here, by compare-and-swap; whatever else an administrator changed
//! stays.

use k8s_openapi::ByteString;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

/// How often a write is tried that another's keeps forestalling.
const ATTEMPTS: usize = 8;
/// The kinds of registrations, and where they are.
const KINDS: [(&str, &str); 2] = [
    ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
];

/// The registrations of the webhook: of what refuses, and of what fills in.
#[derive(Clone)]
pub struct Registration {
    apis: Vec<Api<DynamicObject>>,
    name: String,
}

impl Registration {
    /// The registrations of a name.
    #[must_use]
    pub fn new(client: &Client, name: &str) -> Self {
        let api = |(kind, plural): (&str, &str)| {
            let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
            Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&kind, plural))
        };
        Self { apis: KINDS.map(api).into(), name: name.to_owned() }
    }

    /// Whether every API server that has read the registrations knows this bundle. Where nothing is registered, nobody
    /// asks, and so nobody is told.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn has(&self, bundle: &str) -> Result<bool, kube::Error> {
        let mut registered = 0;
        for api in &self.apis {
            let Some(found) = api.get_opt(&self.name).await? else { continue };
            if bundle.is_empty() || !has(&found, bundle) {
                return Ok(false);
            }
            registered += 1;
        }
        Ok(registered > 0)
    }

    /// Puts the bundle into the registrations that are there and have another; whether it did.
    ///
    /// # Errors
    /// If it may not be there.
    pub async fn publish(&self, bundle: &str) -> Result<bool, kube::Error> {
        let mut changed = false;
        for api in &self.apis {
            changed |= self.publish_in(api, bundle).await?;
        }
        Ok(changed)
    }

    async fn publish_in(&self, api: &Api<DynamicObject>, bundle: &str) -> Result<bool, kube::Error> {
        let mut attempt = 0;
        loop {
            let Some(mut registered) = api.get_opt(&self.name).await? else { return Ok(false) };
            if has(&registered, bundle) {
                return Ok(false);
            }
            for webhook in registered.data["webhooks"].as_array_mut().into_iter().flatten() {
                webhook["clientConfig"]["caBundle"] = encoded(bundle);
            }
            attempt += 1;
            match api.replace(&self.name, &PostParams::default(), &registered).await {
                Ok(_) => return Ok(true),
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) && attempt < ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes the registrations away, so that nobody asks any more.
    ///
    /// # Errors
    /// If they cannot be deleted.
    pub async fn remove(&self) -> Result<(), kube::Error> {
        for api in &self.apis {
            match api.delete(&self.name, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                outcome => drop(outcome?),
            }
        }
        Ok(())
    }
}

fn encoded(bundle: &str) -> Value {
    json!(ByteString(bundle.as_bytes().to_vec()))
}

fn has(registered: &DynamicObject, bundle: &str) -> bool {
    let (webhooks, bundle) = (registered.data["webhooks"].as_array(), encoded(bundle));
    webhooks.into_iter().flatten().all(|webhook| webhook["clientConfig"]["caBundle"] == bundle)
}
