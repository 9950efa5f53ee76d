//! A set of block numbers kept as maximal runs, so that "the next number outside" is one look-up.

use std::collections::BTreeMap;

/// Numbers from 0 to a limit, kept as disjoint, non-adjacent runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Runs {
    runs: BTreeMap<u128, u128>,
    limit: u128,
}

impl Runs {
    /// Every number from 0 to `limit`.
    pub(crate) fn full(limit: u128) -> Self {
        Self { runs: BTreeMap::from([(0, limit)]), limit }
    }

    fn run_at(&self, n: u128) -> Option<(u128, u128)> {
        self.runs.range(..=n).next_back().map(|(&a, &b)| (a, b)).filter(|&(_, b)| n <= b)
    }

    /// The lowest number from `n` on that is not in the set.
    pub(crate) fn next_outside(&self, n: u128) -> Option<u128> {
        if n > self.limit {
            return None;
        }
        // Runs are maximal, so what follows a run is outside.
        self.run_at(n).map_or(Some(n), |(_, b)| b.checked_add(1).filter(|&next| next <= self.limit))
    }

    /// Puts a number in.
    pub(crate) fn insert(&mut self, n: u128) {
        if self.run_at(n).is_some() {
            return;
        }
        let left = n.checked_sub(1).and_then(|before| self.run_at(before)).map_or(n, |(a, _)| a);
        let right = n.checked_add(1).and_then(|after| self.runs.remove(&after)).unwrap_or(n);
        self.runs.insert(left, right);
    }

    /// Takes the numbers from `first` to `last` out.
    pub(crate) fn remove(&mut self, first: u128, last: u128) {
        let start = self.run_at(first).map_or(first, |(a, _)| a);
        let hit: Vec<(u128, u128)> = self.runs.range(start..=last).map(|(&a, &b)| (a, b)).collect();
        for (a, b) in hit {
            self.runs.remove(&a);
            if a < first {
                self.runs.insert(a, first - 1);
            }
            if b > last {
                self.runs.insert(last + 1, b);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Runs;
    use std::collections::BTreeSet;

    proptest::proptest! {
        #[test]
        fn behaves_like_a_set(ops in proptest::collection::vec((0u8..2, 0u128..40, 0u128..6), 0..120)) {
            let mut runs = Runs::full(39);
            let mut model: BTreeSet<u128> = (0..40).collect();
            for (op, n, len) in ops {
                if op == 0 {
                    runs.insert(n);
                    model.insert(n);
                } else {
                    let last = (n + len).min(39);
                    runs.remove(n, last);
                    (n..=last).for_each(|x| { model.remove(&x); });
                }
                for from in 0..41 {
                    let expected = (from..40).find(|x| !model.contains(x));
                    proptest::prop_assert_eq!(runs.next_outside(from), expected);
                }
            }
        }
    }
}
