//! The webhook's own authority and certificate, and when each is renewed.
//!
//! What is stored says what to do next: [`Certificates::next`] is a function of it, of the time, and of whether the API
//! server has been told. A new authority is made when two thirds of the last one's life are over. At first it is only
//! in the bundle, beside the old one; it signs once that bundle has been published for an overlap, and the old one
//! leaves another overlap after that. So whichever of the last bundles an API server knows, and whichever of the last
//! certificates a replica shows, the one verifies the other.
//!
//! Clocks jump. One that jumps ahead ends lives early, which renews what has ended, at once if nothing valid is left.
//! One that is set back makes what was made before it *not yet* valid, and overlaps count from the present again.

mod make;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use std::fmt;

/// Seconds since 1970.
pub type Seconds = u64;

/// How long things last, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The life of an authority.
    pub authority: Seconds,
    /// The life of a serving certificate.
    pub serving: Seconds,
    /// How long a bundle is published before it is relied on: longer than any API server or replica lags behind.
    pub overlap: Seconds,
    /// How far a certificate's life begins in the past: clocks differ.
    pub skew: Seconds,
}

const DAY: Seconds = 24 * 60 * 60;

impl Default for Terms {
    fn default() -> Self {
        Self { authority: 360 * DAY, serving: 90 * DAY, overlap: DAY / 24, skew: DAY / 24 }
    }
}

/// A certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The private key: in memory and in the Secret, and nowhere else.
    pub key: String,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pair(…)")
    }
}

/// A life: from when until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// The first second, a little before it was made.
    pub from: Seconds,
    /// When it was made.
    pub made: Seconds,
    /// The second after the last.
    pub until: Seconds,
}

impl Life {
    const fn has(self, now: Seconds) -> bool {
        self.from <= now && now < self.until
    }

    /// Whether two thirds of it are over, or it has not begun: the clock was set back.
    const fn is_due(self, now: Seconds) -> bool {
        now < self.from || now >= self.made + self.until.saturating_sub(self.made) / 3 * 2
    }
}

/// An authority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authority {
    /// Counts authorities.
    pub number: u64,
    /// Its certificate and key.
    pub pair: Pair,
    /// For how long.
    pub life: Life,
    /// Since when it is in the bundle that API servers are told.
    pub published: Option<Seconds>,
    /// Since when it signs.
    pub signing: Option<Seconds>,
}

/// A certificate that is shown to API servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    /// The authority that signed it.
    pub by: u64,
    /// The names and addresses it is for.
    pub names: Vec<String>,
    /// Certificate and key.
    pub pair: Pair,
    /// For how long.
    pub life: Life,
}

/// What is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificates {
    /// The authorities in the bundle, in the order in which they were made.
    pub authorities: Vec<Authority>,
    /// What is served.
    pub serving: Option<Serving>,
}

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make another authority.
    MakeAuthority,
    /// Note since when every authority is published.
    NotePublished,
    /// Make a serving certificate, signed by this authority.
    Sign(u64),
    /// Count the overlap of this authority from now: the clock was set back.
    CountAnew(u64),
    /// Drop the authorities before this one.
    DropBefore(u64),
}

/// No certificate could be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a certificate: {0}")]
pub struct MakeError(pub String);

impl Certificates {
    /// What API servers are told to trust.
    #[must_use]
    pub fn bundle(&self) -> String {
        self.authorities.iter().map(|authority| authority.pair.certificate.as_str()).collect()
    }

    /// What to do next, if anything. `published`: whether API servers have been told of this very bundle.
    #[must_use]
    pub fn next(&self, now: Seconds, published: bool, names: &[String], terms: &Terms) -> Option<Step> {
        if self.authorities.last().is_none_or(|newest| newest.life.is_due(now)) {
            return Some(Step::MakeAuthority);
        }
        if published && self.authorities.iter().any(|a| a.published.is_none_or(|since| since > now)) {
            return Some(Step::NotePublished);
        }
        let signer = self.signer(now, terms)?;
        let stale = self
            .serving
            .as_ref()
            .is_none_or(|serving| serving.by != signer.number || serving.names != names || serving.life.is_due(now));
        if stale {
            return Some(Step::Sign(signer.number));
        }
        if signer.signing.is_none_or(|since| since > now) {
            return Some(Step::CountAnew(signer.number));
        }
        let older = self.authorities.first().is_some_and(|oldest| oldest.number != signer.number);
        let settled = signer.signing.is_some_and(|since| now >= since + terms.overlap);
        (older && settled).then_some(Step::DropBefore(signer.number))
    }

    /// Who signs: the newest whose bundle has been published for long enough; else who did so far; else, when there is
    /// nothing that could be broken, the newest.
    fn signer(&self, now: Seconds, terms: &Terms) -> Option<&Authority> {
        let valid = || self.authorities.iter().rev().filter(|authority| authority.life.has(now));
        let ripe = |a: &&Authority| a.published.is_some_and(|since| since <= now && now >= since + terms.overlap);
        let current = |a: &&Authority| self.serving.as_ref().is_some_and(|serving| serving.by == a.number);
        valid().find(ripe).or_else(|| valid().find(current)).or_else(|| valid().next())
    }

    /// Does it.
    ///
    /// # Errors
    /// If no certificate can be made.
    pub fn take(mut self, step: Step, now: Seconds, names: &[String], terms: &Terms) -> Result<Self, MakeError> {
        match step {
            Step::MakeAuthority => {
                let number = self.authorities.last().map_or(1, |newest| newest.number + 1);
                // What has ended verifies nothing any more.
                self.authorities.retain(|authority| now < authority.life.until);
                self.authorities.push(make::authority(number, now, terms)?);
            }
            Step::NotePublished => {
                for authority in &mut self.authorities {
                    authority.published = authority.published.filter(|&since| since <= now).or(Some(now));
                }
            }
            Step::Sign(by) => {
                let authority = self.authorities.iter_mut().find(|authority| authority.number == by);
                let authority = authority.ok_or_else(|| MakeError(format!("authority {by} is gone")))?;
                authority.signing = authority.signing.filter(|&since| since <= now).or(Some(now));
                self.serving = Some(make::serving(authority, names, now, terms)?);
            }
            Step::CountAnew(of) => {
                let own = self.authorities.iter_mut().filter(|authority| authority.number == of);
                own.for_each(|authority| authority.signing = Some(now));
            }
            Step::DropBefore(number) => self.authorities.retain(|authority| authority.number >= number),
        }
        Ok(self)
    }

    /// Does all there is to do.
    ///
    /// # Errors
    /// If no certificate can be made.
    pub fn settle(mut self, now: Seconds, published: bool, names: &[String], terms: &Terms) -> Result<Self, MakeError> {
        let bundle = self.bundle();
        // Each step makes the next one less likely; the bound is for clocks that nobody has thought of.
        for _ in 0..16 {
            // As soon as the bundle changes, it is no longer the one that was published.
            let published = published && self.bundle() == bundle;
            let Some(step) = self.next(now, published, names, terms) else { break };
            self = self.take(step, now, names, terms)?;
        }
        Ok(self)
    }
}
