//! Which leases an owner has, without reading them all.
//!
//! One file for a network, `<data directory>/.berth/<network>/index`: a hash table of buckets, each a page of slots, each slot
//! one lease. What an owner holds is in one bucket, so it is read with one system call and written with one, and no
//! directory entry or inode is made, which is what a file system is slow at. A bucket that is full asks for a larger
//! table; that is made when all leases are read the next time.
//!
//! Berth's directory is beside the network's, not in it, because host-local reads everything below that; no network has a name that begins with a dot.
//!
//! The index is a hint. It is believed only under an unbroken [seal](crate::state), what it says is compared with the
//! lease file, and it can always be made anew from the lease files.

use crate::directory::Leases;
use crate::lease::Held;
use crate::owner::Owner;
use crate::sys::{self, Access};
use rustix::io::{self, Errno};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::OwnedFd;

const NAME: &str = "index";
const BUCKET: usize = 4096;
const SLOT: usize = 48;
/// How many slots of a new table are taken on average, of the 85 that a bucket has.
const LOAD: usize = 24;
/// Room for what a node usually runs.
const FEWEST: usize = 16;

/// One lease in the index. The boot says when the entry was made, not the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) owner: u128,
    pub(crate) boot: u64,
    pub(crate) held: Held,
}

impl Slot {
    fn encode(self) -> [u8; SLOT] {
        let address = match self.held.address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let mut bytes = [0; SLOT];
        bytes[..16].copy_from_slice(&self.owner.to_le_bytes());
        bytes[16..32].copy_from_slice(&address.octets());
        bytes[32..40].copy_from_slice(&self.held.changed.to_le_bytes());
        bytes[40..].copy_from_slice(&self.boot.to_le_bytes());
        bytes
    }

    /// `None` if the slot is free.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let owner = u128::from_le_bytes(*bytes.first_chunk()?);
        let address = IpAddr::V6(Ipv6Addr::from(*bytes[16..].first_chunk::<16>()?)).to_canonical();
        let changed = i64::from_le_bytes(*bytes[32..].first_chunk()?);
        let boot = u64::from_le_bytes(*bytes[40..].first_chunk()?);
        (owner != 0).then_some(Self { owner, boot, held: Held { address, changed } })
    }
}

/// The open index of one network, in one boot.
pub(crate) struct Index {
    file: OwnedFd,
    boot: u64,
    buckets: u64,
}

impl Index {
    /// Opens an index of so many buckets.
    pub(crate) fn open(dir: &OwnedFd, boot: u64, buckets: u64) -> io::Result<Self> {
        // No bucket is no index: nobody could be found in it.
        let file = if buckets == 0 { Err(Errno::NOENT) } else { sys::open(dir, NAME, Access::Update) }?;
        Ok(Self { file, boot, buckets })
    }

    /// Opens an index of unknown size, which [`Index::rebuild`] then has to give it, making the file if there is none.
    pub(crate) fn ensure(dir: &OwnedFd, boot: u64) -> io::Result<Self> {
        Ok(Self { file: sys::open(dir, NAME, Access::Ensure(0o600))?, boot, buckets: 0 })
    }

    pub(crate) const fn buckets(&self) -> u64 {
        self.buckets
    }

    /// The leases of an owner.
    pub(crate) fn get(&self, owner: &Owner) -> io::Result<Vec<Held>> {
        let (hash, mut bucket) = (owner.hash(), [0; BUCKET]);
        self.read_bucket(hash, &mut bucket)?;
        let slots = bucket.chunks_exact(SLOT).filter_map(Slot::decode);
        Ok(slots.filter(|slot| slot.owner == hash && slot.boot == self.boot).map(|slot| slot.held).collect())
    }

    /// Replaces the leases of an owner; the error is `NOSPC` if the bucket is full.
    pub(crate) fn put(&self, owner: &Owner, leases: &[Held]) -> io::Result<()> {
        let (hash, mut bucket) = (owner.hash(), [0; BUCKET]);
        let offset = self.read_bucket(hash, &mut bucket)?;
        fill(&mut bucket, hash, self.boot, leases)?;
        sys::write_at(&self.file, &bucket, offset)
    }

    /// Every slot in use, whatever the size of the table and whenever it was written.
    pub(crate) fn load(&self) -> io::Result<Vec<Slot>> {
        load(&self.file)
    }

    /// Makes the table anew, of a size that leaves room to grow.
    pub(crate) fn rebuild(&mut self, leases: &Leases) -> io::Result<()> {
        let count: usize = leases.values().map(Vec::len).sum();
        let buckets = (count / LOAD).next_power_of_two().max(FEWEST);
        let mut table = vec![0; buckets * BUCKET];
        self.buckets = buckets as u64;
        for (owner, held) in leases {
            let hash = owner.hash();
            let offset = self.offset(hash) as usize;
            fill(&mut table[offset..offset + BUCKET], hash, self.boot, held)?;
        }
        sys::truncate(&self.file, table.len())?;
        sys::write_at(&self.file, &table, 0)
    }

