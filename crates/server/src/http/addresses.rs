//! Addresses: given out, taken back, shown, explained.

use super::shape::{AddressShape, AllocateShape, EventShape, HolderShape, OutcomeShape, state_name};
use super::{Answer, Problem, blocking};
use crate::node::{Node, now};
use crate::objects::rfc3339;
use axum::Json;
use axum::extract::{Path, Query, State};
use axum_extra::extract::WithRejection;
use berth_core::addr::{Cidr, Family};
use berth_core::block::{Plane, Slot, State as SlotState};
use berth_core::error::Error;
use berth_core::holder::{Kind, Sticky};
use berth_core::ipam::{Group, Ipam, Outcome, Request, Trace};
use berth_core::model::{DEFAULT_NETWORK, Pool, Subject};
use berth_core::time::Time;
use berth_dialects::duration::GoDuration;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use utoipa::{IntoParams, ToSchema};

/// What an address that was ever used can be.
const STATES: [&str; 5] = ["Active", "Held", "Quarantined", "Cooling", "Released"];

/// A page holds this many addresses at most.
const MAX_PAGE: usize = 10_000;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Network {
    /// The network; `default` if left out.
    network: Option<String>,
}

impl Network {
    fn name(&self) -> String {
        self.network.clone().unwrap_or_else(|| DEFAULT_NETWORK.to_owned())
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Filter {
    /// Only this network.
    network: Option<String>,
    /// Only this pool.
    pool: Option<String>,
    /// Only holders of this namespace.
    namespace: Option<String>,
    /// Only holders on this node.
    node: Option<String>,
    /// Only this holder (container ID or name).
    holder: Option<String>,
    /// Only this state; without it, all but `Released`.
    state: Option<String>,
    /// How many at most.
    limit: Option<usize>,
    /// Where the page before ended.
    #[serde(rename = "continue")]
    token: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Addresses {
    /// The addresses, in order.
    items: Vec<AddressShape>,
    /// Pass this as `continue` for the next page; null on the last one.
    #[serde(rename = "continue")]
    token: Option<String>,
}

/// What is held, in order of address.
#[utoipa::path(get, path = "/v1alpha1/addresses", tag = "addresses", params(Filter),
    responses((status = 200, body = Addresses)))]
pub(crate) async fn list(
    State(node): State<Arc<Node>>,
    WithRejection(Query(filter), _): WithRejection<Query<Filter>, Problem>,
) -> Answer<Addresses> {
    blocking(&node, move |node| node.engine.read(|ipam| page(ipam, &filter, &node.name))).await.map(Json)
}

fn page(ipam: &Ipam, filter: &Filter, home: &str) -> Result<Addresses, Error> {
    let wanted = |filter: &Option<String>, value: &str| filter.as_deref().is_none_or(|filter| filter == value);
    let limit = filter.limit.unwrap_or(MAX_PAGE).min(MAX_PAGE);
    if limit == 0 {
        return Err(invalid("limit", "a page must hold at least 1 address"));
    }
    if let Some(state) = filter.state.as_deref().filter(|state| !STATES.contains(state)) {
        return Err(invalid("state", format!("{state:?} is not a state; there are {}", STATES.join(", "))));
    }
    let after = filter.token.as_deref().map(place).transpose()?;
    let mut items = Vec::new();
    for (plane, unit, view) in ipam.slots() {
        // By order, not by finding it: the last unit of the page before may have been forgotten since.
        if after.as_ref().is_some_and(|(last_plane, last_unit)| (plane, unit) <= (last_plane, *last_unit)) {
            continue;
        }
        // Leases are kept beside the networks they are of; who wants to see them names that place.
        let is_lease = filter.network.is_none() && plane.network.ends_with("/leases");
        let matches = !is_lease
            && wanted(&filter.network, &plane.network)
            && wanted(&filter.namespace, view.namespace())
            && wanted(&filter.node, if is_at_home(view.node(), view.kind()) { home } else { view.node() })
            && (filter.state.is_some() || view.state != SlotState::Released);
        if !matches {
            continue;
        }
        let slot = view.to_slot();
        let holder = slot.holder.as_ref().map_or("", |holder| &holder.id).to_owned();
        let shape = shape(ipam, plane, unit, Some(slot));
        if wanted(&filter.pool, &shape.pool) && wanted(&filter.holder, &holder) && wanted(&filter.state, shape.state) {
            if items.len() == limit {
                let last = items.last().map(|shape: &AddressShape| format!("{}/{}", shape.network, shape.unit));
                return Ok(Addresses { items, token: last });
            }
            items.push(shape);
        }
    }
    Ok(Addresses { items, token: None })
}

/// The unit that a page ended with, from its token: `NETWORK/ADDRESS/LENGTH`.
fn place(token: &str) -> Result<(Plane, u128), Error> {
    let parse = || {
        let (network, prefix) = token.split_once('/')?;
        let prefix: Cidr = prefix.parse().ok()?;
        let plane = Plane { network: network.into(), family: prefix.family(), unit_len: prefix.prefix_len() };
        let unit = plane.unit_of(prefix.network());
        Some((plane, unit))
    };
    parse().ok_or_else(|| invalid("continue", format!("{token:?} is not what a page before answered")))
}

fn shape(ipam: &Ipam, plane: &Plane, unit: u128, slot: Option<Slot>) -> AddressShape {
    let addr = plane.addr(unit);
    let own = |pool: &&Arc<Pool>| pool.plane() == *plane && pool.ranges.iter().any(|range| range.contains(addr));
    let pool = ipam.pools().find(own);
    let rests = |pool: &Arc<Pool>| slot.as_ref().is_some_and(|slot| pool.rests(slot.since, now()));
    let cooling = pool.is_some_and(rests);
    AddressShape::new(plane, unit, pool.map(|pool| pool.name.clone()).unwrap_or_default(), slot, cooling)
}

/// Who has an address.
#[utoipa::path(get, path = "/v1alpha1/addresses/{address}", tag = "addresses",
    params(("address" = String, Path), Network), responses((status = 200, body = Addresses), (status = 422, body = Problem)))]
