//! Comparing what happened with what was expected.

use crate::answer::{Addresses, Answer};
use crate::case::{Expect, ExpectError};
use crate::version::Version;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Differences found, in words. Empty means none.
pub type Problems = Vec<String>;

/// Compares an answer with an expectation, and with what the specification asks of every answer.
#[must_use]
pub fn answer(expect: &Expect, command: &str, version: Version, answer: &Answer) -> Problems {
    let mut problems = Problems::new();
    match (answer, &expect.error, expect.crash) {
        (Answer::Crash(_), _, true) => {}
        (Answer::Crash(how), _, false) => problems.push(format!("crashed: {how}")),
        (Answer::Error { code, msg }, Some(expected), _) => error(expected, *code, msg, &mut problems),
        (Answer::Error { code, msg }, None, _) => problems.push(format!("failed with {code}: {msg}")),
        (Answer::Success(_), Some(expected), _) => problems.push(format!("succeeded, expected {expected}")),
        (Answer::Success(_), None, true) => problems.push("succeeded, expected a crash".into()),
        (Answer::Success(stdout), None, false) => success(expect, command, version, stdout, &mut problems),
    }
    problems
}

fn error(expected: &ExpectError, code: u64, msg: &str, problems: &mut Problems) {
    if expected.code.is_some_and(|expected| expected != code) {
        problems.push(format!("error code {code} ({msg}), expected {expected}"));
    }
    let differs = expected.msg.as_ref().is_some_and(|text| text != msg)
        || expected.prefix.as_ref().is_some_and(|text| !msg.starts_with(text.as_str()))
        || expected.contains.as_ref().is_some_and(|text| !msg.contains(text.as_str()));
    if differs {
        problems.push(format!("error message {msg:?}, expected {expected}"));
    }
}

fn success(expect: &Expect, command: &str, version: Version, stdout: &[u8], problems: &mut Problems) {
    match command {
        "ADD" => match serde_json::from_slice(stdout) {
            Ok(result) => {
                shape(&result, version, problems);
                addresses(expect, &Addresses::of(&result), problems);
            }
            Err(err) => problems.push(format!("the result is not JSON: {err}")),
        },
        "VERSION" => {
            let answer: Value = serde_json::from_slice(stdout).unwrap_or_default();
            let supported: Vec<String> =
                serde_json::from_value(answer["supportedVersions"].clone()).unwrap_or_default();
            for wanted in expect.supports.iter().flatten().filter(|wanted| !supported.contains(wanted)) {
                problems.push(format!("VERSION does not list {wanted}: {supported:?}"));
            }
        }
        _ if !stdout.is_empty() => {
            problems.push(format!("{command} printed {:?} on success", String::from_utf8_lossy(stdout)));
        }
        _ => {}
    }
}

/// What every result must look like in its version. An IPAM result is abbreviated: it names no interfaces.
fn shape(result: &Value, version: Version, problems: &mut Problems) {
    if result["cniVersion"] != version.to_string() {
        problems.push(format!("the result says cniVersion {}, asked in {version}", result["cniVersion"]));
    }
    let has = |key| result.get(key).is_some();
    if has("interfaces") {
        problems.push("the result names interfaces".into());
    }
    if version < Version::LISTS {
        if has("ips") || has("routes") || !(has("ip4") || has("ip6")) {
            problems.push(format!("the result is not of the shape of {version}: {result}"));
        }
        return;
    }
    if has("ip4") || has("ip6") || !has("ips") {
        problems.push(format!("the result is not of the shape of {version}: {result}"));
    }
    for ip in result["ips"].as_array().into_iter().flatten() {
        let family = if ip["address"].as_str().is_some_and(|address| address.contains(':')) { "6" } else { "4" };
        let expected = if version < Version::NO_FAMILY { Value::from(family) } else { Value::Null };
        if ip["version"] != expected {
            problems.push(format!("ips[].version is {}, expected {expected}", ip["version"]));
        }
        if ip.get("interface").is_some() {
            problems.push("the result names an interface index".into());
        }
    }
}

fn addresses(expect: &Expect, got: &Addresses, problems: &mut Problems) {
    compare("ips", expect.ips.as_ref(), &got.ips, problems);
    compare("gateways", expect.gateways.as_ref(), &got.gateways, problems);
    let sorted = expect.routes.clone().map(|mut routes| {
        routes.sort();
        routes
    });
    compare("routes", sorted.as_ref(), &got.routes, problems);
    compare("dns", expect.dns.as_ref(), &got.dns, problems);
}

fn compare<T: PartialEq + Debug>(what: &str, expected: Option<&T>, got: &T, problems: &mut Problems) {
    if let Some(expected) = expected.filter(|expected| *expected != got) {
        problems.push(format!("{what} are {got:?}, expected {expected:?}"));
    }
}

/// Compares the data directory with an expectation.
#[must_use]
pub fn disk(expect: &Expect, data_dir: &Path, network: &str) -> Problems {
    let mut problems = Problems::new();
    if let Some(expected) = &expect.leases {
        compare("leases", Some(expected), &leases(&data_dir.join(network)), &mut problems);
    }
    for (name, expected) in &expect.files {
        let got = fs::read(data_dir.join(name)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        compare(&format!("contents of {name}"), Some(expected), &got, &mut problems);
    }
    for (name, expected) in &expect.modes {
        let mode = fs::metadata(data_dir.join(name)).map(|metadata| metadata.permissions().mode() & 0o7777);
        let got = mode.map_or_else(|err| err.to_string(), |mode| format!("{mode:o}"));
        compare(&format!("permissions of {name}"), Some(expected), &got, &mut problems);
    }
    problems
}

/// The lease files of a network: those named by an address.
fn leases(dir: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok().filter(|name| name.parse::<IpAddr>().is_ok())?;
            let content = fs::read_to_string(entry.path()).unwrap_or_default();
            Some((name, content.split_whitespace().collect::<Vec<_>>().join(" ")))
        })
        .collect()
}
