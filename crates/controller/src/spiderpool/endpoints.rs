//! A SpiderEndpoint for each pod that has an address of a SpiderIPPool, under the name of the pod, or of the virtual machine
//! that keeps its address from pod to pod. It is made out of blocks when the pod has been answered already, and follows
//! them; a pod that was not told apart from another of its name gets none.

use super::behind::{Behind, has};
use crate::effects::{Answer, OnlyIf, Verb, Write, Writer};
use crate::facts::{EndpointRecord, PodFacts, SpiderMirrors};
use crate::index::Index;
use crate::world::World;
use berth_core::block::{Block, BlockKey, Plane, State};
use berth_core::ipam::{Ipam, Outcome};
use berth_core::reclaim::Pod;
use berth_dialects::native::pod::DefaultRoute;
use berth_dialects::spiderpool::endpoint::{Current, EndpointStatus, Interface, raise};
use berth_dialects::spiderpool::{ENDPOINT, POOL};
use berth_kube::objects::resource_of;
use berth_kube::watch::Key;
use kube::api::{Api, DynamicObject};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many are written in one round: statuses are not to wait for all pods of a cluster that starts.
const AT_ONCE: usize = 200;

/// The writer of endpoints.
#[derive(Default)]
pub(super) struct Endpoints {
    index: Index,
    /// Pods whose endpoint may have to be another.
    due: BTreeSet<Key>,
}

/// What a pod has of Spiderpool's pools.
#[derive(Default)]
struct Held {
    uid: String,
    node: String,
    /// The pod; `None` if it is not there.
    facts: Option<Arc<PodFacts>>,
    /// In use: where, by interface.
    interfaces: BTreeMap<String, Vec<(Plane, u128)>>,
    /// Whether something is kept for it while it is away.
    kept: bool,
    /// Whether something will be kept for it.
    stays: bool,
}

impl Endpoints {
    /// These are to be looked at.
    pub(super) fn look_at(&mut self, pods: impl IntoIterator<Item = Key>) {
        self.due.extend(pods);
    }

    /// Everything is to be looked at.
    pub(super) fn look_at_all(&mut self, ipam: &Ipam, mirrors: &SpiderMirrors) {
        self.take_in(ipam, ipam.blocks().map(|(key, _)| key));
        self.due.extend(mirrors.endpoints.with(|all| all.keys().cloned().collect::<Vec<_>>()));
    }

    /// Takes in blocks that have changed: who has something there, or had, is to be looked at.
    pub(super) fn take_in<'a>(&mut self, ipam: &Ipam, blocks: impl IntoIterator<Item = &'a BlockKey>) {
        let own = |key: &&BlockKey| key.plane.leases_of().is_none();
        for key in blocks.into_iter().filter(own) {
            self.due.extend(self.index.pods_in(key).map(|(namespace, name)| Key::new(namespace, name)));
            self.index.put(key, ipam.block(key));
            self.due.extend(self.index.pods_in(key).map(|(namespace, name)| Key::new(namespace, name)));
        }
    }

    /// Makes, changes and removes endpoints until they say what blocks say. What could not be written, and what is too
    /// much for one round, is done in the next.
    pub(super) fn bring_up_to_date(&mut self, world: &World, mirrors: &SpiderMirrors, writer: &Writer) {
        let facts = |namespace: &str, name: &str| world.mirrors.pods.get(namespace, name);
        let mut written = 0;
        for pod in std::mem::take(&mut self.due) {
            if written == AT_ONCE {
                self.due.insert(pod);
                continue;
            }
            let known = mirrors.endpoints.get(&pod.namespace, &pod.name);
            let Some(write) = world.engine.read(|ipam| {
                let held = self.held(ipam, &pod, facts);
                decide(&pod, known.as_deref(), status(ipam, &pod, &held), held.kept, facts)
            }) else {
                continue;
            };
            written += 1;
            if write.verb == Verb::Delete && !known.as_deref().is_some_and(|known| self.is_left(world, &pod, known)) {
                continue;
            }
            match writer.carry_out(&write) {
                // Somebody was quicker; what is so now is looked at in the next round.
                Answer::Done | Answer::Overtaken => {}
                Answer::Refused | Answer::Failed => drop(self.due.insert(pod)),
            }
        }
    }

    /// Whether the server says too that nothing stands behind an endpoint: watches may be behind. If it does not, they tell
    /// of what does sooner or later; if it cannot be asked, it is in the next round.
    fn is_left(&mut self, world: &World, pod: &Key, known: &EndpointRecord) -> bool {
        let behind = Behind::ask(world, pod, &known.status);
        if behind.as_ref().map_or(true, |behind| matches!(behind.pod, Pod::Unknown)) {
            self.due.insert(pod.clone());
        }
        behind.is_ok_and(|behind| behind.is_nothing())
    }

    /// Whether any block speaks of a pod of this name.
    pub(super) fn knows(&self, ipam: &Ipam, pod: &Key) -> bool {
        self.index.of_pod(&pod.namespace, &pod.name).any(|key| has(ipam, key, pod))
    }

    /// What the pod has that is there now; an earlier one of its name may not have given back everything yet.
    fn held(&self, ipam: &Ipam, pod: &Key, pods: impl Fn(&str, &str) -> Option<Arc<PodFacts>>) -> Held {
        let mut out = Held::default();
        let Key { namespace, name } = pod;
        let blocks: BTreeSet<&BlockKey> =
            self.index.of_pod(namespace, name).chain(self.index.of_machine(namespace, name)).collect();
        for key in blocks {
            let slots = ipam.block(key).into_iter().flat_map(Block::slots);
            for (slot, view) in slots.filter(|(_, view)| matches!(view.state, State::Active | State::Held)) {
                let Some(holder) = view.holder() else { continue };
                let mut pools = ipam.pools_of(key, slot).into_iter().filter_map(|name| ipam.pool(&name));
                let is_own = holder.namespace == *namespace && holder.lasting_name() == name;
                if !is_own || !pools.any(|pool| pool.object == POOL) {
                    continue;
                }
                if view.state == State::Held {
                    out.kept = true;
                    continue;
                }
                // The pod may be known a moment later than what it has; the machine's endpoint is not to go meanwhile.
                out.kept |= holder.machine().is_some();
                let Some(facts) =
                    pods(namespace, &holder.pod).filter(|facts| matches!(facts.seen_by(&holder.uid), Pod::There(_)))
                else {
                    continue;
                };
                out.stays |= facts.of_set || holder.machine().is_some();
                (out.uid, out.node, out.facts) = (holder.uid, holder.node, Some(facts));
                out.interfaces.entry(holder.ifname).or_default().push((key.plane.clone(), key.unit(slot)));
            }
        }
        out
    }
}

