//! CNI versions and the bounds that a case puts on them.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::fmt;

/// Every version of the CNI specification that a plugin may be asked to speak.
pub const ALL: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// A version, ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u16, u16, u16);

impl Version {
    /// Parses `major.minor.patch`.
    ///
    /// # Errors
    /// If the text is anything else.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parts = text.split('.').map(str::parse);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch)), None) => Ok(Self(major, minor, patch)),
            _ => bail!("{text:?} is not a CNI version"),
        }
    }

    /// The version a result changed from `ip4` and `ip6` to a list.
    pub const LISTS: Self = Self(0, 3, 0);
    /// The version that dropped the family from a result's addresses.
    pub const NO_FAMILY: Self = Self(1, 0, 0);
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Bounds such as `>=0.3.0`, `<1.0.0` or `1.1.0`, all of which must hold. None means every version.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Bounds(Vec<String>);

impl Bounds {
    /// Whether a version is inside the bounds.
    ///
    /// # Errors
    /// If a bound cannot be read.
    pub fn allow(&self, version: Version) -> Result<bool> {
        for bound in &self.0 {
            let digits = bound.find(|c: char| c.is_ascii_digit()).context("a bound needs a version")?;
            let (operator, limit) = bound.split_at(digits);
            let limit = Version::parse(limit)?;
            let holds = match operator {
                "<" => version < limit,
                ">=" => version >= limit,
                "" => version == limit,
                other => bail!("unknown operator {other:?} in bound {bound:?}: use <, >= or none"),
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_select_versions() {
        let selected = |bounds: &[&str]| {
            let bounds = Bounds(bounds.iter().map(ToString::to_string).collect());
            ALL.into_iter().filter(|v| bounds.allow(Version::parse(v).unwrap()).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(selected(&[]), ALL);
        assert_eq!(selected(&[">=0.3.0", "<1.0.0"]), ["0.3.0", "0.3.1", "0.4.0"]);
        assert_eq!(selected(&["1.1.0"]), ["1.1.0"]);
        assert!(Bounds(vec!["~1.0.0".into()]).allow(Version(1, 0, 0)).is_err());
    }
}
