//! `berth.io/networks`: what each interface of a pod is to get, in one list.

use super::annotation::{self, bounded};
use super::application;
use super::routes::{DefaultRoute, Routes};
use super::wish::{ClaimRef, Wish};
use super::{FIRST_INTERFACE, MAX_INTERFACES, NETWORKS};
use crate::field::{FieldError, decode};
use crate::native::claim::WrittenFamily;
use crate::native::net::RouteSpec;
use berth_core::addr::{Cidr, Family};
use berth_core::net::Route;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// One item of the list as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    interface: Option<String>,
    pools: Option<Vec<String>>,
    addresses: Option<Vec<String>>,
    claim: Option<String>,
    subnets: Option<Vec<String>>,
    families: Option<Vec<WrittenFamily>>,
    default_route: Option<bool>,
    routes: Option<Vec<RouteSpec>>,
}

/// What the list says about one interface.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) interface: String,
    /// Where it stands, e.g. `berth.io/networks[1]`.
    pub(super) path: String,
    pools: Vec<String>,
    addresses: Vec<IpAddr>,
    families: Vec<Family>,
    claim: Option<String>,
    subnets: Vec<String>,
    default_route: Option<bool>,
    routes: Vec<Route>,
}

impl Entry {
    /// Whether it says where addresses come from; routes alone leave that to the next rule.
    pub(super) fn is_wish(&self) -> bool {
        let lists = self.pools.is_empty() && self.addresses.is_empty() && self.families.is_empty();
        self.claim.is_some() || !lists || !self.subnets.is_empty()
    }

    /// What it asks for, as a pod of `namespace`.
    pub(super) fn wish(&self, namespace: &str) -> Result<Wish, FieldError> {
        let path = format!("{}.claim", self.path);
        let claim = self.claim.as_ref().map(|text| ClaimRef::read(text, &path, namespace)).transpose()?;
        Ok(Wish {
            pools: self.pools.clone(),
            by_family: Vec::new(),
            addresses: self.addresses.clone(),
            ranges: Vec::new(),
            families: self.families.clone(),
            claim,
            subnets: self.subnets.clone(),
        })
    }

    /// Whether it brings the default route to its interface.
    fn has_default_route(&self) -> bool {
        self.default_route == Some(true) || self.routes.iter().any(super::routes::is_default)
    }
}

/// The list; empty if the pod has none.
#[derive(Clone, Debug, Default)]
pub(super) struct Networks(Vec<Entry>);

impl Networks {
    /// Reads the annotation and checks what can be told from it alone, for all interfaces and not only the one that is
    /// asked about: a mistake shows with the first ADD, not with the third.
    pub(super) fn read(annotations: &BTreeMap<String, String>) -> Result<Self, FieldError> {
        let Some(text) = annotation::text(annotations, NETWORKS)? else { return Ok(Self::default()) };
        let value = annotation::value(text, NETWORKS)?;
        let Value::Array(items) = &value else {
            let reason = r#"is not a list; write e.g. [{"interface":"eth0","pools":["blue"]}]"#;
            return Err(FieldError::new(NETWORKS, reason));
        };
        if items.is_empty() || items.len() > MAX_INTERFACES {
            let reason = format!("lists {} interfaces; list 1 to {MAX_INTERFACES}", items.len());
            return Err(FieldError::new(NETWORKS, reason));
        }
        let mut entries: Vec<Entry> = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            let path = format!("{NETWORKS}[{i}]");
            if !item.is_object() {
                let reason = r#"is not an object; write e.g. {"interface":"eth0","pools":["blue"]}"#;
                return Err(FieldError::new(path, reason));
            }
            let written: Written = decode(item, &path)?;
            let named = items[0].get("interface").is_some();
            if written.interface.is_some() != named {
                let (has, other) = if named { ("has none", "has one") } else { ("has one", "has none") };
                let reason = format!(
                    "{has}, and {NETWORKS}[0] {other}; name all interfaces, or none, and they are taken in order: \
                     {FIRST_INTERFACE}, net1, net2 …"
                );
                return Err(FieldError::new(format!("{path}.interface"), reason));
            }
            let interface = written.interface.clone().unwrap_or_else(|| in_order(i));
            check_interface(&interface, &path)?;
            if let Some(first) = entries.iter().find(|entry| entry.interface == interface) {
                let reason = format!("{interface:?} is listed already, at {}; put both into one", first.path);
                return Err(FieldError::new(format!("{path}.interface"), reason));
            }
            entries.push(read_entry(written, interface, path)?);
        }
        one_default_route(&entries)?;
        Ok(Self(entries))
    }

    /// What the list says about an interface.
    pub(super) fn entry(&self, interface: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.interface == interface)
    }

    /// The subnets asked for, by interface.
    pub(super) fn subnets(&self) -> impl Iterator<Item = (String, Vec<String>)> + '_ {
        let asking = self.0.iter().filter(|entry| !entry.subnets.is_empty());
        asking.map(|entry| (entry.interface.clone(), entry.subnets.clone()))
    }

    /// The interfaces listed, in order.
    pub(super) fn interfaces(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|entry| entry.interface.as_str())
    }

    /// What becomes of the routes of an interface, listed or not: one that has the default route takes it from the rest.
    pub(super) fn routes(&self, interface: &str) -> Routes {
        let own = self.entry(interface);
        let elsewhere = self.0.iter().any(|entry| entry.interface != interface && entry.has_default_route());
        let default = match own.and_then(|entry| entry.default_route) {
            Some(true) => DefaultRoute::Here,
            Some(false) => DefaultRoute::Elsewhere,
            None if elsewhere => DefaultRoute::Elsewhere,
            None => DefaultRoute::AsPools,
        };
        Routes { default, extra: own.map(|entry| entry.routes.clone()).unwrap_or_default(), reachable: Vec::new() }
    }
}

