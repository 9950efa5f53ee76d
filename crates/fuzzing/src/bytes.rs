//! Random bytes as a source of choices.

/// Choices, until the bytes run out.
#[derive(Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    /// Whether nothing is left to choose with.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A number below `bound`; 0 once the bytes have run out.
    pub fn below(&mut self, bound: u8) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        first % bound.max(1)
    }

    /// One of these.
    pub fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.below(u8::try_from(choices.len()).unwrap_or(u8::MAX)))].clone()
    }
}