pub(super) fn api(world: &World, pod: &Key) -> Api<DynamicObject> {
    Api::namespaced_with(world.cluster.client().clone(), &pod.namespace, &resource_of(ENDPOINT))
}

/// What is to be done about the endpoint of a pod: `wanted` is what it is to say and whether it outlives the pod, `kept`
/// whether something is kept for the pod while it is away.
fn decide(
    pod: &Key,
    known: Option<&EndpointRecord>,
    wanted: Option<(EndpointStatus, bool)>,
    kept: bool,
    pods: impl Fn(&str, &str) -> Option<Arc<PodFacts>>,
) -> Option<Write> {
    let mut only_if = OnlyIf::default();
    let verb = match (wanted, known) {
        (Some((status, _)), Some(known)) if known.status == status => return None,
        (Some((status, stays)), known) => {
            let object = raise(&pod.namespace, &pod.name, &status, !stays);
            match known {
                Some(_) => Verb::Patch(json!({ "metadata": object["metadata"], "status": object["status"] })),
                None => Verb::Create(object),
            }
        }
        (None, Some(known)) => {
            let uid = &known.status.current.uid;
            let lives = pods(&pod.namespace, &pod.name).is_some_and(|pod| matches!(pod.seen_by(uid), Pod::There(_)));
            if !known.own || lives || kept {
                return None;
            }
            only_if.uid = Some(known.uid.clone());
            Verb::Delete
        }
        (None, None) => return None,
    };
    Some(Write { kind: ENDPOINT, key: pod.clone(), only_if, verb, news: Vec::new() })
}

