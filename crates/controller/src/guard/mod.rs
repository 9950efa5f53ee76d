//! Pools, subnets and reservations that are in use are not deleted: a finalizer keeps them, whatever admission let
//! through, until the last address is back. Meanwhile a pool gives out nothing new, and says who holds it up.

mod decide;
mod fresh;

use crate::effects::{Answer, Writer};
use crate::events::{Events, Reason};
use crate::leader::Seat;
use crate::world::World;
use decide::{Effect, Guarded, Said, decide};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{debug, info};

/// What keeps an object that is in use.
pub(crate) const FINALIZER: &str = "berth.io/in-use";
/// Addresses that nobody gets.
pub(crate) const RESERVATION: &str = "IPReservation";
/// How often an object that cannot go yet is looked at and its users named.
const PACE: Duration = Duration::from_secs(2);
const REMIND: Duration = Duration::from_secs(60);

/// Keeps objects that are in use.
pub(crate) struct Guard {
    world: Arc<World>,
    writer: Writer,
    told: HashMap<String, Instant>,
    seen: Vec<u64>,
    waiting: bool,
    /// When the server was last asked.
    asked: Option<Instant>,
}

impl Guard {
    pub(crate) fn new(world: Arc<World>, events: Events) -> Self {
        let writer = Writer::new(&world.cluster, events);
        Self { world, writer, told: HashMap::new(), seen: Vec::new(), waiting: true, asked: None }
    }

    /// One round; how long the next may wait if nothing happens.
    pub(crate) fn round(&mut self, seat: &Seat) -> Duration {
        let world = self.world.clone();
        let guarded = world.guarded();
        let versions: Vec<u64> = guarded.iter().map(|(_, _, mirror)| mirror.version()).collect();
        if !seat.leads() || (versions == self.seen && !self.waiting) {
            return PACE;
        }
        self.seen = versions;
        self.world.refresh();
        self.waiting = false;
        // All are looked at before the server is asked: its answer is to be younger than the wish that one goes.
        let guarded: Vec<_> =
            guarded.into_iter().map(|(kind, finalizer, own)| (kind, finalizer, own.snapshot().0)).collect();
        let mut said = None;
        for (kind, finalizer, objects) in guarded {
            for (key, record) in objects {
                let object = Guarded { kind, finalizer, key: &key, record: &record };
                if let Some(effect) = self.decide(&object, &mut said) {
                    self.waiting |= !self.carry_out(&object, effect);
                }
            }
        }
        PACE
    }

    /// What is to be done about an object. The server is asked if need be, once in a round; `said` is its answer.
    fn decide(&mut self, object: &Guarded<'_>, said: &mut Option<Said>) -> Option<Effect> {
        let world = self.world.clone();
        let decide = |said: &Said| world.engine.read(|ipam| decide(ipam, object, said));
        match said {
            Some(said) => decide(said),
            None => match decide(&Said::default()) {
                Some(Effect::Ask) => decide(said.insert(self.ask())),
                effect => effect,
            },
        }
    }

    /// Whether there is nothing to look at again.
    fn carry_out(&mut self, object: &Guarded<'_>, effect: Effect) -> bool {
        let answer = match effect {
            Effect::Keep(write) => self.writer.carry_out(&write),
            Effect::LetGo(write) => {
                let answer = self.writer.carry_out(&write);
                if answer == Answer::Done {
                    info!(kind = object.kind, name = %object.key, "nothing of it is in use any more; it may go");
                }
                answer
            }
            Effect::Remind(users) => {
                self.remind(object, users);
                return false;
            }
            // The server has not answered.
            Effect::Ask => return false,
        };
        // It is gone, or changed meanwhile and is looked at again for that.
        matches!(answer, Answer::Done | Answer::Overtaken)
    }

    /// Asks the server, though not all the time, who it knows to use anything.
    fn ask(&mut self) -> Said {
        if self.asked.is_some_and(|asked| asked.elapsed() < PACE / 2) {
            return Said::default();
        }
        self.asked = Some(Instant::now());
        let config = fresh::config(&self.world);
        if let Err(error) = &config {
            debug!(%error, "cannot list what there is; nothing goes");
        }
        Said { blocks: fresh::take_in_blocks(&self.world), config: config.ok() }
    }

    fn remind(&mut self, object: &Guarded<'_>, users: String) {
        let (now, uid) = (Instant::now(), &object.record.uid);
        self.told.retain(|_, told| now.duration_since(*told) < REMIND);
        if !self.told.contains_key(uid) {
            self.told.insert(uid.clone(), now);
            self.writer.tell(object.kind, object.key, Some(uid), Reason::InUse, users);
        }
    }
}
