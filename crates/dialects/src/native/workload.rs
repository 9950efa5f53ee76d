//! What a controller object says about the pods it makes: any kind, as the API server has it.
//!
//! The kinds of Kubernetes are known by name. Of every other kind only two things are relied on: `spec.template`, where
//! whoever makes pods keeps their template, and the `scale` subresource, which says how many there are to be.

use super::pod::Terms;
use crate::spiderpool::settings::Conf;
use berth_core::apps::application::group;
use berth_core::apps::{Controller, Identity, Workload};
use berth_core::error::Error;
use serde_json::Value;
use std::collections::BTreeMap;

/// What an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// An application.
    Application(Workload),
    /// A controller in between, made by another one: its pods are that one's.
    Part {
        /// Its UID.
        uid: String,
        /// The namespace of both.
        namespace: String,
        /// Whose it is.
        of: Controller,
    },
}

/// Reads a controller object, with what its `scale` subresource says if it has one, the annotations of one of its pods for
/// the case that it keeps their template elsewhere than in `spec.template`, and Spiderpool's switches.
///
/// # Errors
/// [`Error::Invalid`] names the object, the annotation of its pod template, and the fix.
pub fn workload(
    object: &Value,
    scale: Option<&Value>,
    pod_annotations: Option<&BTreeMap<String, String>>,
    conf: &Conf,
) -> Result<Found, Error> {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    let (namespace, name, uid) = (text("/metadata/namespace"), text("/metadata/name"), text("/metadata/uid"));
    if let Some(of) = owner(object).filter(|_| is_makeshift(group(&api_version), &kind)) {
        return Ok(Found::Part { uid, namespace, of });
    }
    let known = (group(&api_version), kind.as_str());
    let template = &object["spec"][if known == ("batch", "CronJob") { "jobTemplate" } else { "template" }];
    let template = if known == ("batch", "CronJob") { &template["spec"]["template"] } else { template };
    let written = template["metadata"]["annotations"].as_object();
    let own = |all: &serde_json::Map<String, Value>| -> BTreeMap<String, String> {
        let entry = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        all.iter().filter_map(entry).collect()
    };
    let annotations = if template.is_object() { written.map(own) } else { pod_annotations.cloned() };
    let mut terms = Terms::read(&annotations.unwrap_or_default(), conf).map_err(|error| Error::Invalid {
        field: format!("{kind} \"{namespace}/{name}\", annotation {} of its pod template", error.path),
        reason: error.reason,
    })?;
    let on_host = template["spec"]["hostNetwork"] == true;
    if on_host || (is_finished(known, object) && !terms.keep) {
        terms.interfaces.clear();
    }
    let replicas = match scale {
        // Zero is left out of it.
        Some(scale) => Some(number(&scale["spec"]["replicas"]).unwrap_or(0)),
        None => replicas(known, object),
    };
    let ordinals = (kind == "StatefulSet").then(|| {
        let start = number(&object["spec"]["ordinals"]["start"]).unwrap_or(0);
        start..start.saturating_add(replicas.unwrap_or(0))
    });
    Ok(Found::Application(Workload {
        identity: Identity { group: group(&api_version).to_owned(), kind: kind.clone(), namespace, name },
        surge: surge(known, &object["spec"], replicas.unwrap_or(0)),
        leaving: number(&object["status"]["terminatingReplicas"]).unwrap_or(0),
        // What pods of other kinds are called is seen pod by pod; where names are drawn, a pool need not keep anything.
        stable: !draws_names(known),
        api_version,
        uid,
        controllers: Vec::new(),
        interfaces: terms.interfaces,
        size: terms.size,
        keep: terms.keep,
        detect: terms.detect,
        replicas,
        ordinals,
    }))
}

/// Kinds that come and go with a revision or a schedule of whoever made them. Other kinds that an operator makes are
/// applications in their own right: their template is where the operator put the annotations, and they stay.
fn is_makeshift(group: &str, kind: &str) -> bool {
    matches!((group, kind), ("apps", "ReplicaSet") | ("batch", "Job") | ("", "ReplicationController"))
}

fn draws_names(known: (&str, &str)) -> bool {
    let apps = ["Deployment", "ReplicaSet", "DaemonSet"];
    known == ("", "ReplicationController")
        || known.0 == "apps" && apps.contains(&known.1)
        || matches!(known, ("batch", "Job" | "CronJob"))
}

fn owner(object: &Value) -> Option<Controller> {
    let all = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = all.iter().find(|owner| owner["controller"] == true)?;
    let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
    let group = group(owner["apiVersion"].as_str().unwrap_or_default()).to_owned();
    Some(Controller { group, kind: text("kind"), name: text("name"), uid: text("uid") })
}

/// How many pods there are to be at a time; `None` for kinds that only their `scale` could tell of.
fn replicas(known: (&str, &str), object: &Value) -> Option<u32> {
    let (spec, status) = (&object["spec"], &object["status"]);
    Some(match known {
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") | ("", "ReplicationController") => {
            number(&spec["replicas"]).unwrap_or(1)
        }
        ("apps", "DaemonSet") => number(&status["desiredNumberScheduled"]).unwrap_or(0),
        ("batch", "Job") => of_job(spec),
        ("batch", "CronJob") => {
            let jobs = match spec["concurrencyPolicy"].as_str() {
                Some("Forbid") => 1,
                // The next one is made while the last one's pods are on their way out.
                Some("Replace") => 2,
                _ => {
                    u32::try_from(status["active"].as_array().map_or(0, Vec::len)).unwrap_or(u32::MAX).saturating_add(1)
                }
            };
            of_job(&spec["jobTemplate"]["spec"]).saturating_mul(jobs)
        }
        _ => return None,
    })
}

/// As many pods as run side by side; not as many as there will have been in the end, since each gives back its address.
fn of_job(spec: &Value) -> u32 {
    let side_by_side = number(&spec["parallelism"]).unwrap_or(1);
    number(&spec["completions"]).map_or(side_by_side, |all| side_by_side.min(all))
}

/// A Job that is done has no more pods.
fn is_finished(known: (&str, &str), object: &Value) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let done = |condition: &Value| {
        condition["status"] == "True" && matches!(condition["type"].as_str(), Some("Complete" | "Failed"))
    };
    known == ("batch", "Job") && conditions.is_some_and(|all| all.iter().any(done))
}

/// How many pods a rollout starts before it stops others.
fn surge(known: (&str, &str), spec: &Value, replicas: u32) -> u32 {
    let (written, default) = match known {
        ("apps", "Deployment") if spec["strategy"]["type"] == "Recreate" => return 0,
        ("apps", "Deployment") => (&spec["strategy"]["rollingUpdate"]["maxSurge"], "25%"),
        ("apps", "DaemonSet") => (&spec["updateStrategy"]["rollingUpdate"]["maxSurge"], "0"),
        // Where others who have such a thing write it.
        _ => {
            let places = ["/updateStrategy/maxSurge", "/strategy/rollingUpdate/maxSurge", "/strategy/canary/maxSurge"];
            (places.iter().find_map(|at| spec.pointer(at)).unwrap_or(&Value::Null), "0")
        }
    };
    if let Some(count) = number(written) {
        return count;
    }
    let text = written.as_str().unwrap_or(default);
    let share = text.strip_suffix('%').unwrap_or(text).parse::<u64>().unwrap_or(0);
    let count = if text.ends_with('%') { (u64::from(replicas) * share.min(100_000)).div_ceil(100) } else { share };
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}
