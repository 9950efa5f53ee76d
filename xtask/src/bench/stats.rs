//! Medians, percentiles and how far to trust their ratio.

use std::time::Duration;

/// Times of one verb of one contestant, by round.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    rounds: Vec<Vec<Duration>>,
}

impl Samples {
    pub(super) fn add_round(&mut self, times: Vec<Duration>) {
        self.rounds.push(times);
    }

    pub(super) fn len(&self) -> usize {
        self.rounds.iter().map(Vec::len).sum()
    }

    pub(super) fn rounds(&self) -> impl Iterator<Item = &[Duration]> {
        self.rounds.iter().map(Vec::as_slice)
    }

    pub(super) fn median(&self) -> Duration {
        self.percentile(50)
    }

    /// Nothing is discarded: the percentile is over every call.
    pub(super) fn percentile(&self, percent: usize) -> Duration {
        percentile(self.rounds.iter().flatten().copied().collect(), percent)
    }

    /// The ratio of the medians, and the bootstrap 95 % interval of it over rounds: whole rounds are drawn, since calls
    /// within one share the noise of the moment.
    pub(super) fn ratio_to(&self, other: &Self) -> Ratio {
        let mut draws: Vec<f64> = (0..BOOTSTRAP).map(|seed| self.drawn_ratio(other, seed)).collect();
        draws.sort_by(f64::total_cmp);
        let at = |percent: usize| draws[(draws.len() - 1) * percent / 1000];
        Ratio { value: ratio(self.median(), other.median()), low: at(25), high: at(975) }
    }

    fn drawn_ratio(&self, other: &Self, seed: u64) -> f64 {
        let rounds = self.rounds.len().min(other.rounds.len());
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            // xorshift64: the draw need not be good, only the same in every run.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let round = usize::try_from(state % rounds as u64).unwrap_or_default();
            ours.extend(&self.rounds[round]);
            theirs.extend(&other.rounds[round]);
        }
        ratio(percentile(ours, 50), percentile(theirs, 50))
    }
}

const BOOTSTRAP: u64 = 200;

/// A ratio of medians with its 95 % interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratio {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// One duration over another; zero over zero is zero.
pub(super) fn ratio(a: Duration, b: Duration) -> f64 {
    if b.is_zero() { 0.0 } else { a.as_secs_f64() / b.as_secs_f64() }
}

fn percentile(mut times: Vec<Duration>, percent: usize) -> Duration {
    times.sort_unstable();
    times.get(times.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(rounds: &[&[u64]]) -> Samples {
        let mut samples = Samples::default();
        for round in rounds {
            samples.add_round(round.iter().map(|ms| Duration::from_millis(*ms)).collect());
        }
        samples
    }

    #[test]
    fn percentiles_are_over_all_rounds() {
        let samples = samples(&[&[1, 5], &[3, 4, 2]]);
        assert_eq!(samples.median(), Duration::from_millis(3));
        assert_eq!(samples.percentile(100), Duration::from_millis(5));
        assert_eq!(samples.len(), 5);
    }

    #[test]
    fn the_interval_holds_the_ratio() {
        let (fast, slow) = (samples(&[&[10, 11], &[10, 12]]), samples(&[&[20, 22], &[21, 24]]));
        let ratio = fast.ratio_to(&slow);
        assert!(ratio.low <= ratio.value && ratio.value <= ratio.high, "{ratio:?}");
        assert!((0.4..0.6).contains(&ratio.value), "{ratio:?}");
    }

    #[test]
    fn nothing_over_nothing() {
        assert!(ratio(Duration::ZERO, Duration::ZERO).abs() < f64::EPSILON);
        assert_eq!(Samples::default().median(), Duration::ZERO);
    }
}
