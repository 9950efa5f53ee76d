//! Whose a pool is that was made for an application: told by five keys of its pod affinity and by its labels, and made
//! out of those again.

use super::metadata::{self, label};
use super::plot::{number, written};
use super::{API_VERSIONS, FINALIZER, POOL, PREFIX};
use crate::field::FieldError;
use crate::native::LabelSelector;
use crate::native::pod::spiderpool::IP_NUMBER;
use crate::native::pod::{DETECT, FIRST_INTERFACE};
use crate::native::pool::raise_detection;
use crate::object::{Metadata, Object};
use berth_core::addr::{Family, Range};
use berth_core::apps::application::group;
use berth_core::apps::{Application, Size, Workload, pool_name};
use berth_core::detect::Detection;
use berth_core::model::{Pool, Subnet};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// UIDs of controllers in between, which Spiderpool does not write down.
const CONTROLLERS: &str = "berth.io/controllers";
/// The keys of the pod affinity, without their prefix.
const APP: [&str; 5] = ["app-api-group", "app-api-version", "app-kind", "app-namespace", "app-name"];
/// The longest name of an object.
const LONGEST_NAME: usize = 253;

fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// The application that a pool is for, if its pod affinity says so.
pub(super) fn read(meta: &Metadata, affinity: Option<&LabelSelector>) -> Result<Option<Application>, FieldError> {
    let Some(affinity) = affinity else { return Ok(None) };
    let labels = affinity.labels();
    let own = |name: &str| labels.get(&key(name)).cloned().unwrap_or_default();
    if !labels.contains_key(&key("app-name")) {
        return Ok(None);
    }
    let known: Vec<String> = APP.iter().map(|name| key(name)).collect();
    if affinity.has_expressions() || labels.keys().any(|label| !known.contains(label)) {
        let reason = "a pool of an application is for the pods of that one; leave other labels and expressions out";
        return Err(FieldError::new("spec.podAffinity", reason));
    }
    let label = |name: &str| meta.labels.get(&key(name)).cloned().unwrap_or_default();
    let (group, version) = (own("app-api-group"), own("app-api-version"));
    let interface = Some(label("interface")).filter(|name| !name.is_empty());
    let controllers = meta.annotations.get(CONTROLLERS).map(String::as_str).unwrap_or_default();
    Ok(Some(Application {
        api_version: if group.is_empty() { version } else { format!("{group}/{version}") },
        kind: own("app-kind"),
        namespace: own("app-namespace"),
        name: own("app-name"),
        uid: label("owner-application-uid"),
        interface: interface.unwrap_or_else(|| FIRST_INTERFACE.to_owned()),
        controllers: controllers.split(',').filter(|uid| !uid.is_empty()).map(str::to_owned).collect(),
        keep: label("ippool-reclaim") == "false",
    }))
}

/// What the pool of an application is called, whatever the subnet is that it is cut from.
#[must_use]
pub fn name(workload: &Workload, interface: &str, subnet: &Subnet) -> String {
    if subnet.object != super::SUBNET {
        return pool_name(workload, interface, subnet);
    }
    let uid: String = workload.uid.rsplit('-').next().unwrap_or_default().chars().take(5).collect();
    let tail = format!("-{interface}-{uid}").to_lowercase();
    let mut name = format!("auto{}-{}", number(subnet.cidr.family()), workload.identity.name).to_lowercase();
    name.truncate(LONGEST_NAME - tail.len());
    name + &tail
}

/// The SpiderIPPool of an application that is to be made, cut from a SpiderSubnet. `size` is what the application asks for.
#[must_use]
pub fn raise_pool(pool: &Pool, subnet: &Subnet, size: Option<Size>) -> Object {
    let own = pool.application.clone().unwrap_or_default();
    let version = own.api_version.rsplit('/').next().unwrap_or_default();
    let values = [group(&own.api_version), version, &own.kind, &own.namespace, &own.name];
    let affinity: BTreeMap<String, &str> = APP.iter().map(|name| key(name)).zip(values).collect();
    let mut labels = labels(&own);
    let family = if pool.family == Family::V4 { "IPv4" } else { "IPv6" };
    for (name, value) in [
        ("owner-spider-subnet", subnet.name.as_str()),
        ("owner-application-gv", &own.api_version.replace('/', "_")),
        ("owner-application-kind", &own.kind),
        ("owner-application-namespace", &own.namespace),
        ("owner-application-name", &own.name),
        ("interface", &own.interface),
        ("ip-version", family),
    ] {
        labels.insert(key(name), label(value));
    }
    labels.insert(metadata::POOL_CIDR.to_owned(), metadata::cidr_label(subnet.cidr));
    Object {
        api_version: API_VERSIONS.first().copied().unwrap_or_default().to_owned(),
        kind: POOL.to_owned(),
        metadata: Metadata {
            name: pool.name.clone(),
            labels,
            annotations: annotations(&own, size, pool.detect),
            ..Metadata::default()
        },
        spec: json!({
            "ipVersion": number(pool.family),
            "subnet": subnet.cidr.to_string(),
            "ips": written(&pool.ranges),
            "podAffinity": { "matchLabels": affinity },
            "default": false,
            "disable": false,
        }),
        status: None,
    }
}

/// A merge patch that gives a pool other addresses and writes down whose it is.
#[must_use]
pub fn pool_patch(ranges: &[Range], own: &Application, size: Option<Size>, detect: Option<Detection>) -> Value {
    json!({
        "metadata": { "labels": labels(own), "annotations": annotations(own, size, detect) },
        "spec": { "ips": written(ranges) },
    })
}

/// The finalizers that an object of these kinds is made with.
#[must_use]
pub fn finalizers() -> Vec<String> {
    vec![FINALIZER.to_owned()]
}

/// Those labels that change while the pool is there.
fn labels(own: &Application) -> BTreeMap<String, String> {
    let reclaim = if own.keep { "false" } else { "true" };
    [(key("owner-application-uid"), label(&own.uid)), (key("ippool-reclaim"), reclaim.to_owned())].into()
}

fn annotations(own: &Application, size: Option<Size>, detect: Option<Detection>) -> BTreeMap<String, String> {
    // A merge patch leaves out what is not named, so none is written as nothing.
    let controllers = (CONTROLLERS.to_owned(), own.controllers.join(","));
    let size = size.map(|size| (IP_NUMBER.to_owned(), size.to_string()));
    let detect = detect.map(|detect| (DETECT.to_owned(), raise_detection(detect).to_string()));
    [controllers].into_iter().chain(size).chain(detect).collect()
}
