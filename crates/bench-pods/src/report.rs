//! Medians and ratios.

use crate::contestant::Contestant;
use crate::round::Round;
use berth_bench::rows::Rows;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

const COLUMNS: [(&str, usize); 15] = [
    ("", 12),
    ("ready s", 8),
    ("free s", 8),
    ("gone s", 8),
    ("known s", 8),
    ("ADD p50/p90/p99 ms", 20),
    ("DEL p50/p90/p99 ms", 20),
    ("failed", 6),
    ("left", 4),
    ("reads", 6),
    ("writes", 6),
    ("409", 5),
    ("write ms", 8),
    ("requests", 8),
    ("etcd kB", 7),
];

/// All rounds, by pods and contestant, then by number.
#[derive(Default)]
pub(crate) struct Report(BTreeMap<(u16, Contestant), BTreeMap<usize, Round>>);

/// The load of the machine, as it calls it itself.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// Milliseconds with as many digits as are worth something.
pub(crate) fn millis(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1e3;
    if millis < 10.0 { format!("{millis:.1}") } else { format!("{millis:.0}") }
}

/// The median, and what nine of ten and 99 of 100 do not exceed.
pub(crate) fn quantiles(mut times: Vec<Duration>) -> [Duration; 3] {
    times.sort_unstable();
    let last = times.len().saturating_sub(1) as f64;
    [0.5, 0.9, 0.99].map(|share| times.get((last * share).round() as usize).copied().unwrap_or_default())
}

/// The middle one, or the mean of the middle two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    let at = |index: usize| values.get(index).copied().unwrap_or_default();
    (at(low) + at(high)) / 2.0
}

impl Report {
    pub(crate) fn add(&mut self, pods: u16, number: usize, round: Round) {
        self.0.entry((pods, round.contestant)).or_default().insert(number, round);
    }

    /// How many rounds there are.
    pub(crate) fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    fn rounds(&self) -> impl Iterator<Item = &Round> {
        self.0.values().flat_map(BTreeMap::values)
    }

    /// What must never be, whatever the times are.
    pub(crate) fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for round in self.rounds() {
            let who = format!("{} with {} pods", round.contestant, round.pods);
            let twice = round.calls.given_twice();
            if !twice.is_empty() {
                wrong.push(format!("{who}: given twice: {twice:?}"));
            }
            if round.left > 0 {
                wrong.push(format!("{who}: {} addresses left behind", round.left));
            }
            if round.contestant.is_berth() && round.calls.failed() > 0 {
                wrong.push(format!("{who}: {} calls failed", round.calls.failed()));
            }
        }
        wrong
    }

    /// Prints a table for each number of pods, and the ratios to host-local.
    pub(crate) fn print(&self) {
        let mut sizes: Vec<u16> = self.0.keys().map(|(pods, _)| *pods).collect();
        sizes.dedup();
        for pods in sizes {
            let of_size = self.0.iter().filter(|((size, _), _)| *size == pods);
            let rounds = of_size.clone().map(|(_, rounds)| rounds.len()).max().unwrap_or_default();
            let title = format!("{pods} pods on three nodes, medians of {rounds} rounds; requests and etcd per pod");
            let table = Rows::begin(&title, &COLUMNS);
            of_size.for_each(|((_, who), rounds)| table.print(&row(*who, &rounds.values().collect::<Vec<_>>())));
            for who in [Contestant::Shared, Contestant::Affine] {
                if let (Some(ours), Some(theirs)) =
                    (self.0.get(&(pods, who)), self.0.get(&(pods, Contestant::HostLocal)))
                {
                    println!("{}", ratios(pods, who, ours, theirs));
                }
            }
            for ((_, who), rounds) in self.0.iter().filter(|((size, _), _)| *size == pods) {
                if let Some(round) = rounds.values().next().filter(|_| who.is_berth()) {
                    println!("  {who}, in the first round: {}", round.own.in_words());
                }
            }
        }
    }
}

fn row(who: Contestant, rounds: &[&Round]) -> Vec<String> {
    let middle = |of: &dyn Fn(&Round) -> f64| median(rounds.iter().map(|round| of(round)).collect());
    let seconds = |of: &dyn Fn(&Round) -> Duration| format!("{:.1}", middle(&|round| of(round).as_secs_f64()));
    let per_pod = |of: &dyn Fn(&Round) -> f64| middle(&|round| of(round) / f64::from(round.pods));
    let times = |verb: &str| {
        let all = rounds.iter().flat_map(|round| round.calls.times(verb)).collect();
        quantiles(all).map(millis).join(" / ")
    };
    vec![
        who.to_string(),
        seconds(&|round| round.ready),
        seconds(&|round| round.free),
        seconds(&|round| round.gone),
        seconds(&|round| round.known),
        times("ADD"),
        times("DEL"),
        rounds.iter().map(|round| round.calls.failed()).sum::<usize>().to_string(),
        rounds.iter().map(|round| round.left).sum::<u64>().to_string(),
        format!("{:.2}", per_pod(&|round| round.own.reads() - f64::from(round.looks))),
        format!("{:.2}", per_pod(&|round| round.own.writes())),
        format!("{:.3}", per_pod(&|round| round.own.conflicts())),
        format!("{:.1}", middle(&|round| round.own.write_seconds * 1e3 / round.own.writes().max(1.0))),
        format!("{:.1}", per_pod(&|round| round.all.reads() + round.all.writes())),
        format!("{:.1}", per_pod(&|round| round.all.etcd_bytes / 1e3)),
    ]
}

/// Times over host-local's of the same round, the median of all rounds.
fn ratios(pods: u16, who: Contestant, ours: &BTreeMap<usize, Round>, theirs: &BTreeMap<usize, Round>) -> String {
    let ratio = |of: &dyn Fn(&Round) -> f64| {
        let pairs = ours.iter().filter_map(|(number, round)| Some(of(round) / of(theirs.get(number)?)));
        median(pairs.collect())
    };
    let p50 = |round: &Round| quantiles(round.calls.times("ADD"))[0].as_secs_f64();
    format!(
        "pods n={pods} {who} ready_ratio {:.3} free_ratio {:.3} add_p50_ratio {:.3}",
        ratio(&|round| round.ready.as_secs_f64()),
        ratio(&|round| round.free.as_secs_f64()),
        ratio(&p50),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_between_the_halves() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
        let times: Vec<Duration> = (1..=101).map(Duration::from_millis).collect();
        assert_eq!(quantiles(times).map(|time| time.as_millis()), [51, 91, 100]);
        assert_eq!(quantiles(Vec::new()), [Duration::ZERO; 3]);
    }
}