pub(crate) async fn show(
    State(node): State<Arc<Node>>,
    WithRejection(Path(address), _): WithRejection<Path<IpAddr>, Problem>,
    WithRejection(Query(query), _): WithRejection<Query<Network>, Problem>,
) -> Answer<Addresses> {
    blocking(&node, move |node| {
        let items = node.engine.read(|ipam| {
            let networks = query.network.map_or_else(|| ipam.networks(), |name| vec![name]);
            networks.iter().flat_map(|network| in_network(ipam, network, address)).collect::<Vec<_>>()
        });
        if items.is_empty() {
            let pools = node.engine.read(|ipam| ipam.pools().map(|pool| pool.name.clone()).collect::<Vec<_>>());
            return Err(Error::AddressOutside { address, pools: pools.join(", ") });
        }
        Ok(Json(Addresses { items, token: None }))
    })
    .await
}

fn in_network(ipam: &Ipam, network: &str, address: IpAddr) -> Vec<AddressShape> {
    let known: Vec<AddressShape> = (ipam.slots_of(network, address))
        .map(|(plane, unit, view)| shape(ipam, plane, unit, Some(view.to_slot())))
        .collect();
    if !known.is_empty() {
        return known;
    }
    let own = |pool: &&Arc<Pool>| &*pool.network == network && pool.ranges.iter().any(|range| range.contains(address));
    let free = ipam.pools().filter(own).map(|pool| {
        let plane = pool.plane();
        shape(ipam, &plane, plane.unit_of(address), None)
    });
    free.collect()
}

