//! An IPPool as a SpiderIPPool.

use super::{in_one_network, is_default, object, routes};
use crate::object::Object;
use crate::spiderpool::plot::{number, written};
use crate::spiderpool::{POOL, owner};
use berth_core::addr::Cidr;
use berth_core::labels::{Operator, Selector};
use berth_core::model::{Audience, LOCAL_TYPE, Pick, Pool, Subnet, Whom};
use berth_core::net::Route;
use serde_json::{Map, Value, json};
use std::net::IpAddr;

/// The object of a pool, and what of its settings Spiderpool does not know; or why it cannot be said at all.
pub(super) fn raise(
    own: &Pool,
    subnet: Option<&Subnet>,
    subnet_is_exported: bool,
    everything_is_default: bool,
) -> Result<(Object, Vec<&'static str>), String> {
    in_one_network(&own.network)?;
    if !own.gives_addresses() {
        return Err("it gives out prefixes, and Spiderpool gives out single addresses".to_owned());
    }
    if own.kind != LOCAL_TYPE {
        return Err(format!("its addresses are given out by {:?}", own.kind));
    }
    if let Some(reason) = &own.refused {
        return Err(format!("it is not accepted: {reason}"));
    }
    let cidr = cidr(own, subnet)?;
    let inherited = subnet.filter(|_| own.inherits_routes && own.routes.is_empty()).map(|subnet| &subnet.routes);
    let own_routes = inherited.unwrap_or(&own.routes);
    let router = own.ranges.first().and_then(|range| own.gateway_of(range.first(), subnet));
    let gateway = default_gateway(own, own_routes, router);
    let routes = routes(own_routes, router)?;
    let outside = |gw: &IpAddr| !cidr.contains(*gw);
    let hops = routes.iter().filter_map(|route| route["gw"].as_str()?.parse().ok());
    if let Some(gw) = hops.chain(gateway).find(outside) {
        return Err(format!("the next hop {gw} is not in {cidr}, as Spiderpool wants it"));
    }
    let (spec, mut made) = match &own.application {
        None => (audience(&own.audience)?, object(POOL, &own.name, Value::Null)),
        Some(_) => {
            let subnet = subnet.filter(|_| subnet_is_exported);
            let subnet = subnet.ok_or("it is the pool of an application, and its subnet is not exported")?;
            let made = owner::raise_pool(own, subnet, None);
            let affinity = ("podAffinity".to_owned(), made.spec["podAffinity"].clone());
            (Map::from_iter([affinity]), made)
        }
    };
    made.spec = Value::Object(spec);
    made.spec["ipVersion"] = json!(number(own.family));
    made.spec["subnet"] = json!(cidr.to_string());
    made.spec["ips"] = json!(written(own.members(subnet).ranges()));
    made.spec["routes"] = json!(routes);
    made.spec["default"] =
        json!(own.default || (everything_is_default && !own.named_only && own.application.is_none()));
    made.spec["disable"] = json!(own.disabled);
    if let Some(gateway) = gateway {
        made.spec["gateway"] = json!(gateway);
    }
    Ok((made, lost(own, own_routes, subnet)))
}

/// The one subnet that all of its addresses are in.
fn cidr(own: &Pool, subnet: Option<&Subnet>) -> Result<Cidr, String> {
    let cidrs: Vec<Cidr> = own.ranges.iter().map(|range| own.subnet_of(range.first(), subnet)).collect();
    let (Some(first), Some(last)) = (cidrs.first(), cidrs.last()) else { return Err("it has no addresses".to_owned()) };
    if let Some(other) = cidrs.iter().find(|other| *other != first) {
        return Err(format!("its ranges are in several subnets, {first} and {other}; make a pool for each"));
    }
    match own.ranges.iter().find(|range| !last.covers(**range)) {
        Some(range) => Err(format!("{range} is in several subnets; make a pool for each")),
        None => Ok(*first),
    }
}

