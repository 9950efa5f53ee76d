//! What becomes of an object that is kept while it is in use: pure.

use super::RESERVATION;
use crate::effects::{OnlyIf, Verb, Write};
use crate::facts::Record;
use berth_core::error::Error;
use berth_core::ipam::{Config, Ipam};
use berth_kube::watch::Key;
use serde_json::json;

/// How many pools are named that keep a subnet.
const NAMED: usize = 5;

/// An object, as a watch tells of it.
pub(super) struct Guarded<'a> {
    pub(super) kind: &'static str,
    /// What keeps it.
    pub(super) finalizer: &'static str,
    pub(super) key: &'a Key,
    pub(super) record: &'a Record,
}

/// What the server itself has said; nothing, before it is asked.
#[derive(Default)]
pub(super) struct Said {
    /// Whether all blocks that it has are known.
    pub(super) blocks: bool,
    /// What its pools and subnets come to.
    pub(super) config: Option<Config>,
}

/// What is to be done about an object.
#[derive(Debug, PartialEq)]
pub(super) enum Effect {
    /// The finalizer is put on.
    Keep(Write),
    /// The finalizer is taken off.
    LetGo(Write),
    /// It was to be gone; this is who holds it up, in words.
    Remind(String),
    /// Nobody holds it up, as far as is known here; the server is to say so itself.
    Ask,
}

/// What is to be done about an object. Watches are believed of whoever uses it; that nobody does, only the server is.
pub(super) fn decide(ipam: &Ipam, object: &Guarded<'_>, said: &Said) -> Option<Effect> {
    let is_on = object.record.finalizers.iter().any(|own| own == object.finalizer);
    match (object.record.going, is_on) {
        (false, false) => Some(Effect::Keep(write(object, true))),
        (true, true) => {
            let (kind, name) = (object.kind, &object.key.name);
            // Objects are followed twice, with their specs and without: of its spec nothing may have been heard yet.
            let unheard = || said.config.as_ref().and_then(|config| users(ipam, config, kind, name));
            let sure = said.config.is_some() && (said.blocks || is_subnet(kind));
            Some(match users(ipam, ipam.config(), kind, name).or_else(unheard) {
                Some(users) => Effect::Remind(users),
                None if sure => Effect::LetGo(write(object, false)),
                None => Effect::Ask,
            })
        }
        // It is kept already, or nobody asked for it to be kept in time.
        (false, true) | (true, false) => None,
    }
}

/// Puts the finalizer on or takes it off, if the object is what it was.
fn write(object: &Guarded<'_>, on: bool) -> Write {
    let others = object.record.finalizers.iter().map(String::as_str).filter(|own| *own != object.finalizer);
    let finalizers: Vec<&str> = others.chain(on.then_some(object.finalizer)).collect();
    Write {
        kind: object.kind,
        key: object.key.clone(),
        only_if: OnlyIf { uid: None, version: Some(object.record.version.clone()) },
        verb: Verb::Patch(json!({ "metadata": { "finalizers": finalizers } })),
        news: Vec::new(),
    }
}

fn is_subnet(kind: &str) -> bool {
    kind.ends_with("Subnet")
}

/// The pools that are cut from a subnet, in words; `None` if there are none.
fn pools_of(config: &Config, subnet: &str) -> Option<String> {
    let own = config.pools.values().filter(|pool| pool.subnet.as_deref() == Some(subnet));
    let pools: Vec<&str> = own.map(|pool| pool.name.as_str()).take(NAMED).collect();
    (!pools.is_empty()).then(|| format!("pools are cut from it: {}", pools.join(", ")))
}

/// Who uses an object of a configuration, in words; `None` if nobody does.
fn users(ipam: &Ipam, config: &Config, kind: &str, name: &str) -> Option<String> {
    if is_subnet(kind) {
        return pools_of(config, name);
    }
    if kind == RESERVATION {
        return in_words(ipam.frees(config.reservations.get(name)?, kind));
    }
    let pool = config.pools.get(name)?;
    let mut without: Config = config.clone();
    without.pools.remove(name);
    in_words(ipam.keeps(pool, pool.subnet.as_ref().and_then(|subnet| config.subnets.get(subnet)), &without))
}

