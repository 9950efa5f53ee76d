use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

/// How many: exact past 2^128, so that `::/0` and the sum of several of them can be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count {
    high: u64,
    low: u128,
}

impl Count {
    /// None.
    pub const ZERO: Self = Self { high: 0, low: 0 };
    /// One.
    pub const ONE: Self = Self { high: 0, low: 1 };

    /// 2^`exponent`; saturates past 2^191.
    #[must_use]
    pub const fn power_of_two(exponent: u8) -> Self {
        match exponent {
            0..=127 => Self { high: 0, low: 1 << exponent },
            128..=191 => Self { high: 1 << (exponent - 128), low: 0 },
            _ => Self { high: u64::MAX, low: u128::MAX },
        }
    }

    /// Whether this is none at all.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.high == 0 && self.low == 0
    }

    /// This many, or `u64::MAX` if there are more.
    #[must_use]
    pub fn saturating_u64(self) -> u64 {
        if self.high > 0 { u64::MAX } else { u64::try_from(self.low).unwrap_or(u64::MAX) }
    }

    /// The nearest floating-point number, for ratios and bars.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio needs no more")]
    pub fn as_f64(self) -> f64 {
        self.high as f64 * 2f64.powi(128) + self.low as f64
    }

    /// `self - other`, or zero where `other` is larger.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        self - other
    }
}

impl From<u128> for Count {
    fn from(low: u128) -> Self {
        Self { high: 0, low }
    }
}

impl From<u32> for Count {
    fn from(n: u32) -> Self {
        Self::from(u128::from(n))
    }
}

impl From<usize> for Count {
    fn from(n: usize) -> Self {
        Self::from(n as u128)
    }
}

/// Saturates, like [`Self::power_of_two`].
impl Add for Count {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (low, carry) = self.low.overflowing_add(other.low);
        let high = self.high.checked_add(other.high).and_then(|high| high.checked_add(u64::from(carry)));
        high.map_or(Self { high: u64::MAX, low: u128::MAX }, |high| Self { high, low })
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Stops at zero: a count cannot be less than none.
impl Sub for Count {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        let high = self.high.checked_sub(other.high).and_then(|high| high.checked_sub(u64::from(borrow)));
        high.map_or(Self::ZERO, |high| Self { high, low })
    }
}

impl Sum for Count {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.high == 0 {
            return self.low.fmt(f);
        }
        // Long division by ten in three 64-bit limbs; at most 58 digits.
        let mut limbs = [self.high, (self.low >> 64) as u64, self.low as u64];
        let mut digits = Vec::with_capacity(58);
        while limbs != [0; 3] {
            let mut remainder = 0u128;
            for limb in &mut limbs {
                let value = (remainder << 64) | u128::from(*limb);
                *limb = (value / 10) as u64;
                remainder = value % 10;
            }
            digits.push(char::from(b'0' + remainder as u8));
        }
        f.pad_integral(true, "", &digits.iter().rev().collect::<String>())
    }
}

/// A decimal string: JSON numbers lose precision past 2^53 in most readers.
impl serde::Serialize for Count {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