/// Gives addresses out.
#[utoipa::path(post, path = "/v1alpha1/addresses", tag = "addresses", request_body = AllocateShape,
    responses((status = 200, body = OutcomeShape), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn allocate(
    State(node): State<Arc<Node>>,
    WithRejection(Json(body), _): WithRejection<Json<AllocateShape>, Problem>,
) -> Answer<OutcomeShape> {
    let started = Instant::now();
    let result = blocking(&node, move |node| node.engine.allocate(lower(node, body)?, None)).await;
    node.metrics.observe("allocate", result.is_ok(), started.elapsed());
    result.map(|outcome| Json(outcome.into()))
}

fn invalid(field: &str, reason: impl Into<String>) -> Error {
    Error::Invalid { field: field.to_owned(), reason: reason.into() }
}

fn duration(field: &str, text: &str) -> Result<Duration, Error> {
    text.parse::<GoDuration>().map(|d| d.0).map_err(|error| invalid(field, error.to_string()))
}

/// A request in the words of the core.
fn lower(node: &Node, body: AllocateShape) -> Result<Request, Error> {
    if body.holder.id.is_empty() {
        return Err(invalid("holder.id", "must name who will hold the addresses"));
    }
    let family = |text: &String| match text.as_str() {
        "IPv4" => Ok(Family::V4),
        "IPv6" => Ok(Family::V6),
        other => Err(invalid("families", format!("{other:?} is not a family; write IPv4 or IPv6"))),
    };
    let families = body.families.iter().map(family).collect::<Result<Vec<_>, Error>>()?;
    let count = body.count.unwrap_or(1);
    if !(1..=256).contains(&count) {
        return Err(invalid("count", format!("{count} is not between 1 and 256")));
    }
    let mut holder = body.holder.lower().map_err(|reason| invalid("holder.kind", reason))?;
    if let Some(keep) = &body.keep {
        let keep = if keep == "forever" { None } else { Some(duration("keep", keep)?) };
        holder.sticky = Some(Sticky { identity: format!("holder/{}/{}", holder.id, holder.ifname), keep });
    }
    let subject = Subject {
        namespace: holder.namespace.clone(),
        namespace_labels: body.labels.namespace,
        pod_labels: body.labels.pod,
        node: if holder.node.is_empty() { node.name.clone() } else { holder.node.clone() },
        node_labels: body.labels.node,
        ..Subject::default()
    };
    let addresses = body.addresses.iter().map(IpAddr::to_canonical).collect();
    let (pools, network, kind) = (body.pools, body.network, body.kind);
    let group = Group { pools, network, kind, addresses, families, within: Vec::new(), count };
    let mut request = Request { holder, subject, groups: vec![group] };
    if let Some(claim) = &body.claim {
        node.use_claim(claim, &mut request)?;
    }
    Ok(request)
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PoolVerdict {
    /// The pool.
    pool: String,
    /// The family it was looked at for.
    family: String,
    /// What ruled it out; null if it was used.
    dropped: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Explanation {
    /// Every pool looked at, in order.
    considered: Vec<PoolVerdict>,
    /// What would be given out.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    outcome: Option<OutcomeShape>,
    /// Why nothing would.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Problem>,
}

/// What a request would get, and why. Changes nothing.
#[utoipa::path(post, path = "/v1alpha1/explain", tag = "addresses", request_body = AllocateShape,
    responses((status = 200, body = Explanation), (status = 422, body = Problem)))]
pub(crate) async fn explain(
    State(node): State<Arc<Node>>,
    WithRejection(Json(body), _): WithRejection<Json<AllocateShape>, Problem>,
) -> Answer<Explanation> {
    blocking(&node, move |node| {
        let (trace, outcome) = node.engine.explain(&lower(node, body)?);
        Ok(Json(Explanation::new(trace, outcome)))
    })
    .await
}

impl Explanation {
    pub(crate) fn new(trace: Trace, outcome: Result<Outcome, Error>) -> Self {
        let considered = trace.considered.into_iter().map(|c| PoolVerdict {
            pool: c.pool,
            family: c.family.to_string(),
            dropped: c.dropped,
        });
        let (outcome, error) = match outcome {
            Ok(outcome) => (Some(outcome.into()), None),
            Err(error) => (None, Some(Problem::from(error))),
        };
        Self { considered: considered.collect(), outcome, error }
    }
}

/// How a request was decided, in the words of the API: for whoever decides without a daemon.
#[must_use]
pub fn explanation(trace: Trace, outcome: Result<Outcome, Error>) -> serde_json::Value {
    serde_json::to_value(Explanation::new(trace, outcome)).unwrap_or_default()
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Released {
    /// What was taken back.
    #[schema(value_type = Vec<String>)]
    released: Vec<IpAddr>,
    /// Who had it.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<HolderShape>,
}

/// Takes one address back, whoever has it.
#[utoipa::path(delete, path = "/v1alpha1/addresses/{address}", tag = "addresses",
    params(("address" = String, Path), Network), responses((status = 200, body = Released), (status = 422, body = Problem)))]
pub(crate) async fn release(
    State(node): State<Arc<Node>>,
    WithRejection(Path(address), _): WithRejection<Path<IpAddr>, Problem>,
    WithRejection(Query(query), _): WithRejection<Query<Network>, Problem>,
) -> Answer<Released> {
    let network = query.name();
    let holder = blocking(&node, move |node| {
        node.engine.transact(move |context| context.ipam.release_address(&network, address, context.now))
    });
    let holder = holder.await?.map(HolderShape::from);
    Ok(Json(Released { released: vec![address], holder }))
}

/// Containers of this machine are recorded without a node: it is always this one.
fn is_at_home(node: &str, kind: Option<Kind>) -> bool {
    node.is_empty() && kind == Some(Kind::Container)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Whose {
    /// Everything of this holder (container ID or name).
    holder: Option<String>,
    /// Only this interface of it.
    ifname: Option<String>,
    /// Only in this CNI network.
    cni_network: Option<String>,
    /// Everything on this node.
    node: Option<String>,
}

/// Takes back what a holder or a node has.
#[utoipa::path(delete, path = "/v1alpha1/addresses", tag = "addresses", params(Whose),
    responses((status = 200, body = Released), (status = 422, body = Problem)))]
