//! The routes, each in terms of what Berth's own socket is asked.

use super::coordinator;
use crate::agent::Agent;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Query, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use berth_core::block::State as SlotState;
use berth_core::detect::QUARANTINE;
use berth_core::error::Error;
use berth_core::holder::{Attachment as Key, Holder};
use berth_core::ipam::{Given, Outcome};
use berth_dialects::spiderpool::endpoint::Interface;
use berth_dialects::spiderpool::socket::{Added, Args, Asked, Endpoint};
use berth_door::{Answer, Service};
use berth_kube::Cluster;
use berth_wire::boot;
use berth_wire::cni::AddResult;
use berth_wire::protocol::{self, AddRequest, Attachment, Op, Request};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The CNI network of attachments that are made here: its callers do not say which network they are in.
const NETWORK: &str = "spiderpool";
/// Its clients take these for an answer: not to be released though strangers use it.
const NOT_STATEFUL: u16 = 522;

/// What the routes work with.
#[derive(Clone)]
pub(super) struct State {
    pub(super) agent: Arc<Agent>,
    pub(super) cluster: Cluster,
}

/// A refusal: its clients expect the reason as a string of JSON.
pub(super) struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, Json(self.1)).into_response()
    }
}

impl Refused {
    fn failed(reason: &impl ToString) -> Self {
        Self(StatusCode::INTERNAL_SERVER_ERROR, reason.to_string())
    }
}

type Said<T> = Result<Json<T>, Refused>;

/// Runs what may wait for the store on a thread that may wait.
async fn patiently<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(Refused::failed(&error)))
}

fn args(body: &Bytes) -> Result<Args, Refused> {
    let unreadable = |error: serde_json::Error| Refused(StatusCode::UNPROCESSABLE_ENTITY, error.to_string());
    let args: Args = serde_json::from_slice(body).map_err(unreadable)?;
    match args.missing() {
        Some(field) => Err(Refused(StatusCode::UNPROCESSABLE_ENTITY, format!("{field} in body is required"))),
        None => Ok(args),
    }
}

/// `POST /ipam/ip` and `/ipam/ips`: the addresses of one interface, and of those that are served along with it.
pub(super) async fn add(Shared(state): Shared<State>, body: Bytes) -> Said<Added> {
    let args = args(&body)?;
    patiently(move || state.agent.add_for_spiderpool(&args)).await.map(Json)
}

/// `DELETE /ipam/ip`: one interface.
pub(super) async fn del(Shared(state): Shared<State>, body: Bytes) -> Result<(), Refused> {
    let args = args(&body)?;
    patiently(move || state.agent.ask(Op::Del(attachment(&args))).map(drop)).await
}

/// `DELETE /ipam/ips`: all interfaces of a container. If it is because strangers use the addresses, nobody gets them for a
/// while; but nothing of a stateful pod is given up for that.
pub(super) async fn del_all(Shared(state): Shared<State>, body: Bytes) -> Result<(), Refused> {
    let args = args(&body)?;
    patiently(move || {
        let agent = &state.agent;
        let own = agent.held_where(|holder| holder.id == args.container && holder.network == NETWORK);
        if args.for_conflict && own.iter().any(|(holder, _)| holder.sticky.is_some()) {
            let status = StatusCode::from_u16(NOT_STATEFUL).unwrap_or(StatusCode::FORBIDDEN);
            let pod = format!("{}/{}", args.pod_namespace, args.pod_name);
            return Err(Refused(status, format!("the addresses of pod {pod} are kept for it, and are not released")));
        }
        for (holder, outcome) in own {
            let one = Attachment { network: holder.network, container: holder.id, ifname: holder.ifname };
            agent.ask(Op::Del(one))?;
            if args.for_conflict {
                agent.set_apart(outcome.given).map_err(|error| Refused::failed(&error))?;
            }
        }
        Ok(())
    })
    .await
}

/// `GET /workloadendpoint`: what a pod of this node has.
pub(super) async fn endpoint(Shared(state): Shared<State>, Query(asked): Query<Asked>) -> Said<Endpoint> {
    let agent = state.agent;
    let Asked { pod_namespace, pod_name } = asked;
    let found = patiently(move || Ok(agent.endpoint(&pod_namespace, &pod_name))).await?;
    found.map(Json).ok_or_else(|| Refused(StatusCode::NOT_FOUND, "no pod of this node has this name".to_owned()))
}

