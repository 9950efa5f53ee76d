//! Blocks: 64 aligned units of one network, the unit of storage and of compare-and-swap.
//!
//! A block is a value. Its slots are kept in one packed buffer (see [`record`]), because a million held addresses must
//! fit in 64 MB: strings that many slots share (network, interface, node, namespace) are written once per block, and a
//! hexadecimal container ID takes half its length.

mod codec;
mod id;
mod key;
mod record;
mod write;

pub use codec::{Corrupt, Reader, Writer};
pub use id::Id;
pub use key::{BLOCK_UNITS, BlockKey, Plane};
pub use record::SlotRef;

use crate::holder::Holder;
use crate::time::Time;
use std::sync::Arc;

/// What a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Was given back; when, says how long it has to cool.
    Released,
    /// Someone uses it.
    Active,
    /// Kept for a holder that is away.
    Held,
    /// Seen in use by a stranger.
    Quarantined,
}

/// One slot that has ever been used. A slot without a record is free and always was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// What it is.
    pub state: State,
    /// Since when.
    pub since: Time,
    /// Until when it is held or quarantined; `None` is for ever.
    pub until: Option<Time>,
    /// Who has it; in a released or quarantined slot, nobody.
    pub holder: Option<Holder>,
    /// Where its holder is moving from: the other sandbox of a virtual machine that is on its way to another node. Both are
    /// one holder until one of them goes, and then the other is. Only in an active slot.
    pub source: Option<Box<Holder>>,
}

impl Slot {
    /// In use by `holder`.
    #[must_use]
    pub const fn active(holder: Holder, now: Time) -> Self {
        Self { state: State::Active, since: now, until: None, holder: Some(holder), source: None }
    }

    /// Given back.
    #[must_use]
    pub const fn released(now: Time) -> Self {
        Self { state: State::Released, since: now, until: None, holder: None, source: None }
    }

    /// Kept for `holder`.
    #[must_use]
    pub const fn held(holder: Holder, now: Time, until: Option<Time>) -> Self {
        Self { state: State::Held, since: now, until, holder: Some(holder), source: None }
    }

    /// Set apart because a stranger uses it.
    #[must_use]
    pub const fn quarantined(now: Time, until: Option<Time>) -> Self {
        Self { state: State::Quarantined, since: now, until, holder: None, source: None }
    }

    /// Whether slots of this state belong to someone.
    pub(crate) const fn has_holder(&self) -> bool {
        matches!(self.state, State::Active | State::Held)
    }

    /// Whether slots of this state end by themselves.
    pub(crate) const fn has_deadline(&self) -> bool {
        matches!(self.state, State::Held | State::Quarantined)
    }

    /// What becomes of the slot when its holder lets go: whoever did not get away has it still; else it is held for a
    /// sticky holder, and released otherwise.
    #[must_use]
    pub fn after_release(&self, now: Time) -> Self {
        if let Some(source) = &self.source {
            return Self::active(Holder::clone(source), now);
        }
        let Some(holder) = &self.holder else { return Self::released(now) };
        match &holder.sticky {
            None => Self::released(now),
            // The container is gone and must not be matched again; who may come back is the identity.
            Some(sticky) => Self::held(
                Holder { id: String::new(), node: String::new(), uid: String::new(), awaited: false, ..holder.clone() },
                now,
                sticky.keep.map(|keep| now.after(keep)),
            ),
        }
    }
}

/// 64 slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Slots that have a record.
    present: u64,
    /// Slots that are active, held or quarantined.
    taken: u64,
    /// Shared strings, then one record per present slot, in order. Copies of a block share it: the store and the state
    /// machine hold the same bytes.
    data: Arc<[u8]>,
}

impl Block {
    /// Which slots are active, held or quarantined, as bits.
    #[must_use]
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// Which slots have been given back, as bits.
    #[must_use]
    pub const fn released(&self) -> u64 {
        self.present & !self.taken
    }

    /// Whether no slot was ever used.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// Bytes of memory behind the block.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.data.len()
    }

    /// A slot, if it was ever used.
    #[must_use]
    pub fn slot(&self, slot: u8) -> Option<SlotRef<'_>> {
        let bit = 1u64 << slot;
        (self.present & bit != 0).then(|| record::nth(&self.data, (self.present & (bit - 1)).count_ones()))
    }

    /// Every slot that was ever used.
    pub fn slots(&self) -> impl Iterator<Item = (u8, SlotRef<'_>)> {
        let numbers = (0..BLOCK_UNITS).filter(|&slot| self.present & (1 << slot) != 0);
        numbers.zip(record::all(&self.data))
    }

    /// The state of every slot that was ever used, and since when: cheaper than [`Self::slots`].
    pub fn states(&self) -> impl Iterator<Item = (u8, State, Time)> {
        let numbers = (0..BLOCK_UNITS).filter(|&slot| self.present & (1 << slot) != 0);
        numbers.zip(record::states(&self.data)).map(|(slot, (state, since))| (slot, state, since))
    }

    /// Puts a slot, or forgets it.
    ///
    /// A holder in a slot that nobody has (released, quarantined) is not kept, nor are fractions of a second of how
    /// long an address is kept.
    pub fn set(&mut self, slot: u8, value: Option<&Slot>) {
        let bit = 1u64 << slot;
        let rank = (self.present & (bit - 1)).count_ones();
        self.data = write::replace(&self.data, rank, self.present & bit != 0, value).into();
        self.present &= !bit;
        self.taken &= !bit;
        if let Some(value) = value {
            self.present |= bit;
            if value.state != State::Released {
                self.taken |= bit;
            }
        }
    }

    /// The block as bytes.
    pub fn encode(&self, out: &mut Writer) {
        out.u64(self.present);
        out.bytes(&self.data);
    }

    /// A block from bytes.
    ///
    /// # Errors
    /// If the bytes are not what [`Self::encode`] writes. Every record is checked, so reading slots later cannot fail.
    pub fn decode(input: &mut Reader<'_>) -> Result<Self, Corrupt> {
        let present = input.u64()?;
        let data = input.bytes()?;
        let states = record::validate(data, present.count_ones())?;
        let mut taken = 0;
        for (slot, state) in (0..BLOCK_UNITS).filter(|slot| present & (1 << slot) != 0).zip(states) {
            taken |= u64::from(state != State::Released) << slot;
        }
        Ok(Self { present, taken, data: data.into() })
    }
}

#[cfg(test)]
mod tests;