/// The router of the default route: Spiderpool makes one of every gateway.
fn default_gateway(own: &Pool, routes: &[Route], router: Option<IpAddr>) -> Option<IpAddr> {
    let explicit = routes.iter().find(|route| is_default(route));
    match explicit {
        Some(route) => route.gw.or(router),
        None => router.filter(|_| own.default_route),
    }
}

fn audience(own: &Audience) -> Result<Map<String, Value>, String> {
    let mut spec = Map::new();
    for (what, names, selector, by_name, by_label) in [
        ("namespaces", &own.namespaces, &own.namespace_selector, "namespaceName", "namespaceAffinity"),
        ("nodes", &own.nodes, &own.node_selector, "nodeName", "nodeAffinity"),
    ] {
        plain(what, names)?;
        if !names.is_empty() && !selector.is_empty() {
            return Err(format!("it is for {what} by name and by label at once; Spiderpool takes one of the two"));
        }
        if !names.is_empty() {
            spec.insert(by_name.to_owned(), json!(names));
        }
        if !selector.is_empty() {
            spec.insert(by_label.to_owned(), raise_selector(selector));
        }
    }
    if own.reachable {
        return Err("it is for nodes with an address in its subnet; name them, or say by label which".to_owned());
    }
    plain("attachments", &own.attachments)?;
    if let Some(name) = own.attachments.iter().find(|name| !name.contains('/')) {
        return Err(format!("{name:?} is a CNI network; Spiderpool knows definitions only, as NAMESPACE/NAME"));
    }
    if !own.attachments.is_empty() {
        spec.insert("multusName".to_owned(), json!(own.attachments));
    }
    if !own.pod_selector.is_empty() {
        spec.insert("podAffinity".to_owned(), raise_selector(&own.pod_selector));
    }
    Ok(spec)
}

fn plain(what: &str, names: &[String]) -> Result<(), String> {
    match names.iter().find(|name| name.contains(['*', '?', '['])) {
        Some(pattern) => Err(format!("it is for {what} by the pattern {pattern:?}; Spiderpool takes whole names")),
        None => Ok(()),
    }
}

fn raise_selector(selector: &Selector) -> Value {
    let expression = |(key, operator): &(String, Operator)| match operator {
        Operator::In(values) => json!({ "key": key, "operator": "In", "values": values }),
        Operator::NotIn(values) => json!({ "key": key, "operator": "NotIn", "values": values }),
        Operator::Exists => json!({ "key": key, "operator": "Exists" }),
        Operator::DoesNotExist => json!({ "key": key, "operator": "DoesNotExist" }),
    };
    json!({ "matchExpressions": selector.expressions.iter().map(expression).collect::<Vec<_>>() })
}

/// Settings that have no equal there. None of them decides who may have an address.
fn lost(own: &Pool, routes: &[Route], subnet: Option<&Subnet>) -> Vec<&'static str> {
    let plain = |route: &Route| Route { dst: route.dst.clone(), gw: route.gw, ..Route::default() } == *route;
    let has_dns = !own.dns.is_empty() || subnet.is_some_and(|subnet| !subnet.dns.is_empty());
    let all = [
        (own.pick != Pick::Sequential, "the order in which addresses are picked"),
        (!own.cool_down.is_zero(), "the cool-down"),
        (own.quota != Default::default(), "quotas"),
        (own.lending.is_some(), "leases of nodes"),
        (own.detect.is_some(), "detection (enableIPConflictDetection is for all pools)"),
        (
            own.sticky.is_some_and(|sticky| sticky.whom == Whom::Everyone),
            "addresses that stay with pods outside of StatefulSets",
        ),
        (own.sticky.is_some_and(|sticky| sticky.keep.is_some()), "the time after which addresses come back"),
        (has_dns, "DNS settings"),
        (!routes.iter().all(plain), "metrics, tables and sizes of routes"),
    ];
    all.into_iter().filter_map(|(is_set, what)| is_set.then_some(what)).collect()
}