pub(crate) async fn release_many(
    State(node): State<Arc<Node>>,
    WithRejection(Query(whose), _): WithRejection<Query<Whose>, Problem>,
) -> Answer<Released> {
    for (field, value) in [("holder", &whose.holder), ("node", &whose.node)] {
        if value.as_deref() == Some("") {
            return Err(invalid(field, "is empty; name one").into());
        }
    }
    if whose.holder.is_none() && whose.node.is_none() {
        return Err(invalid("holder", "name a holder or a node: everything is never released at once").into());
    }
    let home = node.name.clone();
    let released = blocking(&node, move |node| {
        node.engine.transact(move |context| {
            let is = |filter: &Option<String>, value: &str| filter.as_deref().is_none_or(|filter| filter == value);
            let test = |holder: &berth_core::holder::Holder| {
                is(&whose.holder, &holder.id)
                    && is(&whose.ifname, &holder.ifname)
                    && is(&whose.cni_network, &holder.network)
                    && is(&whose.node, if is_at_home(&holder.node, Some(holder.kind)) { &home } else { &holder.node })
            };
            Ok(context.ipam.release_where(test, context.now))
        })
    });
    Ok(Json(Released { released: released.await?, holder: None }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Past {
    /// Only this network.
    network: Option<String>,
    /// Only since then: an instant (RFC 3339) or a duration (`24h`).
    since: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Events {
    /// What happened, oldest first.
    items: Vec<EventShape>,
}

/// Who held an address when.
#[utoipa::path(get, path = "/v1alpha1/addresses/{address}/history", tag = "addresses",
    params(("address" = String, Path), Past), responses((status = 200, body = Events), (status = 422, body = Problem)))]
pub(crate) async fn history(
    State(node): State<Arc<Node>>,
    WithRejection(Path(address), _): WithRejection<Path<IpAddr>, Problem>,
    WithRejection(Query(past), _): WithRejection<Query<Past>, Problem>,
) -> Answer<Events> {
    let from = match &past.since {
        None => Time(0),
        Some(text) => instant(text)?,
    };
    let events = blocking(&node, move |node| {
        let events = node.history.of(past.network.as_deref(), address, from);
        events.map_err(|error| Error::Store(format!("read the audit trail: {error}")))
    });
    let event = |event: berth_store::Event| {
        let slot = event.slot?;
        let plane =
            Plane { network: event.network.as_str().into(), family: Family::of(address), unit_len: event.unit_len };
        Some(EventShape {
            at: rfc3339(slot.since),
            state: state_name(slot.state, false),
            unit: plane.prefix(plane.unit_of(event.address)).to_string(),
            network: event.network,
            holder: slot.holder.map(HolderShape::from),
        })
    };
    Ok(Json(Events { items: events.await?.into_iter().filter_map(event).collect() }))
}

fn instant(text: &str) -> Result<Time, Error> {
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return Ok(Time::from_secs(u64::try_from(instant.as_second()).unwrap_or(0)));
    }
    duration("since", text).map(|ago| now().before(ago))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quarantine {
    /// The address.
    #[schema(value_type = String)]
    address: IpAddr,
    /// The network; `default` if left out.
    network: Option<String>,
    /// For how long; for ever if left out.
    #[serde(rename = "for")]
    duration: Option<String>,
}

/// Sets an address apart that a stranger was seen to use.
#[utoipa::path(post, path = "/v1alpha1/quarantine", tag = "addresses", request_body = Quarantine,
    responses((status = 200, body = AddressShape), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn quarantine(
    State(node): State<Arc<Node>>,
    WithRejection(Json(body), _): WithRejection<Json<Quarantine>, Problem>,
) -> Answer<AddressShape> {
    let until = body.duration.as_deref().map(|text| duration("for", text)).transpose()?.map(|d| now().after(d));
    let (address, network) = (body.address, body.network.unwrap_or_else(|| DEFAULT_NETWORK.to_owned()));
    let shape = blocking(&node, move |node| {
        node.engine.transact(move |context| {
            let own = |pool: &&Arc<Pool>| *pool.network == *network && pool.ranges.iter().any(|r| r.contains(address));
            let Some(plane) = context.ipam.pools().find(own).map(|pool| pool.plane()) else {
                let pools = context.ipam.pools().map(|pool| pool.name.clone()).collect::<Vec<_>>().join(", ");
                return Err(Error::AddressOutside { address, pools });
            };
            context.ipam.quarantine(&plane, address, until, context.now)?;
            in_network(context.ipam, &network, address).pop().ok_or_else(|| Error::Store("lost the record".to_owned()))
        })
    });
    shape.await.map(Json)
}
