//! Reading annotations: texts of users, bounded, and refused with the place and the fix.

use super::{
    ADDRESSES, Asked, CLAIM, DETECT, KEEP_POOL, MAX_ANNOTATION_BYTES, MAX_LIST, NETWORKS, POOL_SIZE, POOLS, Pod,
    SUBNETS,
};
use crate::field::{FieldError, closest, decode};
use crate::manifest::parse_value;
use crate::text::Address;
use berth_core::error::Error;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

const PREFIX: &str = "berth.io/";

/// The error of the core for an annotation of a pod.
pub(super) fn of_pod(error: FieldError, pod: &Pod) -> Error {
    let field = format!("Pod \"{}/{}\", annotation {}", pod.namespace, pod.name, error.path);
    Error::Invalid { field, reason: error.reason }
}

/// The error of the core for an annotation of the pod's namespace.
pub(super) fn of_namespace(error: FieldError, pod: &Pod) -> Error {
    let field = format!("Namespace {:?}, annotation {}", pod.namespace, error.path);
    Error::Invalid { field, reason: error.reason }
}

/// Refuses annotations that look like one of ours and are not: a misspelt `berth.io/pool` must not mean "any pool".
/// Other names under our prefix are left alone: they may be those of a newer release.
pub(super) fn refuse_misspelt(asked: &Asked<'_>) -> Result<(), Error> {
    let known_to_pods = [NETWORKS, POOLS, ADDRESSES, CLAIM, SUBNETS, POOL_SIZE, KEEP_POOL, DETECT];
    for key in ours(&asked.pod.annotations) {
        let reason = if known_to_pods.contains(&key) {
            continue;
        } else if key.starts_with("berth.io/pools.") {
            format!("is for namespaces; a pod lists its interfaces in {NETWORKS}")
        } else if let Some(meant) = meant(key, &known_to_pods) {
            format!("is not known; did you mean {meant}?")
        } else {
            continue;
        };
        return Err(of_pod(FieldError::new(key, reason), asked.pod));
    }
    for key in ours(&asked.namespace.annotations) {
        let reason = if key == POOLS || key.starts_with("berth.io/pools.") {
            continue;
        } else if known_to_pods.contains(&key) {
            format!("is for pods; a namespace has {POOLS} and {POOLS}.IFNAME")
        } else if let Some(meant) = meant(key, &[POOLS]) {
            format!("is not known; did you mean {meant}?")
        } else {
            continue;
        };
        return Err(of_namespace(FieldError::new(key, reason), asked.pod));
    }
    Ok(())
}

fn ours(annotations: &BTreeMap<String, String>) -> impl Iterator<Item = &str> {
    annotations.keys().map(String::as_str).filter(|key| key.starts_with(PREFIX))
}

/// The prefix is in all of them, so only what follows tells them apart.
fn meant(key: &str, known: &[&'static str]) -> Option<String> {
    let names = known.iter().map(|name| &name[PREFIX.len()..]);
    closest(&key[PREFIX.len()..], names).map(|name| format!("{PREFIX}{name}"))
}

/// The text of an annotation, without the space around it.
pub(super) fn text<'a>(annotations: &'a BTreeMap<String, String>, key: &str) -> Result<Option<&'a str>, FieldError> {
    let Some(text) = annotations.get(key) else { return Ok(None) };
    if text.len() > MAX_ANNOTATION_BYTES {
        let reason = format!("is {} bytes long; at most {MAX_ANNOTATION_BYTES} are read", text.len());
        return Err(FieldError::new(key, reason));
    }
    let text = text.trim();
    if text.is_empty() {
        return Err(FieldError::new(key, "is empty; fill it in, or remove the annotation"));
    }
    Ok(Some(text))
}

/// A text that is JSON or YAML.
pub(super) fn value(text: &str, key: &str) -> Result<Value, FieldError> {
    parse_value(text).map_err(|(line, reason)| {
        let line = line.filter(|_| text.contains('\n')).map(|line| format!("line {line}: ")).unwrap_or_default();
        FieldError::new(key, format!("{line}{reason}; it is to be JSON or YAML"))
    })
}

/// A list: `a,b*`, or `["a","b*"]` in JSON or YAML. What begins with a bracket or a dash is the latter.
pub(super) fn list(text: &str, key: &str) -> Result<Vec<String>, FieldError> {
    if text.starts_with(['[', '-']) {
        return decode(&value(text, key)?, key);
    }
    Ok(text.split(',').map(|item| item.trim().to_owned()).collect())
}

/// Names and patterns of pools that stand at `path`.
pub(super) fn pools(names: Vec<String>, path: &str) -> Result<Vec<String>, FieldError> {
    bounded(names.len(), "pool", path)?;
    for (i, name) in names.iter().enumerate() {
        let path = format!("{path}[{i}]");
        if name.is_empty() {
            return Err(FieldError::new(path, "is empty; name a pool, or remove the extra comma"));
        }
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.*?[]!^".contains(c);
        if name.len() > 253 || !name.chars().all(fits) {
            let shown: String = name.chars().take(64).collect();
            let reason = format!(
                "{shown:?} is not the name of a pool; use lower-case letters, digits, '-' and '.', and the wildcards \
                 *, ? and [..]"
            );
            return Err(FieldError::new(path, reason));
        }
    }
    Ok(names)
}

/// Addresses that stand at `path`, each one once.
pub(super) fn addresses(texts: &[String], path: &str) -> Result<Vec<IpAddr>, FieldError> {
    bounded(texts.len(), "address", path)?;
    let mut out: Vec<IpAddr> = Vec::with_capacity(texts.len());
    for (i, text) in texts.iter().enumerate() {
        let shown: String = text.chars().take(64).collect();
        let parsed = shown.parse::<Address>().map(|Address(address)| address.to_canonical());
        let address = parsed.map_err(|reason| FieldError::new(format!("{path}[{i}]"), reason))?;
        if out.contains(&address) {
            return Err(FieldError::new(format!("{path}[{i}]"), format!("{address} is there twice; remove one")));
        }
        out.push(address);
    }
    Ok(out)
}

/// Refuses an empty list, which nobody means, and one that is too long.
pub(super) fn bounded(len: usize, what: &str, path: &str) -> Result<(), FieldError> {
    match len {
        0 => Err(FieldError::new(path, format!("is empty; name at least one {what}, or leave it out"))),
        1..=MAX_LIST => Ok(()),
        _ => Err(FieldError::new(path, format!("has {len} items; at most {MAX_LIST} are read"))),
    }
}
