//! Values that are written as text: read through [`FromStr`], so that one error names the field and the fix.

use berth_core::addr::{ParseError, Range};
use serde::{Deserialize, Deserializer, de::Error};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A value that is written as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<T>(pub(crate) T);

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

/// A range, and whether it is written as `FIRST-LAST`: then it means just those addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) range: Range,
    pub(crate) spelled_out: bool,
}

impl FromStr for Written {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        text.parse().map(|range| Self { range, spelled_out: text.contains('-') })
    }
}

/// An IP address whose error repeats what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) IpAddr);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| format!("{text:?} is not an IP address"))
    }
}