/// The name that a runtime gives to the `i`th interface.
pub(super) fn in_order(i: usize) -> String {
    if i == 0 { FIRST_INTERFACE.to_owned() } else { format!("net{i}") }
}

/// Linux has names of up to 15 bytes, without slashes and spaces.
pub(in crate::native) fn check_interface(name: &str, path: &str) -> Result<(), FieldError> {
    let fits = |c: char| c.is_ascii_graphic() && c != '/' && c != ':';
    if (1..=15).contains(&name.len()) && name.chars().all(fits) && name != "." && name != ".." {
        return Ok(());
    }
    let shown: String = name.chars().take(64).collect();
    let reason = format!("{shown:?} is not the name of an interface; write e.g. \"eth0\" or \"net1\"");
    Err(FieldError::new(format!("{path}.interface"), reason))
}

fn read_entry(written: Written, interface: String, path: String) -> Result<Entry, FieldError> {
    let Written { pools, addresses, claim, subnets, families, default_route, routes, .. } = written;
    let at = |field: &str| format!("{path}.{field}");
    for (other, field, given) in [
        ("subnets", "pools", subnets.is_some() && pools.is_some()),
        ("subnets", "addresses", subnets.is_some() && addresses.is_some()),
        ("subnets", "claim", subnets.is_some() && claim.is_some()),
        ("subnets", "families", subnets.is_some() && families.is_some()),
        ("claim", "pools", claim.is_some() && pools.is_some()),
        ("claim", "addresses", claim.is_some() && addresses.is_some()),
        ("claim", "families", claim.is_some() && families.is_some()),
        ("addresses", "families", addresses.is_some() && families.is_some()),
    ] {
        if given {
            return Err(FieldError::new(at(field), format!("leave it out: {other} says which addresses are wanted")));
        }
    }
    if let Some(families) = &families {
        bounded(families.len(), "family", &at("families"))?;
    }
    if let Some(routes) = &routes {
        bounded(routes.len(), "route", &at("routes"))?;
    }
    let mut families: Vec<Family> = families.into_iter().flatten().map(Into::into).collect();
    let wanted = families.len();
    families.sort();
    families.dedup();
    if families.len() < wanted {
        return Err(FieldError::new(at("families"), "has a family twice; one address of each is given"));
    }
    let routes: Vec<Route> = routes.into_iter().flatten().map(Into::into).collect();
    for (i, route) in routes.iter().enumerate() {
        let family = route.dst.parse::<Cidr>().ok().map(Cidr::family);
        if let Some(gw) = route.gw.filter(|gw| family.is_some_and(|family| family != Family::of(*gw))) {
            let reason = format!("{gw} is not of the family of {}", route.dst);
            return Err(FieldError::new(at(&format!("routes[{i}].gw")), reason));
        }
    }
    Ok(Entry {
        pools: pools.map(|names| annotation::pools(names, &at("pools"))).transpose()?.unwrap_or_default(),
        addresses: addresses.map(|a| annotation::addresses(&a, &at("addresses"))).transpose()?.unwrap_or_default(),
        subnets: subnets.map(|names| application::subnets(names, &at("subnets"))).transpose()?.unwrap_or_default(),
        interface,
        families,
        claim,
        default_route,
        routes,
        path,
    })
}

/// A pod has one way out. Two would leave it to the order of the ADDs which one it is.
fn one_default_route(entries: &[Entry]) -> Result<(), FieldError> {
    let mut first: Option<&Entry> = None;
    for entry in entries.iter().filter(|entry| entry.has_default_route()) {
        let path = format!("{}.defaultRoute", entry.path);
        if entry.default_route == Some(false) {
            return Err(FieldError::new(path, "is false, and its routes have a default route; remove one of the two"));
        }
        if let Some(first) = first {
            let reason = format!("{} has the default route already; only one interface can", first.interface);
            return Err(FieldError::new(path, reason));
        }
        first = Some(entry);
    }
    Ok(())
}