fn in_words(free: Result<(), Error>) -> Option<String> {
    match free {
        Err(Error::InUse { holders, .. }) => Some(format!("in use: {holders}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::FINALIZER;
    use berth_core::holder::Holder;
    use berth_core::model::{POOL_OBJECT, SUBNET_OBJECT};
    use berth_core::time::Time;
    use berth_dialects::{Object, lower_all, spiderpool};
    use serde_json::Value;

    fn config(objects: &[(&str, &str, Value)]) -> Config {
        let object = |(kind, name, spec): &(&str, &str, Value)| -> Object {
            let spider = "spiderpool.spidernet.io/v2beta1";
            let version = if kind.starts_with("Spider") { spider } else { "berth.io/v1alpha1" };
            let value = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec});
            serde_json::from_value(value).unwrap()
        };
        lower_all(&objects.iter().map(object).collect::<Vec<_>>()).unwrap()
    }

    fn subnet() -> (&'static str, &'static str, Value) {
        (SUBNET_OBJECT, "s", json!({"cidr": "10.0.0.0/24"}))
    }

    fn pool() -> (&'static str, &'static str, Value) {
        (POOL_OBJECT, "p", json!({"subnet": "s", "ranges": ["10.0.0.10-10.0.0.19"]}))
    }

    fn ipam(objects: &[(&str, &str, Value)]) -> Ipam {
        let mut ipam = Ipam::new();
        ipam.configure(config(objects));
        ipam
    }

    fn record(going: bool, finalizers: &[&str]) -> Record {
        let finalizers = finalizers.iter().map(|own| (*own).to_owned()).collect();
        Record { version: "7".to_owned(), going, finalizers, ..Record::default() }
    }

    fn decided(ipam: &Ipam, kind: &'static str, name: &str, record: &Record, said: &Said) -> Option<Effect> {
        let key = Key::new("", name);
        decide(ipam, &Guarded { kind, finalizer: FINALIZER, key: &key, record }, said)
    }

    fn finalizers(write: &Write) -> &Value {
        assert_eq!(write.only_if, OnlyIf { uid: None, version: Some("7".to_owned()) });
        let Verb::Patch(patch) = &write.verb else { panic!("{:?}", write.verb) };
        &patch["metadata"]["finalizers"]
    }

    fn everything(config: Config) -> Said {
        Said { blocks: true, config: Some(config) }
    }

    #[test]
    fn a_finalizer_is_put_on_what_lacks_it_beside_those_of_others() {
        let (ipam, said) = (ipam(&[pool(), subnet()]), Said::default());
        for kind in [POOL_OBJECT, SUBNET_OBJECT, RESERVATION] {
            let Some(Effect::Keep(write)) = decided(&ipam, kind, "p", &record(false, &["mine"]), &said) else {
                panic!("{kind} is not kept")
            };
            assert_eq!((write.kind, finalizers(&write)), (kind, &json!(["mine", FINALIZER])));
            assert_eq!(decided(&ipam, kind, "p", &record(false, &["mine", FINALIZER]), &said), None);
            assert_eq!(decided(&ipam, kind, "p", &record(true, &["mine"]), &said), None, "others hold it up");
        }
    }

    #[test]
    fn a_pool_goes_when_surely_nothing_of_it_is_in_use() {
        let (mut ipam, going) = (ipam(&[pool(), subnet()]), record(true, &[FINALIZER, "mine"]));
        let decided = |ipam: &Ipam, said: &Said| decided(ipam, POOL_OBJECT, "p", &going, said);
        assert_eq!(decided(&ipam, &Said::default()), Some(Effect::Ask));
        let pools_alone = Said { blocks: false, ..everything(ipam.config().clone()) };
        assert_eq!(decided(&ipam, &pools_alone), Some(Effect::Ask), "blocks say what is in use");
        let blocks_alone = Said { blocks: true, config: None };
        assert_eq!(decided(&ipam, &blocks_alone), Some(Effect::Ask), "and the pool, of what");
        let all = everything(ipam.config().clone());
        let Some(Effect::LetGo(write)) = decided(&ipam, &all) else { panic!("it is kept") };
        assert_eq!(finalizers(&write), &json!(["mine"]));
        let [id, ifname, namespace, pod] = ["c1", "eth0", "web", "a"].map(str::to_owned);
        let holder = Holder { id, ifname, namespace, pod, ..Holder::default() };
        let plane = ipam.pool("p").unwrap().plane();
        ipam.recognise(&plane, "10.0.0.10".parse().unwrap(), holder, Time::from_secs(1)).unwrap();
        let in_use = |ipam: &Ipam, said: &Said| {
            let Some(Effect::Remind(users)) = decided(ipam, said) else { panic!("nobody is reminded") };
            assert!(users.starts_with("in use: 10.0.0.10 by "), "{users}");
        };
        in_use(&ipam, &Said::default());
        in_use(&ipam, &all);
        // Of the pool's spec nothing has been heard, but the server has it.
        ipam.configure(config(&[subnet()]));
        assert_eq!(decided(&ipam, &Said::default()), Some(Effect::Ask));
        in_use(&ipam, &all);
    }

    #[test]
    fn a_subnet_goes_when_the_server_has_no_pool_of_it_either() {
        let going = record(true, &[FINALIZER]);
        let decided = |ipam: &Ipam, said: &Said| decided(ipam, SUBNET_OBJECT, "s", &going, said);
        let named = || Some(Effect::Remind("pools are cut from it: p".to_owned()));
        assert_eq!(decided(&ipam(&[pool(), subnet()]), &everything(config(&[subnet()]))), named());
        let without = ipam(&[subnet()]);
        assert_eq!(decided(&without, &Said::default()), Some(Effect::Ask));
        assert_eq!(decided(&without, &Said { blocks: true, config: None }), Some(Effect::Ask));
        // Of this one the watch has not told yet.
        assert_eq!(decided(&without, &everything(config(&[pool(), subnet()]))), named());
        let within = (spiderpool::POOL, "p", json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.5"]}));
        assert_eq!(decided(&without, &everything(config(&[within, subnet()]))), named(), "it is in it, unsaid");
        let elsewhere = (POOL_OBJECT, "q", json!({"ranges": ["10.9.0.0/24"]}));
        let gone = decided(&without, &everything(config(&[elsewhere, subnet()])));
        assert!(matches!(gone, Some(Effect::LetGo(_))), "{gone:?}");
    }
}