/// What the endpoint of a pod is to say, and whether it outlives the pod; `None` if the pod has nothing.
fn status(ipam: &Ipam, name: &Key, held: &Held) -> Option<(EndpointStatus, bool)> {
    let pod = held.facts.as_ref()?;
    let (kind, owner) = pod.controller.clone().unwrap_or_else(|| ("Pod".to_owned(), name.name.clone()));
    let told: BTreeMap<&str, Outcome> =
        held.interfaces.iter().map(|(ifname, own)| (ifname.as_str(), ipam.tell(own))).collect();
    let interface = |(&ifname, outcome): (&&str, &Outcome)| {
        let (mut outcome, routes) = (outcome.clone(), pod.routes(ifname));
        routes.apply(&mut outcome, &pod.networks_before(ifname, told.iter().map(|(name, told)| (*name, told))));
        let clean = (routes.default == DefaultRoute::Elsewhere).then_some(true);
        Interface { clean_gateway: clean, ..Interface::of(ifname.to_owned(), &outcome) }
    };
    let ips = told.iter().map(interface).collect();
    let current = Current { uid: held.uid.clone(), node: held.node.clone(), ips };
    Some((EndpointStatus { current, owner_controller_type: kind, owner_controller_name: owner }, held.stays))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::holder::{Holder, Sticky};
    use berth_core::time::Time;
    use berth_dialects::{Object, lower_all};
    use serde_json::Value;

    const NOW: Time = Time::from_secs(1_800_000_000);

    fn ipam() -> Ipam {
        let object: Object = serde_json::from_value(json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": POOL, "metadata": {"name": "a"},
            "spec": {"subnet": "10.0.0.0/24", "ips": ["10.0.0.5-10.0.0.9"]},
        }))
        .unwrap();
        let mut ipam = Ipam::new();
        ipam.configure(lower_all([&object]).unwrap());
        ipam
    }

    fn holder(uid: &str, kept: bool) -> Holder {
        let sticky = kept.then(|| Sticky { identity: Sticky::of_pod("web", "db-0", "eth0"), keep: None });
        let [id, ifname, namespace, pod] = ["c1", "eth0", "web", "db-0"].map(str::to_owned);
        Holder { id, ifname, namespace, pod, uid: uid.to_owned(), node: "n1".to_owned(), sticky, ..Holder::default() }
    }

    fn pod() -> Key {
        Key::new("web", "db-0")
    }

    /// What is decided if the pod of this UID is there, if any.
    fn decided(ipam: &Ipam, there: Option<&str>, known: Option<&EndpointRecord>) -> Option<Write> {
        let facts = |_: &str, name: &str| {
            let uid = there.filter(|_| name == "db-0")?;
            let object = serde_json::from_value(json!({"metadata": {"namespace": "web", "name": name, "uid": uid}}));
            Some(Arc::new(PodFacts::read(&object.unwrap())))
        };
        let mut endpoints = Endpoints::default();
        endpoints.take_in(ipam, ipam.blocks().map(|(key, _)| key));
        let held = endpoints.held(ipam, &pod(), facts);
        decide(&pod(), known, status(ipam, &pod(), &held), held.kept, facts)
    }

    fn in_use(uid: &str) -> Ipam {
        let mut ipam = ipam();
        let plane = ipam.pool("a").unwrap().plane();
        ipam.recognise(&plane, "10.0.0.5".parse().unwrap(), holder(uid, false), NOW).unwrap();
        ipam
    }

    fn record(own: bool, status: &Value) -> EndpointRecord {
        let status = serde_json::from_value(status.clone()).unwrap();
        EndpointRecord { uid: "e1".to_owned(), own, status }
    }

    #[test]
    fn an_endpoint_is_made_changed_and_then_left_alone() {
        let ipam = in_use("u1");
        let made = decided(&ipam, Some("u1"), None).unwrap();
        assert_eq!((made.kind, &made.key), (ENDPOINT, &pod()));
        let Verb::Create(object) = made.verb else { panic!("{:?}", made.verb) };
        assert_eq!(object["status"]["current"]["uid"], "u1");
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "u1");
        assert_eq!(decided(&ipam, Some("u1"), Some(&record(true, &object["status"]))), None);
        // What another left under the name becomes what the blocks say.
        let changed = decided(&ipam, Some("u1"), Some(&EndpointRecord::default())).unwrap();
        let patch = json!({ "metadata": object["metadata"], "status": object["status"] });
        assert_eq!(changed.verb, Verb::Patch(patch));
        assert_eq!(decided(&ipam, Some("u2"), None), None, "another pod of the name is there");
    }

    #[test]
    fn an_endpoint_goes_if_it_is_our_own_and_nothing_is_left_of_the_pod() {
        let Some(Write { verb: Verb::Create(object), .. }) = decided(&in_use("u1"), Some("u1"), None) else {
            panic!("nothing is made")
        };
        let own = record(true, &object["status"]);
        let gone = decided(&ipam(), None, Some(&own)).unwrap();
        assert_eq!((gone.verb, gone.only_if.uid.as_deref()), (Verb::Delete, Some("e1")));
        assert!(decided(&ipam(), Some("u2"), Some(&own)).is_some(), "another pod of the name keeps nothing");
        assert_eq!(decided(&ipam(), Some("u1"), Some(&own)), None, "the pod is alive");
        assert_eq!(decided(&ipam(), None, Some(&record(false, &object["status"]))), None, "it is another's");
        assert_eq!(decided(&ipam(), None, None), None);
        let mut kept = ipam();
        let plane = kept.pool("a").unwrap().plane();
        kept.hold(&plane, "10.0.0.5".parse().unwrap(), holder("", true), NOW).unwrap();
        assert_eq!(decided(&kept, None, Some(&own)), None, "its address is kept for it");
    }
}
