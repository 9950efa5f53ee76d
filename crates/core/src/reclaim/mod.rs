//! Whether an address may come back although nobody gave it back.
//!
//! [`judge`] is a pure function from one slot and what is known about its holder to a [`Verdict`]. It says only what may
//! be *suspected*: whoever acts on it waits for the time that [`Times`] gives to the class, asks again from a consistent
//! read, and frees the very slot that was judged ([`crate::ipam::Ipam::reclaim`]). What is not known keeps.

mod times;

pub use times::{Class, Times};

use crate::block::{Slot, State};
use crate::holder::{Holder, Kind};
use crate::time::Time;

/// What is known of the pod that a holder names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pod {
    /// Nothing is known.
    #[default]
    Unknown,
    /// There is none of that name.
    Absent,
    /// There is another of that name: its UID differs.
    Replaced,
    /// There is another of that name, which is on its node's own network and will not ask for an address.
    OnHost,
    /// It is there.
    There(Life),
}

/// How a pod that is there fares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// It has succeeded or failed, for good.
    pub ended: bool,
    /// It is being deleted, and was to be gone by then.
    pub deadline: Option<Time>,
    /// Whether a container of it may still run.
    pub runs: bool,
}

/// What is known of the node that a holder is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Node {
    /// Nothing is known.
    #[default]
    Unknown,
    /// It is there and answers.
    Ready,
    /// It is there and does not answer; what runs on it goes on running.
    Silent,
    /// Somebody vouches for it that nothing runs there any more.
    OutOfService,
    /// There is none of that name.
    Gone,
}

/// What is known of those whom an address is kept for while they are away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keeper {
    /// Nothing is known, or nothing speaks against it.
    #[default]
    Unknown,
    /// It will come back.
    Wanted,
    /// It will not: whoever made it wants fewer, or is gone.
    NotWanted,
    /// The claim is gone.
    NoClaim,
}

/// All that is known about a slot's holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its pod.
    pub pod: Pod,
    /// Its node.
    pub node: Node,
    /// Whom it is kept for.
    pub keeper: Keeper,
    /// The node that leases the slot, and what is known of it: only its agent knows what is free there.
    pub lessee: Option<Node>,
}

/// What may be done with a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays as it is, because of this.
    Keep(&'static str),
    /// It may come back, for this reason.
    Free(Class),
    /// It is in use and stays so, but nobody will come back for it: it is not to be kept afterwards.
    Forget(Class),
}

/// Judges one slot.
#[must_use]
pub fn judge(slot: &Slot, facts: &Facts, now: Time) -> Verdict {
    match facts.lessee {
        None | Some(Node::Gone) => {}
        Some(_) => return Verdict::Keep("it is leased to a node, whose own agent looks after it"),
    }
    match (slot.state, &slot.holder) {
        (State::Released, _) => Verdict::Keep("it is free"),
        (State::Held | State::Quarantined, _) if slot.until.is_some_and(|until| until <= now) => {
            Verdict::Free(Class::TimeOver)
        }
        (State::Quarantined, _) => Verdict::Keep("a stranger was seen to use it"),
        (State::Held, _) => away(facts),
        (State::Active, Some(holder)) => {
            let verdict = in_use(holder, facts, now);
            let unclaimed = facts.keeper == Keeper::NoClaim && holder.sticky.is_some();
            if unclaimed && matches!(verdict, Verdict::Keep(_)) { Verdict::Forget(Class::ClaimGone) } else { verdict }
        }
        (State::Active, None) => Verdict::Keep("nobody is known to have it"),
    }
}

/// When a slot is to be judged again though nothing happens: a time that is waited for will be over then.
#[must_use]
pub fn again_at(slot: &Slot, facts: &Facts, now: Time) -> Option<Time> {
    let deadline = match &facts.pod {
        Pod::There(life) => life.deadline,
        _ => None,
    };
    [slot.until, deadline].into_iter().flatten().filter(|time| *time > now).min()
}

/// A slot that is kept for somebody who is away.
const fn away(facts: &Facts) -> Verdict {
    match (facts.keeper, &facts.pod) {
        (Keeper::NoClaim, _) => Verdict::Free(Class::ClaimGone),
        (Keeper::NotWanted, Pod::Absent) | (Keeper::NotWanted | Keeper::Wanted, Pod::OnHost) => {
            Verdict::Free(Class::NotComingBack)
        }
        (Keeper::NotWanted, _) => Verdict::Keep("there is a pod of that name"),
        (Keeper::Wanted, _) => Verdict::Keep("its pod will come back"),
        (Keeper::Unknown, _) => Verdict::Keep("it is kept for as long as its pool or claim says"),
    }
}

fn in_use(holder: &Holder, facts: &Facts, now: Time) -> Verdict {
    if holder.kind != Kind::Container || holder.node.is_empty() {
        return Verdict::Keep("its holder is no container of this cluster");
    }
    if holder.uid.is_empty() {
        // A container without a pod, started by hand: it dies with its node.
        return match facts.node {
            Node::Gone => Verdict::Free(Class::NodeGone),
            _ => Verdict::Keep("its container belongs to no pod"),
        };
    }
    let on_a_ready_node = match &facts.pod {
        Pod::Unknown => return Verdict::Keep("its pod is not known yet"),
        Pod::Absent => Class::PodGone,
        Pod::Replaced | Pod::OnHost => Class::PodReplaced,
        Pod::There(life) if life.ended => Class::PodEnded,
        Pod::There(Life { deadline: None, .. }) => return Verdict::Keep("its pod is there"),
        Pod::There(Life { deadline: Some(deadline), .. }) if *deadline > now => {
            return Verdict::Keep("its pod is being deleted and has time left");
        }
        Pod::There(Life { runs: true, .. }) if facts.node == Node::Ready => {
            return Verdict::Keep("its pod should be gone, but a container of it still runs");
        }
        Pod::There(_) => Class::PodStuck,
    };
    match facts.node {
        Node::Unknown => Verdict::Keep("its node is not known yet"),
        Node::Ready => Verdict::Free(on_a_ready_node),
        Node::Silent => Verdict::Free(Class::NodeSilent),
        Node::OutOfService => Verdict::Free(Class::NodeOutOfService),
        Node::Gone => Verdict::Free(Class::NodeGone),
    }
}

#[cfg(test)]
mod tests;
