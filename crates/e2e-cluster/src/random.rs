//! Chance that can be repeated: the same seed, the same choices.

use berth_core::ipam::Entropy;

/// Where choices come from.
#[derive(Clone, Debug)]
pub struct Random(Entropy);

impl Random {
    /// Choices by this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(Entropy(seed))
    }

    /// Choices by `$BERTH_SEED`, or by the clock; the seed is printed, so that a failure can be repeated.
    ///
    /// # Panics
    /// If the variable is no number.
    #[must_use]
    pub fn seeded(what: &str) -> Self {
        let seed = match std::env::var("BERTH_SEED") {
            Ok(text) => text.parse().unwrap(),
            Err(_) => std::time::UNIX_EPOCH.elapsed().map_or(1, |elapsed| elapsed.as_secs()),
        };
        println!("{what}: BERTH_SEED={seed}");
        Self::new(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// A number below this one.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// One of several; `None` if there are none.
    pub fn choose<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let len = u64::try_from(from.len()).ok().filter(|len| *len > 0)?;
        from.get(usize::try_from(self.below(len)).ok()?)
    }
}
