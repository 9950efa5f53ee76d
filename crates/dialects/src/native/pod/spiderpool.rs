//! Spiderpool's annotations, read into the same wishes, terms and routes as Berth's own.
//!
//! Of a pod's annotations the first that is there counts: `subnets`, `subnet`, `ippools`, `ippool`. As there, keys in them
//! are read whatever their case. Unlike there, pools are tried in the order written, and one that two patterns match is
//! tried once.

use super::annotation::{self, bounded};
use super::routes::{DefaultRoute, Routes};
use super::wish::Wish;
use super::{FIRST_INTERFACE, MAX_INTERFACES, Namespace, Pod, attachments, networks};
use crate::field::{FieldError, decode};
use crate::object::check_name;
use crate::spiderpool::settings::Conf;
use crate::text::{Address, Text};
use berth_core::addr::{Cidr, Family};
use berth_core::apps::Size;
use berth_core::net::Route;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Pod annotation: pools of every interface.
pub const IPPOOL: &str = "ipam.spidernet.io/ippool";
/// Pod annotation: pools, interface by interface.
pub const IPPOOLS: &str = "ipam.spidernet.io/ippools";
/// Pod annotation: the subnets in which its application has pools for one interface.
pub const SUBNET: &str = "ipam.spidernet.io/subnet";
/// Pod annotation: the same, interface by interface.
pub const SUBNETS: &str = "ipam.spidernet.io/subnets";
/// Pod annotation: how large those pools are.
pub const IP_NUMBER: &str = "ipam.spidernet.io/ippool-ip-number";
/// Pod annotation: whether those pools go with the application.
pub const RECLAIM: &str = "ipam.spidernet.io/ippool-reclaim";
/// Pod annotation: routes, each for the interface that reaches its gateway.
pub const ROUTES: &str = "ipam.spidernet.io/routes";
/// Pod annotation: the interface that has the default route.
pub const DEFAULT_ROUTE_NIC: &str = "ipam.spidernet.io/default-route-nic";
/// Namespace annotation: pools of its pods.
pub const NAMESPACE_IPV4: &str = "ipam.spidernet.io/default-ipv4-ippool";
/// Namespace annotation: pools of its pods.
pub const NAMESPACE_IPV6: &str = "ipam.spidernet.io/default-ipv6-ippool";

/// One item of `ippools` or `subnets`, and all of `ippool` and `subnet`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    interface: Option<String>,
    ipv4: Option<Vec<String>>,
    ipv6: Option<Vec<String>>,
    cleangateway: Option<bool>,
}

/// One route as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRoute {
    dst: Text<Cidr>,
    gw: Text<Address>,
}

/// The annotation of a pod that says where an interface's addresses come from, if any does.
pub(super) fn speaks(pod: &Pod, ifname: &str) -> Option<&'static str> {
    let there = |key: &&'static str| pod.annotations.contains_key(*key);
    // One that cannot be read speaks of all, so that somebody hears of it.
    let of_interface = |key: &&'static str| {
        !matches!(*key, SUBNETS | SUBNET)
            || listed_subnets(&pod.annotations).map_or(true, |all| all.iter().any(|(nic, _)| nic == ifname))
    };
    [SUBNETS, SUBNET, IPPOOLS, IPPOOL].into_iter().filter(there).find(of_interface)
}

/// What a pod's annotation asks for.
pub(super) fn wish(pod: &Pod, ifname: &str, conf: &Conf) -> Result<Wish, FieldError> {
    match speaks(pod, ifname) {
        Some(SUBNETS | SUBNET) => {
            let own = subnets(&pod.annotations, conf)?.into_iter().find(|(nic, _)| nic == ifname);
            Ok(Wish { subnets: own.map(|(_, names)| names).unwrap_or_default(), ..Wish::default() })
        }
        Some(IPPOOLS) => {
            let all = listed(&pod.annotations, IPPOOLS)?;
            let (i, own) = own_entry(&all, pod, ifname)?;
            pools(own, &format!("{IPPOOLS}[{i}]"), conf)
        }
        Some(key) => pools(&object(&pod.annotations, key)?, key, conf),
        None => Ok(Wish::default()),
    }
}

/// The annotations of a namespace that speak of pools.
pub(super) fn namespace_speaks(namespace: &Namespace) -> Vec<&'static str> {
    [NAMESPACE_IPV4, NAMESPACE_IPV6].into_iter().filter(|key| namespace.annotations.contains_key(*key)).collect()
}

/// What a namespace's annotations ask for. With one family alone, the other gets nothing.
pub(super) fn namespace_wish(namespace: &Namespace, conf: &Conf) -> Result<Wish, FieldError> {
    let mut by_family = Vec::new();
    for (key, family) in [(NAMESPACE_IPV4, Family::V4), (NAMESPACE_IPV6, Family::V6)] {
        if let Some(text) = annotation::text(&namespace.annotations, key)? {
            by_family.push((family, names(annotation::list(text, key)?, key)?));
        }
    }
    without_off(&mut by_family, &namespace_speaks(namespace).join(" with "), conf)?;
    Ok(Wish { by_family, ..Wish::default() })
}

