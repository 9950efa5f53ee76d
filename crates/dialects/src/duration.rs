//! Durations as Go writes them: `30s`, `5m`, `1h30m`, `1.5h`. Kubernetes and BCS both use that notation.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Units, longest first, with their length in nanoseconds.
const UNITS: [(&str, u128); 8] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ns", 1),
];

/// The longest duration that Go can hold: 292 years.
const MAX_NANOS: u128 = i64::MAX as u128;

/// A duration that reads and prints in Go's notation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub Duration);

/// Why a piece of text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not numbers with units.
    #[error("{0:?} is not a duration; write e.g. \"30s\", \"5m\" or \"1h30m\"")]
    Syntax(String),
    /// A number without a unit.
    #[error("{0:?} has no unit; write e.g. \"{0}s\" for seconds")]
    NoUnit(String),
    /// A unit that Go does not have.
    #[error("{text:?} has the unknown unit {unit:?}; use h, m, s, ms, us or ns{}", day_hint(unit))]
    Unit {
        /// What was written.
        text: String,
        /// The unit in it.
        unit: String,
    },
    /// More than Go can hold.
    #[error("{0:?} is too long; at most 2562047h")]
    TooLong(String),
}

fn day_hint(unit: &str) -> &'static str {
    if unit == "d" { " (a day is 24h)" } else { "" }
}

impl FromStr for GoDuration {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text == "0" {
            return Ok(Self::default());
        }
        let syntax = || ParseError::Syntax(text.to_owned());
        let too_long = || ParseError::TooLong(text.to_owned());
        let (mut rest, mut nanos) = (text, 0u128);
        if rest.is_empty() {
            return Err(syntax());
        }
        while !rest.is_empty() {
            let (number, after) = split_where(rest, |c| !c.is_ascii_digit() && c != '.');
            let (unit, after) = split_where(after, |c| c.is_ascii_digit() || c == '.');
            rest = after;
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
                return Err(syntax());
            }
            if unit.is_empty() {
                return Err(ParseError::NoUnit(text.to_owned()));
            }
            let Some(&(_, length)) = UNITS.iter().find(|(name, _)| *name == unit) else {
                return Err(ParseError::Unit { text: text.to_owned(), unit: unit.to_owned() });
            };
            let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| too_long())? };
            let part = whole.checked_mul(length).and_then(|n| n.checked_add(fraction_of(length, fraction)));
            nanos = part.and_then(|n| n.checked_add(nanos)).filter(|&n| n <= MAX_NANOS).ok_or_else(too_long)?;
        }
        u64::try_from(nanos).map(|nanos| Self(Duration::from_nanos(nanos))).map_err(|_| too_long())
    }
}

fn split_where(text: &str, end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(end).unwrap_or(text.len()))
}

/// The part of `length` that the decimals name. Digits past the eighteenth are below a nanosecond of any unit.
fn fraction_of(length: u128, digits: &str) -> u128 {
    digits.bytes().take(18).rfold(0, |sum, digit| (sum + length * 1_000_000 * u128::from(digit - b'0')) / 10)
        / 1_000_000
}

/// The shortest exact text: `1h30m`, `1s500ms`. Zero is `0s`.
impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_nanos();
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit, length) in UNITS.iter().filter(|(unit, _)| unit.is_ascii()) {
            let count = rest / length;
            rest %= length;
            if count > 0 {
                write!(f, "{count}{unit}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_go_reads() {
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("30s", 30_000_000_000),
            ("5m", 300_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("1.000000001s", 1_000_000_001),
            ("300ms", 300_000_000),
            ("2us", 2_000),
            ("2\u{b5}s", 2_000),
            ("7ns", 7),
            ("500h", 1_800_000_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(GoDuration(Duration::from_nanos(nanos))), "{text}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, message) in [
            ("", r#""" is not a duration; write e.g. "30s", "5m" or "1h30m""#),
            ("soon", r#""soon" is not a duration; write e.g. "30s", "5m" or "1h30m""#),
            ("-5s", r#""-5s" is not a duration; write e.g. "30s", "5m" or "1h30m""#),
            ("1.2.3s", r#""1.2.3s" is not a duration; write e.g. "30s", "5m" or "1h30m""#),
            ("30", r#""30" has no unit; write e.g. "30s" for seconds"#),
            ("2d", r#""2d" has the unknown unit "d"; use h, m, s, ms, us or ns (a day is 24h)"#),
            ("2 s", r#""2 s" has the unknown unit " s"; use h, m, s, ms, us or ns"#),
            ("9999999h", r#""9999999h" is too long; at most 2562047h"#),
        ] {
            let error = text.parse::<GoDuration>().expect_err(text);
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn prints_the_shortest_text() {
        for text in ["0s", "30s", "1h30m", "10h", "1s500ms", "1us1ns", "2562047h"] {
            assert_eq!(text.parse::<GoDuration>().expect(text).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn round_trips(nanos in 0..=i64::MAX as u64) {
            let duration = GoDuration(Duration::from_nanos(nanos));
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn never_panics(text in "[0-9.hmsun\u{b5} -]{0,40}|.*") {
            let _ = text.parse::<GoDuration>();
        }
    }
}
