//! Spiderpool's switches: the environment of its controller and the file of its ConfigMap `spiderpool-conf` ([`Conf`]). What
//! Berth has too is set by them; what it has not is said once, if it was changed from what Spiderpool does by itself.

mod conf;

pub use conf::Conf;

use crate::field::FieldError;
use berth_core::reclaim::{Class, Times};
use std::collections::BTreeMap;
use std::time::Duration;

/// What all of its variables begin with.
pub const PREFIX: &str = "SPIDERPOOL_";

/// Classes of addresses whose pods are gone or on their way out.
const OF_PODS: [Class; 3] = [Class::PodGone, Class::PodEnded, Class::PodStuck];

/// What Spiderpool's switches come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Classes of addresses that do not come back by themselves.
    never: Vec<Class>,
    /// How much longer addresses of pods that are gone wait.
    delay: Duration,
    /// How often everything is looked at.
    pub audit: Option<Duration>,
    /// What the file says.
    pub conf: Conf,
    /// What was asked for and is not done, each with what is done instead.
    pub warnings: Vec<String>,
}

impl Settings {
    /// Reads the variables of an environment, and the text of `conf.yml` if there is one.
    ///
    /// # Errors
    /// That name the variable or the key, and what is wrong with it.
    pub fn read(
        environment: impl IntoIterator<Item = (String, String)>,
        conf: Option<&str>,
    ) -> Result<Self, FieldError> {
        let mut own = Self::default();
        let variables: BTreeMap<String, String> =
            environment.into_iter().filter(|(name, _)| name.starts_with(PREFIX)).collect();
        for (name, value) in &variables {
            own.variable(name, value)?;
        }
        if let Some(text) = conf {
            own.conf = Conf::read(text, &mut own.warnings)?;
        }
        Ok(own)
    }

    fn variable(&mut self, name: &str, value: &str) -> Result<(), FieldError> {
        match name {
            "SPIDERPOOL_GC_IP_ENABLED" if !flag(name, value)? => {
                self.never.extend(Class::ALL.into_iter().filter(|class| *class != Class::TimeOver));
            }
            "SPIDERPOOL_GC_STATELESS_TERMINATING_POD_ON_READY_NODE_ENABLED" if !flag(name, value)? => {
                self.never.extend([Class::PodEnded, Class::PodStuck]);
            }
            "SPIDERPOOL_GC_STATELESS_TERMINATING_POD_ON_NOT_READY_NODE_ENABLED" => {
                if flag(name, value)? {
                    // A node that does not answer may still run its pods.
                    let instead = "pods on silent nodes keep their addresses; --reclaim node-silent=TIME frees them";
                    self.warn(name, value, instead);
                } else {
                    self.never.push(Class::NodeSilent);
                }
            }
            "SPIDERPOOL_GC_ENABLE_STATELESS_RUNNING_POD_ON_EMPTY_POD_STATUS_IPS" if flag(name, value)? => {
                self.warn(name, value, "a pod that runs keeps its address whatever its status says");
            }
            "SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION" => self.audit = Some(seconds(name, value)?),
            "SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY" => self.delay = seconds(name, value)?,
            // The rest says how Spiderpool works inside: workers, buffers, leases.
            _ => {}
        }
        Ok(())
    }

    fn warn(&mut self, name: &str, value: &str, instead: &str) {
        self.warnings.push(format!("{name}={value} has no effect: {instead}"));
    }

    /// Sets after how long addresses come back.
    pub fn set_times(&self, times: &mut Times) {
        for class in OF_PODS {
            times.set(class, times.of(class).map(|time| time + self.delay));
        }
        for class in &self.never {
            times.set(*class, None);
        }
    }
}

fn flag(name: &str, value: &str) -> Result<bool, FieldError> {
    match value.trim() {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        other => Err(FieldError::new(name, format!("{other:?} is neither \"true\" nor \"false\""))),
    }
}

fn seconds(name: &str, value: &str) -> Result<Duration, FieldError> {
    let number: u64 =
        value.trim().parse().map_err(|_| FieldError::new(name, format!("{value:?} is no number of seconds")))?;
    Ok(Duration::from_secs(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)], conf: Option<&str>) -> Result<Settings, FieldError> {
        let all: Vec<(String, String)> =
            variables.iter().map(|(name, value)| (format!("SPIDERPOOL_{name}"), (*value).to_owned())).collect();
        Settings::read(all, conf)
    }

    fn times(settings: &Settings) -> Times {
        let mut times = Times::default();
        settings.set_times(&mut times);
        times
    }

    #[test]
    fn garbage_collection_is_switched_as_there() {
        let usual = Times::default();
        assert_eq!(times(&read(&[], None).unwrap()).of(Class::PodGone), usual.of(Class::PodGone));
        let off = times(&read(&[("GC_IP_ENABLED", "false")], None).unwrap());
        assert_eq!((off.of(Class::PodGone), off.of(Class::NodeGone)), (None, None));
        assert_eq!(off.of(Class::TimeOver), usual.of(Class::TimeOver), "what was set apart for a time");
        let ended = "GC_STATELESS_TERMINATING_POD_ON_READY_NODE_ENABLED";
        let some = times(&read(&[(ended, "false")], None).unwrap());
        assert_eq!((some.of(Class::PodStuck), some.of(Class::PodGone)), (None, usual.of(Class::PodGone)));
        let later = read(&[("GC_ADDITIONAL_GRACE_DELAY", "7"), ("GC_DEFAULT_INTERVAL_DURATION", "60")], None).unwrap();
        let seven = Duration::from_secs(7);
        assert_eq!(times(&later).of(Class::PodGone), usual.of(Class::PodGone).map(|time| time + seven));
        assert_eq!(later.audit, Some(Duration::from_secs(60)));
    }

    #[test]
    fn what_has_no_effect_is_said_and_what_is_wrong_is_named() {
        let silent = "GC_STATELESS_TERMINATING_POD_ON_NOT_READY_NODE_ENABLED";
        let said = read(&[(silent, "true"), ("GC_IP_WORKER_NUM", "3")], None).unwrap();
        assert_eq!(times(&said), Times::default());
        assert!(said.warnings.len() == 1 && said.warnings[0].contains("node-silent"), "{:?}", said.warnings);
        let error = read(&[("GC_IP_ENABLED", "maybe")], None).unwrap_err();
        assert!(error.to_string().contains("SPIDERPOOL_GC_IP_ENABLED"), "{error}");
        assert!(read(&[("GC_ADDITIONAL_GRACE_DELAY", "5s")], None).is_err());
        let conf = "enableKubevirtStaticIP: true\nenableIPv6: false\nnonsense: 1\nipamUnixSocketPath: /x\n";
        let said = read(&[], Some(conf)).unwrap().warnings;
        assert!(said.len() == 1 && said[0].contains("nonsense"), "{said:?}");
        assert!(read(&[], Some("enableIPv4: perhaps")).is_err());
        assert!(read(&[], Some("- a list")).is_err());
    }
}
