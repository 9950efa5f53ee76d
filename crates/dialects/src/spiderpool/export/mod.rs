//! The way back: Berth's own pools, subnets and reservations in Spiderpool's words, as far as those go. What cannot be said
//! is named with the reason, and nothing is said that would give an address to somebody who must not have it.
//!
//! | module | what it is |
//! |---|---|
//! | `pool` | an IPPool as a SpiderIPPool |
//! | [`records`] | who has what: records of pools, endpoints of pods, and addresses that nobody is to get |

mod pool;
pub mod records;

use super::plot::{number, written};
use super::{API_VERSIONS, POOL, RESERVED, SUBNET};
use crate::object::{Metadata, Object};
use crate::verdicts::judge;
use berth_core::addr::{Family, Range, RangeSet};
use berth_core::ipam::Config;
use berth_core::model::{DEFAULT_NETWORK, POOL_OBJECT, Reservation, SUBNET_OBJECT, Subnet};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Spiderpool makes a list of every address of a subnet; with more than these it would be busy for ever.
const MOST_LISTED: u64 = 1 << 20;
/// Younger than anything that is there: of two objects that do not go together, the one that is there stays.
const YOUNGEST: &str = "9999-12-31T23:59:59Z";

/// Something to be said about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The object, as messages call it.
    pub object: String,
    /// What there is to say.
    pub text: String,
}

/// A configuration in Spiderpool's words.
#[derive(Debug, Default)]
pub struct Exported {
    /// The objects that are to be made: subnets, reservations, pools.
    pub objects: Vec<Object>,
    /// What cannot be said, and why.
    pub refused: Vec<Remark>,
    /// What is said without all of its settings.
    pub poorer: Vec<Remark>,
}

impl Exported {
    fn refuse(&mut self, object: String, text: String) {
        self.refused.push(Remark { object, text });
    }
}

/// Says a configuration in Spiderpool's words. Objects of Spiderpool that are there already stay as they are.
#[must_use]
pub fn export(config: &Config, there: &[Object]) -> Exported {
    let mut out = Exported::default();
    for subnet in config.subnets.values().filter(|subnet| subnet.object == SUBNET_OBJECT) {
        match raise_subnet(subnet) {
            Ok(object) => out.objects.push(object),
            Err(reason) => out.refuse(subnet.title(), reason),
        }
    }
    // Those of Spiderpool itself have a name that no object of ours can have.
    for own in config.reservations.values().filter(|own| !own.name.contains('/')) {
        match raise_reservation(own) {
            Ok(objects) => out.objects.extend(objects),
            Err(reason) => out.refuse(format!("IPReservation {:?}", own.name), reason),
        }
    }
    let subnets = out.objects.iter().filter(|object| object.kind == SUBNET);
    let subnets: BTreeSet<String> = subnets.map(|object| object.metadata.name.clone()).collect();
    let everything_is_default = !config.pools.values().any(|pool| pool.default);
    for own in config.pools.values().filter(|pool| pool.object == POOL_OBJECT) {
        let subnet = own.subnet.as_ref().and_then(|name| config.subnets.get(name));
        let of_exported = subnet.filter(|subnet| subnet.object == SUBNET || subnets.contains(&subnet.name));
        match pool::raise(own, subnet, of_exported.is_some(), everything_is_default) {
            Ok((object, lost)) => {
                if !lost.is_empty() {
                    let text = format!("goes without {}, which Spiderpool does not know", lost.join(", "));
                    out.poorer.push(Remark { object: own.title(), text });
                }
                out.objects.push(object);
            }
            Err(reason) => out.refuse(own.title(), reason),
        }
    }
    go_together(out, there)
}