/// Leaves out what is asked for of a family that is switched off. If nothing is left, nothing is given.
fn without_off<T>(by_family: &mut Vec<(Family, T)>, path: &str, conf: &Conf) -> Result<(), FieldError> {
    let reason = by_family.iter().find_map(|(family, _)| conf.why_off(*family));
    by_family.retain(|(family, _)| conf.why_off(*family).is_none());
    match reason.filter(|_| by_family.is_empty()) {
        Some(reason) => Err(FieldError::new(path, reason)),
        None => Ok(()),
    }
}

/// Subnets, by interface.
type ByInterface<T> = Vec<(String, T)>;

/// The subnets that a pod template asks for, by interface, as far as the switches let it.
pub(super) fn subnets(
    annotations: &BTreeMap<String, String>,
    conf: &Conf,
) -> Result<ByInterface<Vec<String>>, FieldError> {
    let written = listed_subnets(annotations)?;
    let key = if annotations.contains_key(SUBNETS) { SUBNETS } else { SUBNET };
    if let Some(reason) = conf.why_no_pools().filter(|_| !written.is_empty()) {
        return Err(FieldError::new(key, reason));
    }
    let mut out = Vec::with_capacity(written.len());
    for (interface, mut names) in written {
        without_off(&mut names, key, conf)?;
        out.push((interface, names.into_iter().map(|(_, name)| name).collect()));
    }
    Ok(out)
}

/// The same as it is written: one of each family.
fn listed_subnets(annotations: &BTreeMap<String, String>) -> Result<ByInterface<Vec<(Family, String)>>, FieldError> {
    let (key, all) = if annotations.contains_key(SUBNETS) {
        (SUBNETS, listed(annotations, SUBNETS)?)
    } else if annotations.contains_key(SUBNET) {
        (SUBNET, vec![object(annotations, SUBNET)?])
    } else {
        return Ok(Vec::new());
    };
    let mut out: ByInterface<Vec<(Family, String)>> = Vec::new();
    for (i, one) in all.iter().enumerate() {
        let path = if key == SUBNETS { format!("{key}[{i}]") } else { key.to_owned() };
        let interface = one.interface.clone().unwrap_or_else(|| networks::in_order(i));
        networks::check_interface(&interface, &path)?;
        // Of several subnets of a family the first counts.
        let first =
            |(family, list): (Family, &Option<Vec<String>>)| Some((family, list.iter().flatten().next()?.clone()));
        let names: Vec<(Family, String)> =
            [(Family::V4, &one.ipv4), (Family::V6, &one.ipv6)].into_iter().filter_map(first).collect();
        bounded(names.len(), "subnet", &path)?;
        for (_, name) in &names {
            check_name(&path, name, 253, true)?;
            let has = |taken: &[(Family, String)]| taken.iter().any(|(_, other)| other == name);
            if let Some((other, _)) = out.iter().find(|(_, taken)| has(taken)) {
                let reason = format!("subnet {name:?} is asked for by {other} already; each interface has its own");
                return Err(FieldError::new(path, reason));
            }
        }
        out.push((interface, names));
    }
    Ok(out)
}

/// On what terms pools of an application are wanted.
pub(super) fn terms(annotations: &BTreeMap<String, String>) -> Result<(Option<Size>, bool), FieldError> {
    let size = annotation::text(annotations, IP_NUMBER)?.map(str::parse).transpose();
    let size = size.map_err(|reason| FieldError::new(IP_NUMBER, reason))?;
    let keep = match annotation::text(annotations, RECLAIM)? {
        None | Some("1" | "t" | "T" | "TRUE" | "true" | "True") => false,
        Some("0" | "f" | "F" | "FALSE" | "false" | "False") => true,
        Some(other) => {
            let shown: String = other.chars().take(64).collect();
            return Err(FieldError::new(RECLAIM, format!("{shown:?} is neither \"true\" nor \"false\"")));
        }
    };
    Ok((size, keep))
}

/// What becomes of the routes of an interface, beside what Berth's own annotations say.
pub(super) fn routes(pod: &Pod, ifname: &str, mut routes: Routes) -> Result<Routes, FieldError> {
    if routes.default == DefaultRoute::AsPools {
        let clean = match speaks(pod, ifname) {
            Some(IPPOOLS) => {
                let all = listed(&pod.annotations, IPPOOLS)?;
                own_entry(&all, pod, ifname)?.1.cleangateway
            }
            _ => None,
        };
        routes.default = match annotation::text(&pod.annotations, DEFAULT_ROUTE_NIC)? {
            Some(nic) if nic == ifname => DefaultRoute::Here,
            Some(_) => DefaultRoute::Elsewhere,
            None if clean == Some(true) => DefaultRoute::Elsewhere,
            None => DefaultRoute::AsPools,
        };
    }
    let Some(text) = annotation::text(&pod.annotations, ROUTES)? else { return Ok(routes) };
    let value = lower_keys(annotation::value(text, ROUTES)?);
    let written: Vec<WrittenRoute> = decode(&value, ROUTES)?;
    bounded(written.len(), "route", ROUTES)?;
    for (i, WrittenRoute { dst: Text(dst), gw: Text(Address(gw)) }) in written.into_iter().enumerate() {
        if Family::of(gw) != dst.family() {
            return Err(FieldError::new(format!("{ROUTES}[{i}].gw"), format!("{gw} is not of the family of {dst}")));
        }
        routes.reachable.push(Route { dst: dst.to_string(), gw: Some(gw), ..Route::default() });
    }
    Ok(routes)
}

