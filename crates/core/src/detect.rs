//! What is found out on the wire before an address is used.

use std::time::Duration;

/// How long an address that a stranger was seen to use is set apart. It is probed again before anyone gets it, so this only
/// bounds how often a pod pays for a stranger that stays, and how long an address is missing that was freed meanwhile.
pub const QUARANTINE: Duration = Duration::from_secs(600);

/// Whether strangers are looked for that use an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conflicts {
    /// They are not.
    Ignore,
    /// One probe and a tenth of a second for the answer.
    #[default]
    Fast,
    /// Three probes with the pauses of RFC 5227: four to seven seconds.
    Rfc5227,
}

/// Whether the router is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GatewayCheck {
    /// It is not.
    Ignore,
    /// If it does not answer, that is reported.
    #[default]
    Warn,
    /// If it does not answer, the container does not start.
    Require,
}

/// What is found out about the addresses of a pool before they are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detection {
    /// Whether a stranger uses the address.
    pub conflicts: Conflicts,
    /// Whether the router is there.
    pub gateway: GatewayCheck,
}