/// `GET /coordinator/config`: how the coordinator plugin is to set up a pod. The pod is named in the body, or, by clients
/// that send none with a GET, in the query.
pub(super) async fn coordinator(
    Shared(state): Shared<State>,
    Query(query): Query<Asked>,
    body: Bytes,
) -> Said<coordinator::Config> {
    let asked =
        if body.is_empty() { query } else { serde_json::from_slice(&body).map_err(|error| Refused::failed(&error))? };
    patiently(move || {
        let found = coordinator::read(&state.cluster).map_err(|error| Refused::failed(&error))?;
        let pod = state.agent.pods.known(&asked.pod_namespace, &asked.pod_name, None);
        let interfaces = state.agent.endpoint(&asked.pod_namespace, &asked.pod_name);
        let interfaces = interfaces.map(|endpoint| endpoint.interfaces).unwrap_or_default();
        let nics: Vec<String> = interfaces.into_iter().map(|interface| interface.interface).collect();
        let annotations = pod.map(|pod| pod.annotations.clone()).unwrap_or_default();
        found.of_pod(&annotations, &nics).map_err(|error| Refused::failed(&error))
    })
    .await
    .map(Json)
}

fn attachment(args: &Args) -> Attachment {
    Attachment { network: NETWORK.to_owned(), container: args.container.clone(), ifname: args.if_name.clone() }
}

impl Agent {
    /// Asks as a plugin does on Berth's own socket.
    fn ask(&self, op: Op) -> Result<AddResult, Refused> {
        let answer = self.answer_all(vec![Request::new(boot::stamp(), op)]).pop();
        let answer = match answer {
            Some(Answer::Later(later)) => self.answer_later(vec![*later]).pop(),
            Some(Answer::Now(answer)) => Some(answer),
            None => None,
        };
        match answer {
            Some(protocol::Response::Ok(result) | protocol::Response::Detect { result, .. }) => Ok(result),
            Some(protocol::Response::Error(error)) => Err(Refused::failed(&error.msg)),
            _ => Ok(AddResult::default()),
        }
    }

    fn add_for_spiderpool(&self, args: &Args) -> Result<Added, Refused> {
        let own = attachment(args);
        let pod = protocol::Pod {
            namespace: args.pod_namespace.clone(),
            name: args.pod_name.clone(),
            uid: Some(args.pod_uid.clone()),
        };
        let AddResult { routes, dns, .. } = self.ask(Op::Add(AddRequest {
            attachment: own.clone(),
            pod: Some(pod),
            domain: None,
            pools: args.pools(),
            addresses: Vec::new(),
            ranges: Vec::new(),
            families: Vec::new(),
            claim: None,
            // Which NIC it is put on its callers do not say.
            uplink: args.match_master_subnet.then(Vec::new),
        }))?;
        let mut added = Added::default();
        let told =
            |network: &str, id: &str, ifname: &str| self.engine.read(|ipam| ipam.told_to(Key { network, id, ifname }));
        // What the pod itself says about routes is in the answer alone.
        let first = Outcome { routes, dns, ..told(&own.network, &own.container, &own.ifname) };
        added.add(&own.ifname, &first, args.clean_gateway);
        for Holder { network, id, ifname, .. } in self.engine.read(|ipam| ipam.awaited(&own.container)) {
            added.add(&ifname, &told(&network, &id, &ifname), args.clean_gateway);
        }
        Ok(added)
    }

    /// Sets addresses apart that strangers were seen to use.
    fn set_apart(&self, addresses: Vec<Given>) -> Result<(), Error> {
        self.engine.transact(move |context| {
            for given in &addresses {
                let Some(plane) = context.ipam.pool(&given.pool).map(|pool| pool.plane()) else { continue };
                let until = Some(context.now.after(QUARANTINE));
                match context.ipam.quarantine(&plane, given.address(), until, context.now) {
                    // Somebody of ours was quicker, and will see for himself.
                    Ok(()) | Err(Error::AddressTaken { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
    }

    /// Who on this node holds something, and what.
    pub(crate) fn held_where(&self, test: impl Fn(&Holder) -> bool) -> Vec<(Holder, Outcome)> {
        self.engine.read(|ipam| {
            let mut attachments: BTreeMap<(String, String, String), Holder> = BTreeMap::new();
            let active = ipam.slots().filter(|(.., view)| view.state == SlotState::Active);
            for holder in active.filter_map(|(.., view)| view.holder()).filter(|holder| test(holder)) {
                let key = (holder.ifname.clone(), holder.network.clone(), holder.id.clone());
                attachments.insert(key, holder);
            }
            let told = |((ifname, network, id), holder): ((String, String, String), Holder)| {
                let key = Key { network: &network, id: &id, ifname: &ifname };
                (holder, ipam.told_to(key))
            };
            attachments.into_iter().map(told).collect()
        })
    }

    fn endpoint(&self, namespace: &str, name: &str) -> Option<Endpoint> {
        let own = self.held_where(|holder| holder.namespace == namespace && holder.pod == name);
        // Of a pod that was made anew the old one's addresses may still be there.
        let newest = own.last()?.0.uid.clone();
        let own: Vec<(Holder, Outcome)> = own.into_iter().filter(|(holder, _)| holder.uid == newest).collect();
        Some(Endpoint {
            pod_namespace: namespace.to_owned(),
            pod_name: name.to_owned(),
            pod_uid: newest,
            node: self.node.clone(),
            interfaces: own.iter().map(|(holder, outcome)| Interface::of(holder.ifname.clone(), outcome)).collect(),
        })
    }
}
