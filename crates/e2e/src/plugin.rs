//! One call of a CNI plugin, as a runtime makes it.

use crate::netns::Netns;
use crate::{Instead, binaries, seeing};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A call to be made.
#[derive(Clone, Debug)]
pub struct Call {
    program: PathBuf,
    inside: Option<PathBuf>,
    sees: Vec<Instead>,
    environment: Vec<(&'static str, String)>,
}

impl Call {
    /// A call of `berth-cni` for `eth0` of a container.
    #[must_use]
    pub fn new(verb: &str, container: &str) -> Self {
        let environment = [
            ("CNI_COMMAND", verb),
            ("CNI_CONTAINERID", container),
            ("CNI_NETNS", "/run/netns/none"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_PATH", "/usr/lib/cni"),
        ];
        let environment = environment.map(|(key, value)| (key, value.to_owned())).to_vec();
        Self { program: binaries::berth_cni().to_owned(), inside: None, sees: Vec::new(), environment }
    }

    /// The same with a variable set.
    #[must_use]
    pub fn env(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.environment.retain(|(name, _)| *name != key);
        self.environment.push((key, value.into()));
        self
    }

    /// The same for another interface.
    #[must_use]
    pub fn ifname(self, name: &str) -> Self {
        self.env("CNI_IFNAME", name)
    }

    /// The same for a pod.
    #[must_use]
    pub fn pod(self, namespace: &str, name: &str) -> Self {
        self.env("CNI_ARGS", format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name}"))
    }

    /// The same call of another plugin, which finds its IPAM plugin beside `berth-cni` or where Debian has them.
    #[must_use]
    pub fn of(mut self, program: impl AsRef<Path>) -> Self {
        self.program = program.as_ref().to_owned();
        let path = format!("{}:{}", binaries::plugin_dir().display(), crate::needs::CNI_DIR);
        self.env("CNI_PATH", path)
    }

    /// The same call on this host, for a container with this namespace.
    #[must_use]
    pub fn between(mut self, host: &Netns, container: &Netns) -> Self {
        self.inside = Some(host.path());
        self.env("CNI_NETNS", container.path().display().to_string())
    }

    /// The same call of a plugin that sees files in the place of others.
    #[must_use]
    pub fn seeing(mut self, files: &[Instead]) -> Self {
        self.sees = files.to_vec();
        self
    }

    /// Makes the call with a configuration on stdin.
    #[must_use]
    pub fn run(&self, config: &Value) -> Ran {
        self.run_bytes(config.to_string().as_bytes())
    }

    /// Makes the call with anything on stdin.
    ///
    /// # Panics
    /// If the plugin cannot be executed, or a signal ends it.
    #[must_use]
    pub fn run_bytes(&self, stdin: &[u8]) -> Ran {
        let mut words = seeing(&self.program, &self.sees);
        if let Some(netns) = &self.inside {
            words.splice(0..0, ["nsenter".into(), format!("--net={}", netns.display()).into()]);
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        // The plugins above look for iptables.
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").as_deref().unwrap_or(OsStr::new("/usr/sbin:/usr/bin")));
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        // The plugin may have given up before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran {
            code: output.status.code().expect("the plugin was not killed"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// What a call left behind.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its exit code.
    pub code: i32,
    /// The result, or the error.
    pub stdout: String,
    /// What is for the log.
    pub stderr: String,
}

impl Ran {
    /// What it printed, which must be JSON.
    ///
    /// # Panics
    /// If it is not.
    #[track_caller]
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The result of a success.
    ///
    /// # Panics
    /// If it failed.
    #[track_caller]
    #[must_use]
    pub fn ok(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        self.json()
    }

    /// The addresses of a result with `ips`, with their prefix lengths.
    ///
    /// # Panics
    /// If it failed.
    #[track_caller]
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        let result = self.ok();
        let ips = result["ips"].as_array().unwrap_or_else(|| panic!("{result}"));
        ips.iter().map(|ip| crate::http::text(&ip["address"]).to_owned()).collect()
    }

    /// Message and details of a failure with this code.
    ///
    /// # Panics
    /// If it is something else.
    #[track_caller]
    pub fn failed(&self, code: u32) -> String {
        assert_ne!(self.code, 0, "{self:?}");
        let error = self.json();
        assert_eq!(error["code"], code, "{error}");
        format!("{}; {}", error["msg"].as_str().unwrap_or_default(), error["details"].as_str().unwrap_or_default())
    }

    /// Checks that it succeeded and printed nothing.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn silent(&self) {
        assert_eq!((self.code, self.stdout.as_str()), (0, ""), "{self:?}");
    }
}