/// The item of a list that speaks of an interface: by name, or by place where no item has a name.
fn own_entry<'a>(all: &'a [Written], pod: &Pod, ifname: &str) -> Result<(usize, &'a Written), FieldError> {
    let named = all.iter().any(|one| one.interface.is_some());
    let place =
        if named { all.iter().position(|one| one.interface.as_deref() == Some(ifname)) } else { place(pod, ifname) };
    let own = place.and_then(|place| Some((place, all.get(place)?)));
    own.ok_or_else(|| {
        let reason = if named {
            format!("interface {ifname} must be specified")
        } else {
            format!("lists {} interfaces, and {ifname} is not among the first so many", all.len())
        };
        FieldError::new(IPPOOLS, reason)
    })
}

/// Which of the pod's interfaces it is, counted from the first.
pub(super) fn place(pod: &Pod, ifname: &str) -> Option<usize> {
    let selected = attachments::selected(pod).unwrap_or_default();
    let further = selected.iter().filter(|one| one.interface != FIRST_INTERFACE);
    let known = further.map(|one| one.interface.as_str()).position(|name| name == ifname).map(|i| i + 1);
    known.or_else(|| (0..MAX_INTERFACES).find(|i| networks::in_order(*i) == ifname))
}

/// The pools that one item names, family by family.
fn pools(written: &Written, path: &str, conf: &Conf) -> Result<Wish, FieldError> {
    let mut by_family = Vec::new();
    for (field, family, list) in [("ipv4", Family::V4, &written.ipv4), ("ipv6", Family::V6, &written.ipv6)] {
        if let Some(list) = list.as_ref().filter(|list| !list.is_empty()) {
            by_family.push((family, names(list.clone(), &format!("{path}.{field}"))?));
        }
    }
    bounded(by_family.len(), "pool, in ipv4 or ipv6", path)?;
    without_off(&mut by_family, path, conf)?;
    Ok(Wish { by_family, ..Wish::default() })
}

/// Names and patterns of pools. A bracket that is not closed is no pattern.
fn names(list: Vec<String>, path: &str) -> Result<Vec<String>, FieldError> {
    let list = annotation::pools(list, path)?;
    if let Some(i) = list.iter().position(|name| name.rfind('[') > name.rfind(']')) {
        return Err(FieldError::new(format!("{path}[{i}]"), format!("{:?} has a bracket that is not closed", list[i])));
    }
    Ok(list)
}

/// The one object that an annotation is.
fn object(annotations: &BTreeMap<String, String>, key: &str) -> Result<Written, FieldError> {
    let text = annotation::text(annotations, key)?.unwrap_or_default();
    let value = lower_keys(annotation::value(text, key)?);
    if !value.is_object() {
        return Err(FieldError::new(key, r#"is not an object; write e.g. {"ipv4":["blue"]}"#));
    }
    decode(&value, key)
}

/// The list that an annotation is: each interface once, and all with a name or none.
fn listed(annotations: &BTreeMap<String, String>, key: &str) -> Result<Vec<Written>, FieldError> {
    let text = annotation::text(annotations, key)?.unwrap_or_default();
    let Value::Array(items) = lower_keys(annotation::value(text, key)?) else {
        return Err(FieldError::new(key, r#"is not a list; write e.g. [{"interface":"eth0","ipv4":["blue"]}]"#));
    };
    if items.is_empty() || items.len() > MAX_INTERFACES {
        return Err(FieldError::new(key, format!("lists {} interfaces; list 1 to {MAX_INTERFACES}", items.len())));
    }
    let mut all: Vec<Written> = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let path = format!("{key}[{i}]");
        let mut one: Written = decode(item, &path)?;
        one.interface = one.interface.filter(|name| !name.is_empty());
        if all.first().is_some_and(|first| first.interface.is_some() != one.interface.is_some()) {
            let reason = "some interfaces have a name and some have none; name all, or none";
            return Err(FieldError::new(format!("{path}.interface"), reason));
        }
        if let Some(name) =
            one.interface.as_ref().filter(|name| all.iter().any(|two| two.interface.as_ref() == Some(name)))
        {
            return Err(FieldError::new(format!("{path}.interface"), format!("duplicate interface {name}")));
        }
        all.push(one);
    }
    Ok(all)
}

/// The same with the keys of objects in lower case.
fn lower_keys(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| (key.to_lowercase(), lower_keys(value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().map(lower_keys).collect(),
        other => other,
    }
}
