//! One call of a plugin, timed from before it is spawned until it is reaped.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The two verbs that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verb {
    Add,
    Del,
}

impl Verb {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
        }
    }
}

/// A plugin with its configuration: everything of a call but the container.
#[derive(Clone, Debug)]
pub(super) struct Target<'a> {
    pub(super) program: &'a Path,
    pub(super) stdin: &'a [u8],
}

impl Target<'_> {
    /// The command as a container runtime would run it, the same for every contestant. `wrapper` goes in front.
    pub(super) fn command(&self, wrapper: &[&str], verb: Verb, container: &str) -> Command {
        let mut command = match wrapper {
            [] => Command::new(self.program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(self.program);
                command
            }
        };
        command
            .env_clear()
            .env("CNI_COMMAND", verb.name())
            .env("CNI_CONTAINERID", container)
            .env("CNI_IFNAME", "eth0")
            .env("CNI_NETNS", "/var/run/netns/bench")
            .env("CNI_PATH", "/opt/cni/bin")
            .env("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=bench")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command
    }

    /// Calls the plugin and returns how long it took, with what it printed.
    pub(super) fn call(&self, verb: Verb, container: &str) -> Result<(Duration, Vec<u8>)> {
        let mut command = self.command(&[], verb, container);
        let begin = Instant::now();
        let output = finish(&mut command, self.stdin)?;
        Ok((begin.elapsed(), output))
    }
}

/// Feeds a command, waits for it, and returns what it printed; a failure is an error.
pub(super) fn finish(command: &mut Command, stdin: &[u8]) -> Result<Vec<u8>> {
    let mut child = command.spawn().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    let (mut output, input) = (Vec::new(), child.stdin.take());
    // The configuration fits into the pipe, so writing before reading cannot block. The floor reads nothing and may be
    // gone already.
    input.context("stdin is piped")?.write_all(stdin).ok();
    child.stdout.take().context("stdout is piped")?.read_to_end(&mut output)?;
    let status = child.wait()?;
    if !status.success() {
        bail!("{:?} {status}: {}", command.get_program(), String::from_utf8_lossy(&output));
    }
    Ok(output)
}

/// The addresses in the result of an ADD.
pub(super) fn addresses(result: &[u8]) -> Result<Vec<IpAddr>> {
    let result: Value = serde_json::from_slice(result).context("the result of ADD is not JSON")?;
    let ips = result["ips"].as_array().context("the result of ADD has no ips")?;
    ips.iter()
        .map(|ip| {
            let text = ip["address"].as_str().and_then(|cidr| cidr.split('/').next()).unwrap_or_default();
            text.parse().with_context(|| format!("{ip} is no address"))
        })
        .collect()
}

/// A container ID as runtimes make them: 64 hexadecimal digits, never the same twice in a run.
pub(super) fn container_id(n: u64) -> String {
    (0..4).map(|word| format!("{:016x}", scramble(n * 4 + word))).collect()
}

/// The finaliser of SplitMix64: a bijection whose values look random.
fn scramble(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_ids_are_64_digits_and_differ() {
        assert_eq!(container_id(7).len(), 64);
        assert_ne!(container_id(0), container_id(1));
    }

    #[test]
    fn addresses_are_read() {
        let result = br#"{"ips": [{"address": "10.0.0.2/8"}, {"address": "::2/64"}]}"#;
        assert_eq!(addresses(result).unwrap(), ["10.0.0.2".parse::<IpAddr>().unwrap(), "::2".parse().unwrap()]);
        assert!(addresses(b"{}").is_err());
    }
}
