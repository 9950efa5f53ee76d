//! What a reconcile wants to be written, as a value, and the one place where it is.
//!
//! Whoever decides takes what is known and returns [`Write`]s, and so can be tested without a server. Whoever carries
//! them out learns by the [`Answer`] whether there is anything to look at again.

use crate::events::{Events, Reason, object};
use berth_kube::Cluster;
use berth_kube::connect::CallError;
use berth_kube::objects::resource_of;
use berth_kube::watch::Key;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};
use tracing::debug;

/// A write of one object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    pub(crate) kind: &'static str,
    pub(crate) key: Key,
    pub(crate) only_if: OnlyIf,
    pub(crate) verb: Verb,
    /// What people are told about the object when it is done.
    pub(crate) news: Vec<(Reason, String)>,
}

/// What an object must still be for a write to happen; what is absent may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OnlyIf {
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
}

/// What is done to an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verb {
    /// It is made, all of it.
    Create(Value),
    /// It is changed, by a merge patch.
    Patch(Value),
    /// The same of its status, by way of the subresource; this is the status alone.
    PatchStatus(Value),
    /// It goes.
    Delete,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    /// The object is gone, is another, or is there already. What is so now is told by a watch.
    Overtaken,
    /// The server finds that it makes no sense; also the UID of another object.
    Refused,
    /// Nobody knows, or not now.
    Failed,
}

impl Answer {
    const fn of(failure: Option<u16>) -> Self {
        match failure {
            Some(404 | 409) => Self::Overtaken,
            Some(422) => Self::Refused,
            _ => Self::Failed,
        }
    }

    /// Whether there is nothing to try again.
    pub(crate) const fn is_settled(self) -> bool {
        !matches!(self, Self::Failed)
    }
}

/// Who carries writes out.
#[derive(Clone)]
pub(crate) struct Writer {
    cluster: Cluster,
    events: Events,
}

impl Writer {
    pub(crate) fn new(cluster: &Cluster, events: Events) -> Self {
        Self { cluster: cluster.clone(), events }
    }

    /// Carries one out, and tells what there is to tell.
    pub(crate) fn carry_out(&self, write: &Write) -> Answer {
        if let Err(error) = self.send(write) {
            let answer = Answer::of(error.status());
            if answer != Answer::Overtaken {
                debug!(%error, kind = write.kind, object = %write.key, "could not be written");
            }
            return answer;
        }
        for (reason, note) in &write.news {
            self.tell(write.kind, &write.key, write.only_if.uid.as_deref(), *reason, note.clone());
        }
        Answer::Done
    }

    /// Tells people about an object.
    pub(crate) fn tell(&self, kind: &str, key: &Key, uid: Option<&str>, reason: Reason, note: String) {
        let namespace = Some(key.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        self.events.tell(object(kind, namespace, &key.name, uid), reason, note);
    }

    fn send(&self, write: &Write) -> Result<(), CallError> {
        let (client, resource, name) = (self.cluster.client().clone(), resource_of(write.kind), &write.key.name);
        let api: Api<DynamicObject> = match write.key.namespace.as_str() {
            "" => Api::all_with(client, &resource),
            namespace => Api::namespaced_with(client, namespace, &resource),
        };
        let params = PatchParams::default();
        match &write.verb {
            Verb::Create(whole) => {
                let unreadable = |error| CallError::Failed(Box::new(kube::Error::SerdeError(error)));
                let made: DynamicObject = serde_json::from_value(whole.clone()).map_err(unreadable)?;
                self.cluster.wait(api.create(&PostParams::default(), &made)).map(drop)
            }
            Verb::Patch(patch) => {
                let patch = Patch::Merge(write.only_if.put_into(patch.clone()));
                self.cluster.wait(api.patch(name, &params, &patch)).map(drop)
            }
            Verb::PatchStatus(status) => {
                let patch = Patch::Merge(write.only_if.put_into(json!({ "status": status })));
                self.cluster.wait(api.patch_status(name, &params, &patch)).map(drop)
            }
            Verb::Delete => self.cluster.wait(api.delete(name, &write.only_if.of_deletion())).map(drop),
        }
    }
}

impl OnlyIf {
    /// A patch that says so.
    fn put_into(&self, mut patch: Value) -> Value {
        for (field, wanted) in [("uid", &self.uid), ("resourceVersion", &self.version)] {
            if let Some(wanted) = wanted {
                patch["metadata"][field] = json!(wanted);
            }
        }
        patch
    }

    fn of_deletion(&self) -> DeleteParams {
        let only_if = Preconditions { uid: self.uid.clone(), resource_version: self.version.clone() };
        DeleteParams { preconditions: (*self != Self::default()).then_some(only_if), ..DeleteParams::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_did_meanwhile_is_not_tried_again() {
        for (status, answer) in [
            (Some(404), Answer::Overtaken),
            (Some(409), Answer::Overtaken),
            (Some(422), Answer::Refused),
            (Some(403), Answer::Failed),
            (Some(500), Answer::Failed),
            (None, Answer::Failed),
        ] {
            assert_eq!(Answer::of(status), answer, "{status:?}");
            assert_eq!(answer.is_settled(), answer != Answer::Failed);
        }
    }

    #[test]
    fn what_an_object_must_be_is_part_of_what_is_sent() {
        let only_if = OnlyIf { uid: Some("u".to_owned()), version: Some("7".to_owned()) };
        let patch = only_if.put_into(json!({"metadata": {"finalizers": []}, "status": {}}));
        assert_eq!(patch, json!({"metadata": {"finalizers": [], "uid": "u", "resourceVersion": "7"}, "status": {}}));
        assert_eq!(only_if.of_deletion().preconditions.unwrap().uid.as_deref(), Some("u"));
        let anything = OnlyIf::default();
        assert_eq!(anything.put_into(json!({"status": {}})), json!({"status": {}}));
        assert!(anything.of_deletion().preconditions.is_none());
    }
}