/// Leaves out what does not go together with what is there, or among itself: Spiderpool would refuse it.
fn go_together(mut out: Exported, there: &[Object]) -> Exported {
    let names: BTreeSet<(&str, &str)> =
        out.objects.iter().map(|object| (object.kind.as_str(), object.metadata.name.as_str())).collect();
    let stays = |object: &&Object| {
        [POOL, SUBNET, RESERVED].contains(&object.kind.as_str())
            && !names.contains(&(object.kind.as_str(), object.metadata.name.as_str()))
    };
    let mut all: Vec<Object> = there.iter().filter(stays).cloned().collect();
    let young = |object: &Object| {
        let mut young = object.clone();
        young.metadata.creation_timestamp = Some(YOUNGEST.to_owned());
        young
    };
    all.extend(out.objects.iter().map(young));
    let verdicts = judge(&all);
    let refused: BTreeMap<(String, String), String> = verdicts
        .refused()
        .filter(|(object, _)| object.metadata.creation_timestamp.as_deref() == Some(YOUNGEST))
        .map(|(object, refusal)| ((object.kind.clone(), object.metadata.name.clone()), refusal.message.clone()))
        .collect();
    let mut objects = Vec::new();
    for object in std::mem::take(&mut out.objects) {
        match refused.get(&(object.kind.clone(), object.metadata.name.clone())) {
            Some(reason) => out.refuse(object.title(), reason.clone()),
            None => objects.push(object),
        }
    }
    out.objects = objects;
    out
}

fn object(kind: &str, name: &str, spec: Value) -> Object {
    Object {
        api_version: API_VERSIONS.first().copied().unwrap_or_default().to_owned(),
        kind: kind.to_owned(),
        metadata: Metadata { name: name.to_owned(), ..Metadata::default() },
        spec,
        status: None,
    }
}

fn in_one_network(network: &str) -> Result<(), String> {
    let reason = || format!("it is in the network {network:?}, and Spiderpool knows one network only");
    if network == DEFAULT_NETWORK { Ok(()) } else { Err(reason()) }
}

fn raise_subnet(own: &Subnet) -> Result<Object, String> {
    in_one_network(&own.network)?;
    let mut ips = own.available.clone().unwrap_or_else(|| [own.cidr.range()].into_iter().collect());
    let gateway = own.router();
    if let Some(gateway) = gateway {
        ips.remove_addr(gateway);
    }
    if ips.count().saturating_u64() > MOST_LISTED {
        return Err(format!("{} has more addresses than Spiderpool can list; its pools do without it", own.cidr));
    }
    let routes = routes(&own.routes, gateway)?;
    let mut spec = json!({
        "ipVersion": number(own.cidr.family()),
        "subnet": own.cidr.to_string(),
        "ips": written(ips.ranges()),
        "routes": routes,
    });
    if let Some(gateway) = gateway {
        spec["gateway"] = json!(gateway);
    }
    Ok(object(SUBNET, &own.name, spec))
}

/// One object for each family.
fn raise_reservation(own: &Reservation) -> Result<Vec<Object>, String> {
    in_one_network(&own.network)?;
    let of = |family: Family| own.ranges.iter().copied().filter(move |range| range.family() == family);
    let both = of(Family::V4).next().is_some() && of(Family::V6).next().is_some();
    let one = |family: Family| {
        let ranges: RangeSet = of(family).collect();
        let name = if both { format!("{}-ipv{}", own.name, number(family)) } else { own.name.clone() };
        (!ranges.is_empty()).then(|| reservation(&name, family, ranges.ranges()))
    };
    Ok([Family::V4, Family::V6].into_iter().filter_map(one).collect())
}

fn reservation(name: &str, family: Family, ranges: &[Range]) -> Object {
    object(RESERVED, name, json!({ "ipVersion": number(family), "ips": written(ranges) }))
}

/// Routes beside the default route, each with its next hop.
fn routes(all: &[berth_core::net::Route], gateway: Option<std::net::IpAddr>) -> Result<Vec<Value>, String> {
    let explicit = all.iter().filter(|route| !is_default(route));
    explicit
        .map(|route| match route.gw.or(gateway) {
            Some(gw) => Ok(json!({ "dst": route.dst, "gw": gw })),
            None => Err(format!("the route to {} has no next hop, and Spiderpool asks for one", route.dst)),
        })
        .collect()
}

fn is_default(route: &berth_core::net::Route) -> bool {
    matches!(route.dst.as_str(), "0.0.0.0/0" | "::/0")
}
