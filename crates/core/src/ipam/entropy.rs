//! Pseudo-random numbers whose seed comes from outside.

/// A small generator of pseudo-random numbers (splitmix64); the seed comes from outside.
#[derive(Clone, Debug)]
pub struct Entropy(pub u64);

impl Entropy {
    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `last`.
    pub(super) fn up_to(&mut self, last: u128) -> u128 {
        match (u64::try_from(last), last.checked_add(1)) {
            // The high half of a product is as even as a remainder and spares the division.
            (Ok(last), _) => (u128::from(self.next()) * (u128::from(last) + 1)) >> 64,
            (Err(_), bound) => {
                let wide = u128::from(self.next()) << 64 | u128::from(self.next());
                bound.map_or(wide, |bound| wide % bound)
            }
        }
    }
}
