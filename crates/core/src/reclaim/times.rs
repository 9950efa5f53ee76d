//! Why an address comes back that nobody gave back, and after how long.

use std::time::Duration;

/// Why an address may come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Its pod is gone, and nobody said DEL.
    PodGone,
    /// Another pod has the name of its pod.
    PodReplaced,
    /// Its pod has succeeded or failed, e.g. was evicted.
    PodEnded,
    /// Its pod was to be gone long ago, and no container of it runs.
    PodStuck,
    /// Its pod is gone, has ended or should be gone, on a node that does not answer.
    NodeSilent,
    /// The same on a node that somebody has taken out of service.
    NodeOutOfService,
    /// Its node is gone.
    NodeGone,
    /// It is kept for a pod of a StatefulSet or its like that has fewer replicas now, is gone, or needs none for it.
    NotComingBack,
    /// It is kept for a claim that is gone.
    ClaimGone,
    /// It was kept or set apart for a time, which is over.
    TimeOver,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 10] = [
        Self::PodGone,
        Self::PodReplaced,
        Self::PodEnded,
        Self::PodStuck,
        Self::NodeSilent,
        Self::NodeOutOfService,
        Self::NodeGone,
        Self::NotComingBack,
        Self::ClaimGone,
        Self::TimeOver,
    ];

    /// As options, metrics and events name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PodGone => "pod-gone",
            Self::PodReplaced => "pod-replaced",
            Self::PodEnded => "pod-ended",
            Self::PodStuck => "pod-stuck",
            Self::NodeSilent => "node-silent",
            Self::NodeOutOfService => "node-out-of-service",
            Self::NodeGone => "node-gone",
            Self::NotComingBack => "not-coming-back",
            Self::ClaimGone => "claim-gone",
            Self::TimeOver => "time-over",
        }
    }

    /// The class of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// The same in a sentence, after "because".
    #[must_use]
    pub const fn because(self) -> &'static str {
        match self {
            Self::PodGone => "its pod is gone and nobody said DEL",
            Self::PodReplaced => "another pod has the name of its pod",
            Self::PodEnded => "its pod has ended",
            Self::PodStuck => "its pod should be gone and no container of it runs",
            Self::NodeSilent => "its pod is gone and its node does not answer",
            Self::NodeOutOfService => "its pod is gone and its node is out of service",
            Self::NodeGone => "its node is gone",
            Self::NotComingBack => "the pod it is kept for will not come back",
            Self::ClaimGone => "the claim it is kept for is gone",
            Self::TimeOver => "the time it was kept for is over",
        }
    }

    /// For how long it must have been so if nobody says otherwise; `None` is never.
    #[must_use]
    pub fn usual(self) -> Option<Duration> {
        let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
        match self {
            // The node's agent frees these after a minute. This is for when it cannot.
            Self::PodGone | Self::PodReplaced | Self::PodEnded | Self::PodStuck => minutes(5),
            // What runs on a node that nobody hears goes on running.
            Self::NodeSilent => None,
            Self::NodeGone => minutes(1),
            Self::NotComingBack => minutes(10),
            Self::NodeOutOfService | Self::ClaimGone | Self::TimeOver => Some(Duration::ZERO),
        }
    }
}

/// For how long each class must have been so before an address comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times([Option<Duration>; Class::ALL.len()]);

impl Default for Times {
    fn default() -> Self {
        Self(Class::ALL.map(Class::usual))
    }
}

impl Times {
    /// For how long; `None` is never.
    #[must_use]
    pub const fn of(&self, class: Class) -> Option<Duration> {
        self.0[class as usize]
    }

    /// Says it for one class.
    pub const fn set(&mut self, class: Class, time: Option<Duration>) {
        self.0[class as usize] = time;
    }
}
