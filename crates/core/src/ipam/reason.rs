//! Why a unit was picked.

/// Why a unit was picked, for `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was never used.
    NeverUsed,
    /// It was given back longest ago.
    LongestReleased,
    /// It was given back a while ago; in a pool that nodes share, the next such one from where this node gave out last.
    Released,
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
            Self::Released => "released a while ago",
            Self::LowestFree => "lowest free address",
            Self::Random => "drawn at random",
            Self::StillCooling => "still cooling, but nothing else is free",
            Self::Requested => "asked for by address",
            Self::KeptForHolder => "kept for this holder",
            Self::AlreadyHeld => "this attachment has it already",
        }
    }
}
