//! The webhook, on what this process knows anyway. Every replica answers, whether it leads or not.

use crate::spiderpool;
use crate::world::World;
use anyhow::Context;
use berth_admission::certificates::Terms;
use berth_admission::keeper::{Keeper, Vault};
use berth_admission::registration::Registration;
use berth_admission::review::{self, Options, View};
use berth_admission::serve::{Resolver, serve};
use berth_dialects::crd::WEBHOOK;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tracing::{info, warn};

/// The Secret with the certificates.
const SECRET: &str = "berth-webhook";
/// How often it is seen to the certificates.
const TURN: Duration = Duration::from_secs(60);

/// How the webhook is served.
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// Where.
    pub listen: SocketAddr,
    /// What API servers call it, beside the name of its Service.
    pub names: Vec<String>,
}

#[derive(Clone)]
struct Known(Arc<World>);

impl review::Cluster for Known {
    fn with<R>(&self, look: impl FnOnce(&View<'_>) -> R) -> R {
        self.0.refresh();
        let claims = self.0.claims();
        self.0.engine.read(|ipam| look(&View { ipam, claims: &claims }))
    }

    fn subnet_uid(&self, name: &str) -> Option<String> {
        spiderpool::subnet_uid(&self.0, name)
    }
}

/// Begins to answer API servers.
///
/// # Errors
/// If the address is taken.
pub(crate) fn start(world: &Arc<World>, namespace: &str, options: &WebhookOptions) -> anyhow::Result<()> {
    let bind = || format!("listen on https://{}; choose another with --webhook", options.listen);
    let listener = std::net::TcpListener::bind(options.listen).with_context(bind)?;
    listener.set_nonblocking(true).with_context(bind)?;
    let cluster = &world.cluster;
    let resolver = Arc::new(Resolver::default());
    let service = format!("berth-controller.{namespace}.svc");
    let keeper = Keeper {
        vault: Vault::new(cluster.client().clone(), namespace, SECRET),
        registration: Registration::new(cluster.client(), WEBHOOK),
        resolver: resolver.clone(),
        names: [service].into_iter().chain(options.names.iter().cloned()).collect(),
        terms: Terms::default(),
    };
    cluster.spawn(async move {
        loop {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let done = keeper.turn(now).await;
            if let Err(error) = &done {
                warn!("the webhook's certificates: {error}");
            }
            tokio::time::sleep(if done.is_ok() { TURN } else { TURN / 20 }).await;
        }
    });
    let user = format!("system:serviceaccount:{namespace}:berth-controller");
    let (known, rules) =
        (Known(world.clone()), Options { controller: Some(user), spiderpool: world.spiderpool.clone() });
    let address = options.listen;
    cluster.spawn(async move {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return warn!("the webhook is not served: {error}"),
        };
        info!(%address, "serving the webhook");
        if let Err(error) = serve(listener, resolver, known, rules, std::future::pending()).await {
            warn!("the webhook is not served any more: {error}");
        }
    });
    Ok(())
}
