//! How many addresses the pool of an application is to have.

use std::fmt;
use std::str::FromStr;

/// The size that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// `5`: just so many, whatever the application does.
    Fixed(u32),
    /// `+5`: so many more than it has replicas.
    Spare(u32),
}

impl Size {
    /// How many addresses the pool is to have; `None` if that depends on a number of replicas that nobody knows.
    ///
    /// Where no size was asked for, there is one for every pod that can be there at a time: the replicas, those that a
    /// rollout starts before it stops others (`surge`; with one replica less it could not begin), and those that are on
    /// their way out and have not given back their address yet (`leaving`). A pool is never empty.
    #[must_use]
    pub fn desired(size: Option<Self>, replicas: Option<u32>, surge: u32, leaving: u32) -> Option<u32> {
        let count = match size {
            Some(Self::Fixed(count)) => count,
            Some(Self::Spare(spare)) => replicas?.saturating_add(spare),
            None => replicas?.saturating_add(surge).saturating_add(leaving),
        };
        Some(count.max(1))
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, spare) = text.strip_prefix('+').map_or((text, false), |digits| (digits, true));
        let number = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
        match number {
            Some(spare_count) if spare => Ok(Self::Spare(spare_count)),
            Some(count) if count > 0 => Ok(Self::Fixed(count)),
            _ => {
                let shown: String = text.chars().take(64).collect();
                Err(format!(
                    "{shown:?} is no size; write \"5\" for five addresses, or \"+5\" for five more than replicas"
                ))
            }
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(count) => write!(f, "{count}"),
            Self::Spare(count) => write!(f, "+{count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_or_a_number_to_spare() {
        assert_eq!("5".parse(), Ok(Size::Fixed(5)));
        assert_eq!("+5".parse(), Ok(Size::Spare(5)));
        assert_eq!("+0".parse(), Ok(Size::Spare(0)));
        for wrong in ["", "+", "0", "-1", "++1", "5 ", "1e3", "4294967296", "five"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_count_follows_replicas_where_it_is_to() {
        let desired = Size::desired;
        assert_eq!(desired(None, Some(3), 1, 2), Some(6));
        assert_eq!(desired(Some(Size::Spare(2)), Some(3), 1, 2), Some(5), "who says what to spare has counted surges");
        assert_eq!(desired(Some(Size::Fixed(2)), None, 1, 2), Some(2));
        assert_eq!(desired(Some(Size::Spare(2)), None, 0, 0), None);
        assert_eq!(desired(None, None, 0, 0), None);
        assert_eq!(desired(None, Some(0), 0, 0), Some(1), "a pool is never empty");
        assert_eq!(desired(Some(Size::Spare(u32::MAX)), Some(9), 0, 0), Some(u32::MAX));
    }
}
