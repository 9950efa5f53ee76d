//! Keeps the certificates in one place that all replicas share, publishes the bundle and serves what was signed.
//!
//! There is no leader: whoever finds something to do does it and writes it by compare-and-swap. Who loses reads what the
//! winner wrote.

use crate::certificates::{Certificates, MakeError, Seconds, Terms};
use crate::registration::Registration;
use crate::serve::{NoCertificate, Resolver};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, PostParams};
use std::sync::Arc;
use tracing::{info, warn};

/// Under which key of the Secret everything is.
const KEY: &str = "certificates.json";
/// How often a write is tried that another's keeps forestalling.
const ATTEMPTS: usize = 8;

/// Why the certificates are not as they should be. What is served so far goes on being served.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The API server says so, or cannot be asked.
    #[error("the API server: {0}")]
    Api(#[from] Box<kube::Error>),
    /// No certificate could be made.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// What was made is no good.
    #[error(transparent)]
    Serve(#[from] NoCertificate),
    /// Others wrote the Secret each time.
    #[error("others wrote the Secret each time")]
    Contended,
}

impl From<kube::Error> for KeepError {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

/// The Secret with the certificates.
#[derive(Clone)]
pub struct Vault {
    api: Api<Secret>,
    name: String,
}

impl Vault {
    /// The Secret of a name.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), name: name.to_owned() }
    }

    async fn load(&self) -> Result<(Option<Secret>, Certificates), KeepError> {
        let found = self.api.get_opt(&self.name).await?;
        let json = found.as_ref().and_then(|secret| secret.data.as_ref()?.get(KEY));
        let stored = json.map(|json| serde_json::from_slice(&json.0)).transpose().unwrap_or_else(|error| {
            // It can only be made anew; until API servers are told, they do not ask.
            warn!(secret = self.name, %error, "the certificates cannot be read and are made anew");
            None
        });
        Ok((found, stored.unwrap_or_default()))
    }

    /// Writes, unless somebody else has meanwhile; whether it did.
    async fn save(&self, found: Option<Secret>, certificates: &Certificates) -> Result<bool, KeepError> {
        let json = serde_json::to_vec(certificates).map_err(|error| MakeError(error.to_string()))?;
        let is_new = found.is_none();
        let mut secret = found.unwrap_or_default();
        secret.metadata.name = Some(self.name.clone());
        secret.data.get_or_insert_default().insert(KEY.to_owned(), ByteString(json));
        let post = PostParams::default();
        let written = if is_new {
            self.api.create(&post, &secret).await
        } else {
            self.api.replace(&self.name, &post, &secret).await
        };
        match written {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Sees to it that there is always a certificate that API servers believe.
pub struct Keeper {
    /// Where the certificates are.
    pub vault: Vault,
    /// Where API servers are told.
    pub registration: Registration,
    /// What serves them.
    pub resolver: Arc<Resolver>,
    /// The names and addresses that API servers call the webhook by.
    pub names: Vec<String>,
    /// How long things last.
    pub terms: Terms,
}

impl Keeper {
    /// Does what there is to do now. To be called every minute or so, and at the start until it succeeds.
    ///
    /// # Errors
    /// [`KeepError`]; nothing is worse than before.
    pub async fn turn(&self, now: Seconds) -> Result<(), KeepError> {
        for _ in 0..ATTEMPTS {
            let (found, stored) = self.vault.load().await?;
            let published = self.registration.has(&stored.bundle()).await?;
            let next = stored.clone().settle(now, published, &self.names, &self.terms)?;
            if next != stored {
                if !self.vault.save(found, &next).await? {
                    continue;
                }
                let numbers: Vec<u64> = next.authorities.iter().map(|authority| authority.number).collect();
                let by = next.serving.as_ref().map(|serving| serving.by);
                info!(authorities = ?numbers, signed_by = by, "the webhook's certificates were renewed");
            }
            // Told first, served then: until they are told, nobody would believe it.
            self.registration.publish(&next.bundle()).await?;
            if let Some(serving) = &next.serving {
                self.resolver.show(&serving.pair)?;
            }
            return Ok(());
        }
        Err(KeepError::Contended)
    }
}
