//! How API servers are told to ask: the ValidatingWebhookConfiguration, and the bundle in it.
//!
//! The object itself is [`berth_dialects::crd::webhook`], which is also what `deploy/kubernetes/webhook.yaml` has,
//! without a bundle. Only the bundle is written here, by compare-and-swap; whatever else an administrator changed
//! stays.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Client;
use kube::api::{Api, PostParams};

/// How often a write is tried that another's keeps forestalling.
const ATTEMPTS: usize = 8;

/// The registration of the webhook.
#[derive(Clone)]
pub struct Registration {
    api: Api<ValidatingWebhookConfiguration>,
    name: String,
}

impl Registration {
    /// The registration of a name.
    #[must_use]
    pub fn new(client: Client, name: &str) -> Self {
        Self { api: Api::all(client), name: name.to_owned() }
    }

    /// Whether every API server that has read the registration knows this bundle. Where nothing is registered, nobody
    /// asks, and so nobody is told.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn has(&self, bundle: &str) -> Result<bool, kube::Error> {
        let found = self.api.get_opt(&self.name).await?;
        Ok(found.is_some_and(|registered| !bundle.is_empty() && has(&registered, bundle)))
    }

    /// Puts the bundle into the registration, if there is one and it has another; whether it did.
    ///
    /// # Errors
    /// If it may not be there.
    pub async fn publish(&self, bundle: &str) -> Result<bool, kube::Error> {
        let mut attempt = 0;
        loop {
            let Some(mut registered) = self.api.get_opt(&self.name).await? else { return Ok(false) };
            if has(&registered, bundle) {
                return Ok(false);
            }
            for webhook in registered.webhooks.iter_mut().flatten() {
                webhook.client_config.ca_bundle = Some(ByteString(bundle.as_bytes().to_vec()));
            }
            attempt += 1;
            match self.api.replace(&self.name, &PostParams::default(), &registered).await {
                Ok(_) => return Ok(true),
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) && attempt < ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn has(registered: &ValidatingWebhookConfiguration, bundle: &str) -> bool {
    let webhooks = registered.webhooks.iter().flatten();
    let known = |bytes: &ByteString| bytes.0 == bundle.as_bytes();
    webhooks.into_iter().all(|webhook| webhook.client_config.ca_bundle.as_ref().is_some_and(known))
}
