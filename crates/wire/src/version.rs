//! The versions of CNI that Berth speaks, and what each of them allows.

use crate::cni::{Error, code};
use crate::env::Verb;

/// A supported version of the CNI specification. They compare by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 0.1.0, which is also what a configuration without `cniVersion` means.
    V0_1_0,
    /// 0.2.0: adds VERSION.
    V0_2_0,
    /// 0.3.0: several addresses per family, chained plugins.
    V0_3_0,
    /// 0.3.1.
    V0_3_1,
    /// 0.4.0: adds CHECK.
    V0_4_0,
    /// 1.0.0: drops `version` from addresses.
    V1_0_0,
    /// 1.1.0: adds GC and STATUS.
    V1_1_0,
}

impl Version {
    /// Every supported version, oldest first.
    pub const ALL: [Self; 7] =
        [Self::V0_1_0, Self::V0_2_0, Self::V0_3_0, Self::V0_3_1, Self::V0_4_0, Self::V1_0_0, Self::V1_1_0];

    /// The newest supported version.
    pub const LATEST: Self = Self::V1_1_0;

    /// The version as a configuration writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V0_1_0 => "0.1.0",
            Self::V0_2_0 => "0.2.0",
            Self::V0_3_0 => "0.3.0",
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }

    /// Reads a `cniVersion`.
    ///
    /// # Errors
    /// [`code::INCOMPATIBLE_VERSION`] if Berth does not speak it.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|version| version.as_str() == text).ok_or_else(|| {
            let supported = Self::ALL.map(|version| format!("{:?}", version.as_str())).join(" ");
            Error::new(code::INCOMPATIBLE_VERSION, "incompatible CNI versions")
                .hint(format!("config is {text:?}, plugin supports [{supported}]"))
        })
    }

    /// Checks that a configuration of this version may be used with a verb.
    ///
    /// # Errors
    /// [`code::INCOMPATIBLE_VERSION`] if the verb came with a later version.
    pub fn allow(self, verb: Verb) -> Result<(), Error> {
        let since = match verb {
            Verb::Add | Verb::Del | Verb::Version => Self::V0_1_0,
            Verb::Check => Self::V0_4_0,
            Verb::Gc | Verb::Status => Self::V1_1_0,
        };
        if self >= since {
            return Ok(());
        }
        Err(Error::new(code::INCOMPATIBLE_VERSION, format!("config version does not allow {verb}")).hint(format!(
            "cniVersion is {}; {verb} needs {} or later",
            self.as_str(),
            since.as_str()
        )))
    }

    /// Whether results of this version hold at most one address per family, under `ip4` and `ip6`.
    #[must_use]
    pub const fn is_legacy(self) -> bool {
        matches!(self, Self::V0_1_0 | Self::V0_2_0)
    }
}

/// What the verb VERSION prints.
#[must_use]
pub fn supported_json() -> String {
    let versions = Version::ALL.map(|version| format!("{:?}", version.as_str())).join(",");
    format!("{{\"cniVersion\":{:?},\"supportedVersions\":[{versions}]}}\n", Version::LATEST.as_str())
}

/// What is told to a person who runs the plugin by hand.
#[must_use]
pub fn about(name: &str) -> String {
    let versions = Version::ALL.map(Version::as_str).join(", ");
    format!("{name} {}\nCNI protocol versions supported: {versions}\n", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_reads_back_and_they_are_in_order() {
        assert!(Version::ALL.is_sorted());
        for version in Version::ALL {
            assert_eq!(Version::parse(version.as_str()), Ok(version));
        }
    }

    #[test]
    fn an_unknown_version_is_refused_with_the_list() {
        let error = Version::parse("9.9.9").unwrap_err();
        assert_eq!((error.code, error.msg.as_str()), (1, "incompatible CNI versions"));
        assert!(error.details.starts_with(r#"config is "9.9.9", plugin supports ["0.1.0" "0.2.0""#), "{error:?}");
    }

    #[test]
    fn verbs_are_gated_by_version() {
        for version in Version::ALL {
            for (verb, since) in [
                (Verb::Add, Version::V0_1_0),
                (Verb::Del, Version::V0_1_0),
                (Verb::Check, Version::V0_4_0),
                (Verb::Gc, Version::V1_1_0),
                (Verb::Status, Version::V1_1_0),
            ] {
                let allowed = version.allow(verb);
                assert_eq!(allowed.is_ok(), version >= since, "{verb} with {version:?}");
                if let Err(error) = allowed {
                    assert_eq!((error.code, error.msg), (1, format!("config version does not allow {verb}")));
                }
            }
        }
    }

    #[test]
    fn the_version_verb_prints_what_the_go_library_prints() {
        assert_eq!(
            supported_json(),
            "{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"0.1.0\",\"0.2.0\",\"0.3.0\",\"0.3.1\",\"0.4.0\",\
             \"1.0.0\",\"1.1.0\"]}\n"
        );
    }
}
