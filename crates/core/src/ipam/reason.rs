//! Why a unit was picked.

/// Why a unit was picked, for `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was never used.
    NeverUsed,
    /// It was given back longest ago.
    LongestReleased,
    /// It is the lowest free one.
    LowestFree,
    /// It was drawn at random.
    Random,
    /// It still cools, but nothing else is free and the pool allows it.
    StillCooling,
    /// It was asked for by address.
    Requested,
    /// It was kept for this holder.
    KeptForHolder,
    /// The holder has it already.
    AlreadyHeld,
}

impl Reason {
    /// The reason in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NeverUsed => "never used before",
            Self::LongestReleased => "released longest ago",
            Self::LowestFree => "lowest free address",
            Self::Random => "drawn at random",
            Self::StillCooling => "still cooling, but nothing else is free",
            Self::Requested => "asked for by address",
            Self::KeptForHolder => "kept for this holder",
            Self::AlreadyHeld => "this attachment has it already",
        }
    }
}
