//! Kubelets without containers: they follow the pods of their nodes, call the real plugin as a runtime does, say in the
//! pods' statuses what a kubelet says, try again what failed, and end what is to end.
//!
//! Together with the controllers of Kubernetes they let Deployments, StatefulSets and their like live as in a cluster, at
//! the cost of a process per ADD and DEL. They are also the network: two containers that are told one address at the same
//! time are a [conflict](Kubelets::conflicts), whoever is to blame.

use crate::agent::Agent;
use crate::corner::{Live, administrator};
use crate::sandbox::{self, Wish};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};

/// So many calls of the plugin at once: more would only wait for a processor.
const CALLS: usize = 4;

/// The kubelets of a world. They end when this is dropped; containers then are as they were.
pub struct Kubelets {
    pub(crate) shared: Arc<Shared>,
    // Never waited for: a call of the plugin may hang in it.
    runtime: Option<Runtime>,
}

pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) calls: Semaphore,
    nodes: Mutex<BTreeMap<String, Arc<Agent>>>,
    /// Who looks after the pod of a UID, and where it is.
    pods: Mutex<HashMap<String, (String, watch::Sender<Wish>)>>,
    live: Mutex<Live>,
    conflicts: Mutex<Vec<String>>,
    /// What the plugin last said of a pod that has no address.
    refusals: Mutex<HashMap<String, String>>,
}

impl Kubelets {
    /// Begins to follow all pods; those of nodes that nobody [joined](Self::join) are left alone.
    ///
    /// # Panics
    /// If there is no runtime to be had.
    #[must_use]
    pub fn start(kubeconfig: &Path) -> Self {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("kubelet").enable_all().build().unwrap();
        let shared = Arc::new(Shared {
            client: runtime.block_on(administrator(kubeconfig)),
            calls: Semaphore::new(CALLS),
            nodes: Mutex::default(),
            pods: Mutex::default(),
            live: Mutex::default(),
            conflicts: Mutex::default(),
            refusals: Mutex::default(),
        });
        runtime.spawn(follow(shared.clone()));
        Self { shared, runtime: Some(runtime) }
    }

    /// The node of this agent has a kubelet from now on. Pods that are bound to it already are seen to as well.
    ///
    /// # Panics
    /// Never.
    pub fn join(&self, agent: &Arc<Agent>) {
        let node = agent.node().to_owned();
        self.shared.nodes.lock().unwrap().insert(node.clone(), agent.clone());
        let (shared, api) = (self.shared.clone(), Api::<Pod>::all(self.shared.client.clone()));
        let list = kube::api::ListParams::default().fields(&format!("spec.nodeName={node}"));
        if let Some(runtime) = &self.runtime {
            runtime.spawn(async move {
                for pod in api.list(&list).await.into_iter().flatten() {
                    shared.saw(&pod);
                }
            });
        }
    }

    /// The power of a node is cut: its containers are gone, and nobody says DEL.
    ///
    /// # Panics
    /// Never.
    pub fn power_off(&self, node: &str) {
        self.shared.nodes.lock().unwrap().remove(node);
        let mut pods = self.shared.pods.lock().unwrap();
        for (uid, (_, wish)) in pods.iter().filter(|(_, (on, _))| on == node) {
            // Before anybody else can be given what they had.
            self.shared.live.lock().unwrap().leaves(uid);
            let _ = wish.send(Wish::Lost);
        }
        pods.retain(|_, (on, _)| on != node);
    }

    /// The kubelet of a node is stopped: its containers run on, and nobody looks after them.
    ///
    /// # Panics
    /// Never.
    pub fn stop(&self, node: &str) {
        self.shared.nodes.lock().unwrap().remove(node);
        let mut pods = self.shared.pods.lock().unwrap();
        for (_, wish) in pods.values().filter(|(on, _)| on == node) {
            let _ = wish.send(Wish::Lost);
        }
        pods.retain(|_, (on, _)| on != node);
    }

    /// Addresses that two containers were told at the same time, since the world began.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn conflicts(&self) -> Vec<String> {
        self.shared.conflicts.lock().unwrap().clone()
    }

    /// What the plugin last said of a pod that has no address.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn refusal(&self, uid: &str) -> Option<String> {
        self.shared.refusals.lock().unwrap().get(uid).cloned()
    }
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    /// A pod is as it is here.
    fn saw(self: &Arc<Self>, pod: &Pod) {
        let (Some(uid), Some(spec)) = (pod.uid(), &pod.spec) else { return };
        let node = spec.node_name.clone().unwrap_or_default();
        let wish = if pod.metadata.deletion_timestamp.is_some() { Wish::End } else { Wish::Run };
        let mut pods = self.pods.lock().unwrap();
        if let Some((_, known)) = pods.get(&uid) {
            known.send_if_modified(|now| std::mem::replace(now, wish) != wish);
            return;
        }
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) && wish == Wish::Run {
            return;
        }
        let Some(agent) = self.nodes.lock().unwrap().get(&node).cloned() else { return };
        let (sender, receiver) = watch::channel(wish);
        pods.insert(uid.clone(), (node, sender));
        let (shared, sandbox) = (self.clone(), sandbox::Sandbox::of(pod, agent));
        tokio::spawn(async move {
            sandbox.look_after(&shared, receiver).await;
            shared.pods.lock().unwrap().remove(&uid);
        });
    }

    /// A pod is not there any more.
    fn lost(&self, uid: &str) {
        if let Some((_, wish)) = self.pods.lock().unwrap().get(uid) {
            let _ = wish.send(Wish::Vanish);
        }
    }

    /// A container was told its addresses.
    pub(crate) fn takes(&self, addresses: &[IpAddr], uid: &str, who: &str) {
        self.refusals.lock().unwrap().remove(uid);
        let mut live = self.live.lock().unwrap();
        for address in addresses {
            if let Some(other) = live.holder(*address).filter(|other| *other != uid) {
                self.conflicts.lock().unwrap().push(format!("{address} of {who} ({uid}) is that of {other}"));
            }
            live.put(*address, uid);
        }
    }

    /// A container is about to go.
    pub(crate) fn leaves(&self, uid: &str) {
        self.live.lock().unwrap().leaves(uid);
    }

    /// A container was told no.
    pub(crate) fn refused(&self, uid: &str, words: String) {
        self.refusals.lock().unwrap().insert(uid.to_owned(), words);
    }
}

/// Follows all pods for as long as the runtime is there.
async fn follow(shared: Arc<Shared>) {
    let api = Api::<Pod>::all(shared.client.clone());
    let mut events = watcher(api, watcher::Config::default()).boxed();
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(pod)) => shared.saw(&pod),
            Ok(Event::Delete(pod)) => shared.lost(&pod.uid().unwrap_or_default()),
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(pod)) => {
                listed.extend(pod.uid());
                shared.saw(&pod);
            }
            Ok(Event::InitDone) => {
                let known: Vec<String> = shared.pods.lock().unwrap().keys().cloned().collect();
                known.iter().filter(|uid| !listed.contains(*uid)).for_each(|uid| shared.lost(uid));
            }
            // The server is away; the watcher itself begins anew.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(200)).await,
        }
    }
}
