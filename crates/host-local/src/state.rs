//! What Berth keeps in the `lock` file, whose content host-local does not look at.
//!
//! - The **seal**: the boot, and the inode and modification time of the network directory as Berth's last operation
//!   left them. While all three hold, nobody else has added or removed a lease since, so the index is complete.
//! - The sizes of the [index](crate::index) and of the heap of [spare files](crate::spare).
//! - The **graves**: the last deletions and when each began, so that an ADD which began before its container was
//!   deleted, but comes after, is turned away. Older graves make room for new ones.

const MAGIC: [u8; 8] = *b"berth\0\0\x01";
const GRAVES: usize = 128;
const GRAVE: usize = 24;
const HEADER: usize = 56;
/// The size of the encoded state.
pub(crate) const SIZE: usize = HEADER + GRAVES * GRAVE;

/// When the index was last known to be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    pub(crate) inode: u64,
    pub(crate) modified: i64,
}

impl Seal {
    /// No directory: inode numbers begin at 1.
    pub(crate) const BROKEN: Self = Self { inode: 0, modified: 0 };
}

/// The content of the lock file in one boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    boot: u64,
    pub(crate) seal: Seal,
    /// The size of the index.
    pub(crate) buckets: u64,
    /// How many spare lease files there are.
    pub(crate) spares: u64,
    next: u64,
    graves: [(u128, u64); GRAVES],
}

impl State {
    /// The state of a boot in which nothing has happened yet.
    pub(crate) const fn new(boot: u64) -> Self {
        Self { boot, seal: Seal::BROKEN, buckets: 0, spares: 0, next: 0, graves: [(0, 0); GRAVES] }
    }

    /// Reads the state back; `None` if it is of another boot or not a state at all.
    pub(crate) fn decode(bytes: &[u8; SIZE], boot: u64) -> Option<Self> {
        let (header, graves) = bytes.split_at(HEADER);
        let word = |i: usize| header[i * 8..].first_chunk().copied().map_or(0, u64::from_le_bytes);
        if header[..8] != MAGIC || word(1) != boot {
            return None;
        }
        let mut state = Self::new(boot);
        state.seal = Seal { inode: word(2), modified: word(3).cast_signed() };
        state.buckets = word(4);
        state.spares = word(5);
        state.next = word(6);
        for (grave, bytes) in state.graves.iter_mut().zip(graves.chunks_exact(GRAVE)) {
            let (key, stamp) = bytes.split_at(16);
            let key = key.first_chunk().copied().map_or(0, u128::from_le_bytes);
            *grave = (key, stamp.first_chunk().copied().map_or(0, u64::from_le_bytes));
        }
        Some(state)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SIZE);
        bytes.extend(MAGIC);
        for word in
            [self.boot, self.seal.inode, self.seal.modified.cast_unsigned(), self.buckets, self.spares, self.next]
        {
            bytes.extend(word.to_le_bytes());
        }
        for (key, stamp) in self.graves {
            bytes.extend(key.to_le_bytes());
            bytes.extend(stamp.to_le_bytes());
        }
        bytes
    }

    /// Remembers that the owner with this hash was deleted by a call that began at `stamp`.
    pub(crate) fn bury(&mut self, key: u128, stamp: u64) {
        if let Some(grave) = self.graves.iter_mut().find(|grave| grave.0 == key) {
            grave.1 = grave.1.max(stamp);
            return;
        }
        // The remainder is below the number of graves, so it fits.
        self.graves[(self.next % GRAVES as u64) as usize] = (key, stamp);
        self.next = self.next.wrapping_add(1);
    }

    /// Whether the owner was deleted by a call that began after `stamp`.
    pub(crate) fn is_buried_since(&self, key: u128, stamp: u64) -> bool {
        self.graves.iter().any(|grave| grave.0 == key && stamp < grave.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_reads_back_in_its_own_boot_only() {
        let mut state = State::new(7);
        state.seal = Seal { inode: 3, modified: -5 };
        state.bury(99, 1);
        let bytes: [u8; SIZE] = state.encode().try_into().unwrap();
        assert_eq!(State::decode(&bytes, 7), Some(state));
        assert_eq!(State::decode(&bytes, 8), None);
        assert_eq!(State::decode(&[0; SIZE], 7), None);
    }

    #[test]
    fn a_grave_turns_away_what_began_before_it() {
        let mut state = State::new(1);
        state.bury(5, 100);
        assert!(state.is_buried_since(5, 99));
        assert!(!state.is_buried_since(5, 100), "an ADD that began later is a new life");
        assert!(!state.is_buried_since(6, 0));
        state.bury(5, 50);
        assert!(state.is_buried_since(5, 99), "an older DEL does not dig up a newer one's grave");
    }

    #[test]
    fn the_oldest_grave_makes_room() {
        let mut state = State::new(1);
        for key in 1..=GRAVES as u128 + 1 {
            state.bury(key, 10);
        }
        assert!(!state.is_buried_since(1, 0));
        assert!(state.is_buried_since(2, 0) && state.is_buried_since(GRAVES as u128 + 1, 0));
    }
}
