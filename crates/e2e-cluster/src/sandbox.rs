//! One pod, as its kubelet sees it: from the first ADD to the last DEL.

use crate::agent::Agent;
use crate::kubelets::Shared;
use crate::world;
use berth_e2e::Ran;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

/// Names the interfaces that a pod has, `eth0` alone if it is not there: `eth0,net1`. As if a plugin that calls others
/// made them.
pub const INTERFACES: &str = "test/interfaces";
/// How the containers of a pod end by themselves: `Succeeded` or `Failed`. They run for ever if it is not there.
pub const ENDS: &str = "test/ends";

/// How often the server is asked again for what must happen in the end.
const TRIES: u32 = 600;

/// What shall become of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// It shall run.
    Run,
    /// It is being deleted: its containers shall end, and then it shall be gone.
    End,
    /// It is gone from the server: its containers shall end.
    Vanish,
    /// Nobody looks after it any more, whatever its containers do.
    Lost,
}

/// A pod and where it runs.
pub(crate) struct Sandbox {
    pod: world::Pod,
    agent: Arc<Agent>,
    interfaces: Vec<String>,
    ends: Option<String>,
    host_network: bool,
}

impl Sandbox {
    pub(crate) fn of(pod: &Pod, agent: Arc<Agent>) -> Self {
        let said = |key: &str| pod.annotations().get(key).cloned();
        let interfaces = said(INTERFACES).unwrap_or_else(|| "eth0".to_owned());
        Self {
            pod: world::Pod {
                namespace: pod.namespace().unwrap_or_default(),
                name: pod.name_any(),
                uid: pod.uid().unwrap_or_default(),
                node: agent.node().to_owned(),
            },
            agent,
            interfaces: interfaces.split(',').map(str::to_owned).collect(),
            ends: said(ENDS),
            host_network: pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or_default(),
        }
    }

    /// Runs the pod until it is gone or nobody looks after it any more.
    pub(crate) async fn look_after(&self, shared: &Arc<Shared>, mut wish: watch::Receiver<Wish>) {
        let uid = &self.pod.uid;
        for attempt in 0u32.. {
            if *wish.borrow_and_update() != Wish::Run {
                break;
            }
            let container = format!("{uid}-{attempt}");
            match self.add(shared, &container).await {
                Ok(addresses) => {
                    shared.takes(&addresses, uid, &self.pod.name);
                    // One whose power was cut while it was asked about runs no more.
                    if *wish.borrow() == Wish::Lost {
                        return shared.leaves(uid);
                    }
                    self.say(&shared.client, "Running", &addresses).await;
                    if let Some(phase) = &self.ends {
                        shared.leaves(uid);
                        self.del(shared, &container).await;
                        self.say(&shared.client, phase, &addresses).await;
                    }
                    let _ = wish.wait_for(|wish| *wish != Wish::Run).await;
                    if *wish.borrow() == Wish::Lost {
                        return;
                    }
                    shared.leaves(uid);
                    self.del(shared, &container).await;
                    break;
                }
                Err(words) => {
                    shared.refused(uid, words);
                    self.del(shared, &container).await;
                    let pause = Duration::from_millis(u64::from(attempt.min(9) + 1) * 100);
                    let _ = tokio::time::timeout(pause, wish.changed()).await;
                }
            }
        }
        if *wish.borrow() == Wish::End {
            self.remove(&shared.client).await;
        }
    }

    async fn add(&self, shared: &Arc<Shared>, container: &str) -> Result<Vec<IpAddr>, String> {
        let mut addresses = Vec::new();
        if self.host_network {
            return Ok(addresses);
        }
        for interface in &self.interfaces {
            let ran = self.call(shared, "ADD", container, interface).await;
            if ran.code != 0 {
                return Err(ran.stdout);
            }
            let bare = |text: String| text.split('/').next()?.parse::<IpAddr>().ok();
            addresses.extend(ran.addresses().into_iter().filter_map(bare));
        }
        Ok(addresses)
    }

    /// Until it succeeds: a runtime says DEL again if it did not.
    async fn del(&self, shared: &Arc<Shared>, container: &str) {
        if self.host_network {
            return;
        }
        for interface in self.interfaces.iter().rev() {
            let _ = until(|| async { (self.call(shared, "DEL", container, interface).await.code == 0).then_some(()) })
                .await;
        }
    }

    async fn call(&self, shared: &Arc<Shared>, verb: &'static str, container: &str, interface: &str) -> Ran {
        let _turn = shared.calls.acquire().await;
        let (agent, call) = (self.agent.clone(), self.agent.call(verb, &self.pod, container, interface));
        spawn_blocking(move || call.run(&agent.config(&json!({})))).await.unwrap()
    }

    /// Writes the status, unless the pod is gone or another has its name.
    async fn say(&self, client: &Client, phase: &str, addresses: &[IpAddr]) {
        let runs = phase == "Running";
        let state = match runs {
            true => json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}),
            false => json!({"terminated": {"exitCode": i32::from(phase == "Failed")}}),
        };
        // A status tells of one address of each family: those of the first interface.
        let first = |v4: bool| addresses.iter().find(move |address| address.is_ipv4() == v4);
        let ips: Vec<Value> = first(true).into_iter().chain(first(false)).map(|ip| json!({"ip": ip})).collect();
        let container =
            json!({"name": "c", "image": "none", "imageID": "", "ready": runs, "restartCount": 0, "state": state});
        let status = json!({"metadata": {"uid": self.pod.uid}, "status": {
            "phase": phase, "podIP": ips.first().map(|ip| ip["ip"].clone()), "podIPs": ips,
            "conditions": [{"type": "Ready", "status": if runs { "True" } else { "False" }}],
            "containerStatuses": [container],
        }});
        let (api, name) = (self.api(client), &self.pod.name);
        let written = until(|| async {
            match api.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await {
                Ok(_) => Some(Ok(())),
                Err(kube::Error::Api(refusal)) if matches!(refusal.code, 404 | 409) => Some(Ok(())),
                Err(kube::Error::Api(refusal)) if refusal.code == 422 => Some(Err(refusal.to_string())),
                Err(_) => None,
            }
        });
        if let Some(Err(refusal)) = written.await {
            eprintln!("the status of {name} is refused: {refusal}");
        }
    }

    /// Lets the pod go, now that its containers are gone.
    async fn remove(&self, client: &Client) {
        let own = Preconditions { uid: Some(self.pod.uid.clone()), resource_version: None };
        let at_once =
            DeleteParams { grace_period_seconds: Some(0), preconditions: Some(own), ..DeleteParams::default() };
        let api = self.api(client);
        let _ = until(|| async {
            match api.delete(&self.pod.name, &at_once).await {
                Ok(_) => Some(()),
                Err(kube::Error::Api(refusal)) if matches!(refusal.code, 404 | 409) => Some(()),
                Err(_) => None,
            }
        })
        .await;
    }

    fn api(&self, client: &Client) -> Api<Pod> {
        Api::namespaced(client.clone(), &self.pod.namespace)
    }
}

/// Asks until there is an answer, or it is hopeless.
async fn until<T, F: Future<Output = Option<T>>>(ask: impl Fn() -> F) -> Option<T> {
    for _ in 0..TRIES {
        if let Some(answer) = ask().await {
            return Some(answer);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    None
}
