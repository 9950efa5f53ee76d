//! Slots that may come back, and since when that has been so.

use berth_core::block::{BlockKey, Slot};
use berth_core::reclaim::{Class, Times};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// How long the server is not asked again about what it knew better, on top of the time of the class.
const AT_LEAST: Duration = Duration::from_secs(30);

/// One slot that may come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Suspect {
    pub(super) key: BlockKey,
    pub(super) slot: u8,
    /// The slot as it was judged.
    pub(super) judged: Slot,
    pub(super) class: Class,
    /// Whether only the keeping ends, not the use.
    pub(super) only_forget: bool,
}

/// Since when one has been suspected, and what came of it.
#[derive(Clone, Debug)]
struct Case {
    suspect: Suspect,
    since: Instant,
    /// Whether the server knew better when it was asked.
    refuted: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Suspects(HashMap<BlockKey, BTreeMap<u8, Case>>);

impl Suspects {
    /// What a look at a block found; what is not found again is no longer suspected.
    pub(super) fn look(&mut self, key: &BlockKey, found: Vec<Suspect>, now: Instant) {
        if found.is_empty() {
            self.0.remove(key);
            return;
        }
        let before = self.0.remove(key).unwrap_or_default();
        let case = |suspect: Suspect| match before.get(&suspect.slot) {
            Some(known) if known.suspect == suspect => known.clone(),
            _ => Case { suspect, since: now, refuted: false },
        };
        let found = found.into_iter().map(|suspect| (suspect.slot, case(suspect))).collect();
        self.0.insert(key.clone(), found);
    }

    fn all(&self) -> impl Iterator<Item = &Case> {
        self.0.values().flat_map(BTreeMap::values)
    }

    /// Those that have been so for long enough.
    pub(super) fn due(&self, times: &Times, now: Instant) -> Vec<Suspect> {
        let is_due = |case: &&Case| times.of(case.suspect.class).is_some_and(|time| case.since + time <= now);
        self.all().filter(is_due).map(|case| case.suspect.clone()).collect()
    }

    /// The server knows better: the time of these begins anew, and is never short, so that it is not asked for ever.
    pub(super) fn refute(&mut self, suspects: &[Suspect], now: Instant) {
        for Suspect { key, slot, .. } in suspects {
            if let Some(case) = self.0.get_mut(key).and_then(|block| block.get_mut(slot)) {
                (case.since, case.refuted) = (now + AT_LEAST, true);
            }
        }
    }

    /// How long until the next is due; `None` if none will be.
    pub(super) fn next_due(&self, times: &Times, now: Instant) -> Option<Duration> {
        let due = |case: &Case| Some((case.since + times.of(case.suspect.class)?).saturating_duration_since(now));
        self.all().filter_map(due).min()
    }

    /// How many there are, by class: without those that the server knows better about, which nobody has to look after.
    pub(super) fn count(&self) -> BTreeMap<Class, u64> {
        let mut count = BTreeMap::new();
        for case in self.all().filter(|case| !case.refuted) {
            *count.entry(case.suspect.class).or_default() += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::addr::Family;
    use berth_core::block::Plane;
    use berth_core::holder::Holder;
    use berth_core::time::Time;

    fn suspect(uid: &str, class: Class) -> Suspect {
        let plane = Plane { network: "default".into(), family: Family::V4, unit_len: 32 };
        let holder = Holder { uid: uid.into(), ..Holder::default() };
        Suspect {
            key: BlockKey { plane, index: 1 },
            slot: 5,
            judged: Slot::active(holder, Time(1)),
            class,
            only_forget: false,
        }
    }

    #[test]
    fn one_is_due_only_after_the_time_of_its_class_without_a_break() {
        let (mut suspects, times, start) = (Suspects::default(), Times::default(), Instant::now());
        let one = suspect("u1", Class::NodeGone);
        let after = |seconds| start + Duration::from_secs(seconds);
        suspects.look(&one.key, vec![one.clone()], start);
        assert_eq!(suspects.next_due(&times, after(10)), Some(Duration::from_secs(50)));
        suspects.look(&one.key, vec![one.clone()], after(30));
        assert!(suspects.due(&times, after(59)).is_empty());
        assert_eq!(suspects.due(&times, after(60)), std::slice::from_ref(&one));
        suspects.look(&one.key, Vec::new(), after(61));
        suspects.look(&one.key, vec![one.clone()], after(62));
        assert!(suspects.due(&times, after(100)).is_empty(), "it was back in between");
        suspects.look(&one.key, vec![suspect("u2", Class::NodeGone)], after(100));
        assert!(suspects.due(&times, after(130)).is_empty(), "another holder has its own time");
    }

    #[test]
    fn one_that_the_server_knows_better_about_is_not_asked_about_at_once_again() {
        let (mut suspects, mut times, start) = (Suspects::default(), Times::default(), Instant::now());
        times.set(Class::NodeGone, Some(Duration::ZERO));
        let one = suspect("u1", Class::NodeGone);
        suspects.look(&one.key, vec![one.clone()], start);
        assert_eq!(suspects.due(&times, start), std::slice::from_ref(&one));
        assert_eq!(suspects.count()[&Class::NodeGone], 1);
        suspects.refute(std::slice::from_ref(&one), start);
        assert!(suspects.count().is_empty());
        suspects.look(&one.key, vec![one.clone()], start + AT_LEAST / 2);
        assert!(suspects.due(&times, start + AT_LEAST / 2).is_empty());
        assert_eq!(suspects.next_due(&times, start), Some(AT_LEAST));
        assert_eq!(suspects.due(&times, start + AT_LEAST), [one]);
    }

    #[test]
    fn a_class_that_is_switched_off_is_never_due() {
        let (mut suspects, times, start) = (Suspects::default(), Times::default(), Instant::now());
        let one = suspect("u1", Class::NodeSilent);
        suspects.look(&one.key, vec![one.clone()], start);
        assert!(suspects.due(&times, start + Duration::from_secs(1_000_000)).is_empty());
        assert_eq!(suspects.next_due(&times, start), None);
        assert_eq!(suspects.count()[&Class::NodeSilent], 1);
    }
}
