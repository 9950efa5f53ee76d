//! One call of the plugin, from environment and stdin to what is printed.

use crate::{agent, host_local, netns};
use berth_wire::cni::{AddResult, Error};
use berth_wire::config::NetConf;
use berth_wire::env::{Invocation, Verb};
use berth_wire::result::{render, render_error};
use berth_wire::version::{self, Version};
use std::ffi::OsString;
use std::path::Path;

/// What is left to do: print, and exit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Success; the text, if any, goes to stdout.
    Done(String),
    /// Nobody asked for anything; the text goes to stderr.
    About(String),
    /// Failure; the error object goes to stdout.
    Failed(String),
}

/// Answers one call. `stamp` is the time it began and `program` the name it was executed under.
pub(crate) fn answer(
    stamp: u64,
    program: &Path,
    lookup: impl Fn(&str) -> Option<OsString>,
    read_config: impl FnOnce() -> Result<Vec<u8>, Error>,
) -> Outcome {
    let failed = |error: &Error, cni_version: &str| Outcome::Failed(render_error(error, cni_version));
    let early = |error: &Error| failed(error, Version::LATEST.as_str());
    let invocation = match Invocation::read(lookup) {
        Ok(Some(invocation)) => invocation,
        Ok(None) => return Outcome::About(version::about("Berth CNI IPAM plugin")),
        Err(error) => return early(&error),
    };
    if invocation.verb == Verb::Version {
        return Outcome::Done(version::supported_json());
    }
    let config = match read_config() {
        Ok(config) => config,
        Err(error) => return early(&error),
    };
    let conf = match NetConf::parse(&config) {
        Ok(conf) => conf,
        Err(error) => return early(&error),
    };
    let call = Call { stamp, program, invocation: &invocation, config: &config, conf: &conf };
    call.run().map_or_else(|error| failed(&error, &conf.cni_version), Outcome::Done)
}

/// A call whose environment and configuration could be read.
struct Call<'a> {
    stamp: u64,
    program: &'a Path,
    invocation: &'a Invocation,
    config: &'a [u8],
    conf: &'a NetConf<'a>,
}

impl Call<'_> {
    /// Does it, and returns what to print. Only ADD prints anything.
    fn run(&self) -> Result<String, Error> {
        let verb = self.invocation.verb;
        let version = Version::parse(&self.conf.cni_version)?;
        version.allow(verb)?;
        if verb == Verb::Add {
            netns::check(self.invocation)?;
        }
        let result = if host_local::is_meant(self.program, self.conf) {
            host_local::run(self.stamp, self.invocation, self.config)?
        } else {
            self.ask_the_agent(version)?
        };
        // A result that does not fit the version is the runtime's to clean up with DEL, as after any failed ADD.
        // Releasing it here could take away what an earlier ADD of the same attachment has given.
        result.map_or(Ok(String::new()), |result| render(&result, version))
    }

    fn ask_the_agent(&self, version: Version) -> Result<Option<AddResult>, Error> {
        let Self { stamp, invocation, conf, .. } = *self;
        match invocation.verb {
            Verb::Add => return agent::add(stamp, invocation, conf, version).map(Some),
            Verb::Del => agent::del(stamp, invocation, conf)?,
            Verb::Check => agent::check(stamp, invocation, conf)?,
            Verb::Gc => agent::gc(stamp, conf)?,
            Verb::Status => agent::status(stamp, conf)?,
            Verb::Version => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_wire::cni::code;

    fn environment(verb: &'static str) -> impl Fn(&str) -> Option<OsString> {
        move |name| {
            let value = match name {
                "CNI_COMMAND" => verb,
                "CNI_CONTAINERID" => "c1",
                "CNI_NETNS" | "CNI_PATH" => "/nowhere",
                "CNI_IFNAME" => "eth0",
                _ => return None,
            };
            Some(value.into())
        }
    }

    fn ask(verb: &'static str, config: &str) -> Outcome {
        answer(1, Path::new("berth-cni"), environment(verb), || Ok(config.as_bytes().to_vec()))
    }

    #[test]
    fn stdin_is_left_alone_when_it_is_not_needed() {
        let unread = || -> Result<Vec<u8>, Error> { panic!("stdin was read") };
        let name = Path::new("x");
        assert!(matches!(answer(1, name, |_| None, unread), Outcome::About(text) if text.contains("0.1.0, 0.2.0")));
        assert_eq!(answer(1, name, environment("VERSION"), unread), Outcome::Done(version::supported_json()));
        let bad = |name: &str| environment("ADD")(name).filter(|_| name != "CNI_IFNAME");
        assert!(matches!(answer(1, name, bad, unread), Outcome::Failed(text) if text.contains("[CNI_IFNAME] missing")));
    }

    #[test]
    fn errors_carry_the_version_of_the_configuration() {
        let text = match ask("CHECK", r#"{"name":"n","cniVersion":"0.3.1"}"#) {
            Outcome::Failed(text) => text,
            other => panic!("{other:?}"),
        };
        assert!(text.contains(r#""cniVersion": "0.3.1""#) && text.contains("does not allow CHECK"), "{text}");
        let text = ask("ADD", r#"{"name":"n","cniVersion":"7.0.0"}"#);
        assert!(matches!(text, Outcome::Failed(text) if text.contains("incompatible CNI versions")));
    }

    #[test]
    fn a_failed_read_is_told() {
        let outcome = answer(1, Path::new("x"), environment("ADD"), || Err(Error::new(code::IO_FAILURE, "gone")));
        assert!(matches!(outcome, Outcome::Failed(text) if text.contains("\"code\": 5")));
    }
}
