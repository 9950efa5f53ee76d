//! Whatever the clock does, what is served verifies against what was published.

use super::{Certificates, Seconds, Step, Terms};
use proptest::prelude::*;
use std::time::Duration;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};

const TERMS: Terms = Terms { authority: 3_000, serving: 700, overlap: 60, skew: 30 };
/// How far API servers and replicas lag behind.
const LAG: Seconds = 45;
const START: Seconds = 1_800_000_000;

fn names() -> Vec<String> {
    vec!["berth.berth-system.svc".to_owned(), "127.0.0.1".to_owned()]
}

/// As an API server verifies, with its clock at `now`.
fn verify(served: &str, bundle: &str, now: Seconds) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(root.unwrap()).unwrap();
    }
    let provider = ring::default_provider().into();
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
    let served = CertificateDer::from_pem_slice(served.as_bytes()).unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
    for name in names() {
        let name = ServerName::try_from(name).unwrap();
        verifier.verify_server_cert(&served, &[], &name, &[], now).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The values that something had, and when it got each.
#[derive(Default)]
struct History(Vec<(Seconds, String)>);

impl History {
    fn set(&mut self, now: Seconds, value: &str) {
        if self.0.last().is_none_or(|(_, last)| last != value) {
            self.0.push((now, value.to_owned()));
        }
    }

    /// What it was at any time since then.
    fn since(&self, then: Seconds) -> &[(Seconds, String)] {
        let current = self.0.iter().rposition(|(at, _)| *at <= then).unwrap_or(0);
        &self.0[current..]
    }
}

struct World {
    now: Seconds,
    stored: Certificates,
    bundles: History,
    served: History,
}

impl World {
    fn new() -> Self {
        Self { now: START, stored: Certificates::default(), bundles: History::default(), served: History::default() }
    }

    /// One turn of whoever keeps the certificates.
    fn turn(&mut self, publishes: bool) {
        let published = self.bundles.0.last().is_some_and(|(_, last)| *last == self.stored.bundle());
        self.stored = self.stored.clone().settle(self.now, published, &names(), &TERMS).unwrap();
        // Nobody serves before there is something to verify it against.
        if publishes || self.bundles.0.is_empty() {
            self.bundles.set(self.now, &self.stored.bundle());
        }
        self.served.set(self.now, &self.stored.serving.as_ref().unwrap().pair.certificate);
    }

    /// `lag`: how far replicas lag behind.
    fn check(&self, lag: Seconds) {
        for (_, served) in self.served.since(self.now - lag) {
            for (_, bundle) in self.bundles.since(self.now - LAG) {
                let at = self.now;
                verify(served, bundle, self.now).unwrap_or_else(|error| panic!("{error} at {at}: {:?}", self.stored));
            }
        }
        assert!(self.stored.authorities.len() <= 3, "{:?}", self.stored);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn what_is_served_verifies_against_what_was_published_lately(
        turns in prop::collection::vec((1u64..40, prop::bool::weighted(0.8), prop::bool::weighted(0.7)), 300..400),
    ) {
        let mut world = World::new();
        world.turn(true);
        for (wait, keeper_runs, publishes) in turns {
            world.now += wait;
            if keeper_runs {
                world.turn(publishes);
            }
            world.check(LAG);
        }
        prop_assert!(world.bundles.0.len() > 3, "authorities came and went");
    }

    #[test]
    fn after_a_jump_of_the_clock_one_turn_mends_all(
        jumps in prop::collection::vec((any::<bool>(), 0u64..20_000), 1..6),
    ) {
        let mut world = World::new();
        world.turn(true);
        for (back, far) in jumps {
            world.now = if back { world.now - far } else { world.now + far };
            // What was before the jump is not lately.
            world.bundles.0.drain(..world.bundles.0.len() - 1);
            world.served.0.clear();
            world.turn(true);
            let (served, bundle) = (&world.served.0[0].1, &world.bundles.0.last().unwrap().1);
            verify(served, bundle, world.now).unwrap();
            // And from there on it goes as ever.
            world.bundles.0.drain(..world.bundles.0.len() - 1);
            world.bundles.0[0].0 = 0;
            for _ in 0..20 {
                world.now += 20;
                world.turn(true);
                // A jump may end shortly before a life does; then who lags shows what is over.
                world.check(0);
            }
        }
    }
}

#[test]
fn a_new_authority_signs_only_once_its_bundle_was_published_for_an_overlap() {
    let mut world = World::new();
    world.turn(true);
    let signed_by = |world: &World| world.stored.serving.as_ref().unwrap().by;
    world.now += 2_100;
    // It is made, but API servers cannot be told of it.
    world.turn(false);
    assert_eq!((world.stored.authorities.len(), signed_by(&world)), (2, 1));
    world.now += 500;
    world.turn(false);
    assert_eq!(signed_by(&world), 1);
    world.turn(true);
    world.turn(true);
    world.now += 59;
    world.turn(true);
    assert_eq!(signed_by(&world), 1);
    world.now += 1;
    world.turn(true);
    assert_eq!((world.stored.authorities.len(), signed_by(&world)), (2, 2));
    world.now += 59;
    world.turn(true);
    assert_eq!(world.stored.authorities.len(), 2, "replicas may still show what the old one signed");
    world.now += 1;
    world.turn(true);
    assert_eq!(world.stored.authorities.len(), 1);
    world.turn(true);
    assert_eq!(world.stored.next(world.now, true, &names(), &TERMS), None);
    let other = [names(), vec!["other".to_owned()]].concat();
    assert_eq!(world.stored.next(world.now, true, &other, &TERMS), Some(Step::Sign(2)), "its names changed");
}

#[test]
fn what_is_stored_is_read_back_and_keys_are_not_printed() {
    let made = Certificates::default().settle(START, false, &names(), &TERMS).unwrap();
    let json = serde_json::to_vec(&made).unwrap();
    assert_eq!(serde_json::from_slice::<Certificates>(&json).unwrap(), made);
    assert!(!format!("{made:?}").contains("PRIVATE"));
    assert!(!made.bundle().contains("PRIVATE"));
}
