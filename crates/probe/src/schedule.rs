//! When to send, and for how long to listen.

use std::time::Duration;

/// Times since the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// When probes are sent, in order.
    pub sends: Vec<Duration>,
    /// When it is over.
    pub end: Duration,
    /// Whether somebody else who asks for the address counts as using it.
    pub heeds_wishes: bool,
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Schedule {
    /// One probe. On a wire of our days the answer takes less than a millisecond; a tenth of a second is patient.
    ///
    /// Others that ask for the same address are not heeded: they may be Berth's own, on other nodes, asking ahead.
    #[must_use]
    pub fn fast() -> Self {
        Self { sends: vec![Duration::ZERO], end: millis(100), heeds_wishes: false }
    }

    /// A second look at what was found wrong, after a pause in which an interface that is being removed is gone.
    #[must_use]
    pub fn again() -> Self {
        Self { sends: vec![millis(250)], end: millis(350), heeds_wishes: false }
    }

    /// RFC 5227: after up to a second three probes, one to two seconds apart, and two seconds for the last answer.
    #[must_use]
    pub fn rfc5227(entropy: u64) -> Self {
        let between = |shift: u32, least: u64, most: u64| millis(least + (entropy >> shift) % (most - least + 1));
        let first = between(0, 0, 1000);
        let second = first + between(16, 1000, 2000);
        let third = second + between(32, 1000, 2000);
        Self { sends: vec![first, second, third], end: third + millis(2000), heeds_wishes: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_pauses_are_those_of_the_standard(entropy in any::<u64>()) {
            let Schedule { sends, end, .. } = Schedule::rfc5227(entropy);
            prop_assert_eq!(sends.len(), 3);
            prop_assert!(sends[0] <= millis(1000));
            for pair in sends.windows(2) {
                let pause = pair[1] - pair[0];
                prop_assert!(millis(1000) <= pause && pause <= millis(2000), "{:?}", pause);
            }
            prop_assert_eq!(end - sends[2], millis(2000));
        }
    }
}