    fn offset(&self, hash: u128) -> u64 {
        ((hash >> 64) as u64 ^ hash as u64) % self.buckets.max(1) * BUCKET as u64
    }

    /// Reads the bucket of a hash and says where it lies.
    fn read_bucket(&self, hash: u128, bucket: &mut [u8; BUCKET]) -> io::Result<u64> {
        let offset = self.offset(hash);
        let read = sys::read_at(&self.file, bucket, offset)?.len();
        if read == BUCKET { Ok(offset) } else { Err(Errno::ILSEQ) }
    }
}

/// Every slot in use of the index in a directory, for one who only wants to look.
pub(crate) fn peek(dir: &OwnedFd) -> io::Result<Vec<Slot>> {
    load(&sys::open(dir, NAME, Access::Read)?)
}

fn load(file: &OwnedFd) -> io::Result<Vec<Slot>> {
    let bytes = sys::read_all(file)?;
    let slots = bytes.chunks_exact(BUCKET).flat_map(|bucket| bucket.chunks_exact(SLOT));
    Ok(slots.filter_map(Slot::decode).collect())
}

/// Puts the leases of an owner into its bucket, in place of those it had there.
fn fill(bucket: &mut [u8], owner: u128, boot: u64, leases: &[Held]) -> io::Result<()> {
    let mut leases = leases.iter();
    for slot in bucket.chunks_exact_mut(SLOT) {
        if Slot::decode(slot).is_none_or(|slot| slot.owner == owner) {
            let next = leases.next().map_or([0; SLOT], |&held| Slot { owner, boot, held }.encode());
            slot.copy_from_slice(&next);
        }
    }
    if leases.next().is_none() { Ok(()) } else { Err(Errno::NOSPC) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(address: &str, changed: i64) -> Held {
        Held { address: address.parse().unwrap(), changed }
    }

    fn many(count: u32) -> Leases {
        let address = |i| IpAddr::V4(std::net::Ipv4Addr::from_bits(i));
        (0..count)
            .map(|i| (Owner::attachment(&i.to_string(), "eth0"), vec![Held { address: address(i), changed: 1 }]))
            .collect()
    }

    #[test]
    fn slots_read_back() {
        for address in ["10.0.0.2", "2001:db8::2", "::", "0.0.0.0"] {
            let slot = Slot { owner: 1 << 100, boot: 0xabc, held: held(address, i64::MIN) };
            assert_eq!(Slot::decode(&slot.encode()), Some(slot));
        }
        assert_eq!(Slot::decode(&[0; SLOT]), None);
    }

    #[test]
    fn leases_are_put_replaced_and_found() {
        let root = tempfile::tempdir().unwrap();
        let dir = sys::open_dir(root.path()).unwrap();
        let mut index = Index::ensure(&dir, 1).unwrap();
        index.rebuild(&Leases::new()).unwrap();
        let (one, two) = (Owner::attachment("one", "eth0"), Owner::attachment("two", "eth0"));
        assert_eq!(index.get(&one), Ok(Vec::new()));
        let dual = [held("10.0.0.3", 1), held("2001:db8::3", 2)];
        index.put(&one, &[held("10.0.0.2", 1)]).unwrap();
        index.put(&one, &dual).unwrap();
        index.put(&two, &dual[..1]).unwrap();
        let index = Index::open(&dir, 1, index.buckets()).unwrap();
        assert_eq!(index.get(&one).unwrap(), dual);
        index.put(&one, &[]).unwrap();
        assert_eq!(index.get(&one), Ok(Vec::new()));
        assert_eq!(index.get(&two).unwrap(), dual[..1]);
        assert_eq!(index.load().unwrap().len(), 1);
        assert_eq!(Index::open(&dir, 2, index.buckets()).unwrap().get(&two), Ok(Vec::new()), "of another boot");
        assert!(Index::open(&dir, 1, 0).is_err());
        assert_eq!(Index::open(&dir, 1, 1 << 40).unwrap().get(&one), Err(Errno::ILSEQ), "not the size it was");
    }

    #[test]
    fn a_table_has_room_to_grow_and_says_when_it_is_full() {
        let root = tempfile::tempdir().unwrap();
        let mut index = Index::ensure(&sys::open_dir(root.path()).unwrap(), 1).unwrap();
        for count in [0, 1, 300, 20_000] {
            let leases = many(count);
            index.rebuild(&leases).unwrap();
            assert_eq!(index.load().unwrap().len(), count as usize);
            assert!(leases.iter().all(|(owner, held)| index.get(owner).unwrap() == *held));
        }
        index.rebuild(&Leases::new()).unwrap();
        let mut fitted = 0;
        let full = many(4000).iter().find_map(|(owner, held)| {
            fitted += 1;
            index.put(owner, held).err()
        });
        assert_eq!(full, Some(Errno::NOSPC));
        assert!(fitted > FEWEST * LOAD * 2, "full after {fitted}");
    }
}
