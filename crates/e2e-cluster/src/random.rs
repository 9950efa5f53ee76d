//! Chance that can be repeated: the same seed, the same choices.

/// Where choices come from: splitmix64, which needs no more than a number.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Choices by this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
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
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
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
