//! Events on the objects concerned: what people see with `kubectl describe`.

use berth_dialects::kinds;
use berth_kube::Cluster;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tracing::debug;

/// The longest note that the API server takes.
const LONGEST: usize = 1000;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Addresses came back that nobody gave back.
    Reclaimed,
    /// A node is gone, and so is its lease.
    LeaseEnded,
    /// A pool has nothing left.
    Exhausted,
    /// An object is to be deleted and is still in use.
    InUse,
    /// Addresses of a pool are in use by strangers.
    Conflict,
    /// An object contradicts an older one, or itself.
    NotAccepted,
    /// A claim has its addresses.
    Bound,
    /// A claim cannot have what it asks for.
    NotBound,
}

impl Reason {
    const fn name(self) -> &'static str {
        match self {
            Self::Reclaimed => "AddressesReclaimed",
            Self::LeaseEnded => "LeaseEnded",
            Self::Exhausted => "PoolExhausted",
            Self::InUse => "StillInUse",
            Self::Conflict => "AddressConflict",
            Self::NotAccepted => "NotAccepted",
            Self::Bound => "Bound",
            Self::NotBound => "NotBound",
        }
    }

    const fn is_warning(self) -> bool {
        !matches!(self, Self::Reclaimed | Self::LeaseEnded | Self::Bound)
    }
}

/// Where events go.
#[derive(Clone)]
pub(crate) struct Events {
    cluster: Cluster,
    recorder: Recorder,
}

impl Events {
    pub(crate) fn new(cluster: &Cluster, replica: &str) -> Self {
        let reporter = Reporter { controller: "berth-controller".to_owned(), instance: Some(replica.to_owned()) };
        Self { cluster: cluster.clone(), recorder: Recorder::new(cluster.client().clone(), reporter) }
    }

    /// Tells of a pool.
    pub(crate) fn pool(&self, name: &str, reason: Reason, note: String) {
        self.tell(object("IPPool", None, name, None), reason, note);
    }

    /// Tells of any object of Berth's.
    pub(crate) fn tell(&self, about: ObjectReference, reason: Reason, note: String) {
        self.raw(about, reason.is_warning(), reason.name(), note);
    }

    /// Tells of any object. Nobody waits for it, and one that is lost is lost.
    pub(crate) fn raw(&self, about: ObjectReference, warning: bool, reason: &str, mut note: String) {
        if note.len() > LONGEST {
            let cut = (0..=LONGEST).rev().find(|&at| note.is_char_boundary(at)).unwrap_or(0);
            note.truncate(cut);
            note.push('…');
        }
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(note),
            action: reason.to_owned(),
            secondary: None,
        };
        let recorder = self.recorder.clone();
        self.cluster.spawn(async move {
            if let Err(error) = recorder.publish(&event, &about).await {
                debug!(%error, "an event could not be told");
            }
        });
    }
}

/// A reference to an object that Berth knows the kind of.
pub(crate) fn object(kind: &str, namespace: Option<&str>, name: &str, uid: Option<&str>) -> ObjectReference {
    ObjectReference {
        api_version: kinds::find(kind).map(|info| info.api_version().to_owned()),
        kind: Some(kind.to_owned()),
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        uid: uid.map(str::to_owned),
        ..ObjectReference::default()
    }
}
