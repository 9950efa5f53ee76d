//! Requests at the agents' sockets. Every answer is checked: an address that somebody has is not given again.

use crate::world::{Node, Pod, ask};
use anyhow::{Result, anyhow, bail};
use berth_bench::rows::quantile;
use berth_wire::protocol::{self, AddRequest, Attachment, Op, Response};
use std::collections::BTreeSet;
use std::io::BufReader;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often a pod's ADD is tried again, and after how long; a kubelet has no end and begins with a second.
const PATIENCE: usize = 20;
const PAUSE: Duration = Duration::from_secs(1);

/// A container of a pod, with the address it has.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    pod: Pod,
    id: String,
    pub(crate) address: Option<IpAddr>,
}

impl Container {
    /// A container that was never seen before.
    pub(crate) fn new(pod: &Pod) -> Self {
        Self { pod: pod.clone(), id: Self::fresh_id(), address: None }
    }

    fn fresh_id() -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        format!("{:064x}", NEXT.fetch_add(1, Ordering::Relaxed))
    }

    fn attachment(&self) -> Attachment {
        Attachment { network: "bench".to_owned(), container: self.id.clone(), ifname: "eth0".to_owned() }
    }
}

/// One container for each of the first pods of each node.
pub(crate) fn containers(nodes: &[Node], each: usize) -> Vec<Vec<Container>> {
    nodes.iter().map(|node| node.pods.iter().take(each).map(Container::new).collect()).collect()
}

/// A container for one pod of each node.
pub(crate) fn one_each(nodes: &[Node], nth: usize) -> Vec<Vec<Container>> {
    nodes.iter().map(|node| node.pods.get(nth).map(Container::new).into_iter().collect()).collect()
}

/// Who has what, all nodes together.
#[derive(Default)]
pub(crate) struct Held(Mutex<BTreeSet<IpAddr>>);

impl Held {
    /// A copy.
    pub(crate) fn all(&self) -> BTreeSet<IpAddr> {
        lock(&self.0).clone()
    }

    /// ADD; `Ok(Err)` if the agent refused.
    pub(crate) fn add(
        &self,
        stream: &mut BufReader<UnixStream>,
        pool: &str,
        container: &mut Container,
    ) -> Result<Result<(), String>> {
        let Pod { name, uid } = container.pod.clone();
        let add = AddRequest {
            attachment: container.attachment(),
            pod: Some(protocol::Pod { namespace: "default".to_owned(), name, uid: Some(uid) }),
            domain: None,
            pools: vec![pool.to_owned()],
            addresses: Vec::new(),
            ranges: Vec::new(),
            families: Vec::new(),
            claim: None,
            uplink: None,
        };
        let result = match ask(stream, Op::Add(add))? {
            Response::Ok(result) => result,
            Response::Error(error) => return Ok(Err(format!("{error:?}"))),
            Response::Detect { .. } | Response::Done => bail!("ADD was answered as if it were not one"),
        };
        let [ip] = result.ips.as_slice() else { bail!("ADD gave {} addresses", result.ips.len()) };
        if !lock(&self.0).insert(ip.address) {
            bail!("{} was given out twice", ip.address);
        }
        container.address = Some(ip.address);
        Ok(Ok(()))
    }

    /// ADD as a kubelet does it: a container that got none is taken away, and after a while there is another. Why is
    /// added to `again` each time.
    fn add_patiently(
        &self,
        stream: &mut BufReader<UnixStream>,
        pool: &str,
        container: &mut Container,
        again: &mut Vec<String>,
    ) -> Result<Result<(), String>> {
        for tried in 0.. {
            let Err(error) = self.add(stream, pool, container)? else { break };
            self.del(stream, container)?.map_err(|error| anyhow!("DEL after a refused ADD: {error}"))?;
            if tried == PATIENCE {
                return Ok(Err(error));
            }
            again.push(error);
            thread::sleep(PAUSE);
            container.id = Container::fresh_id();
        }
        Ok(Ok(()))
    }

    /// DEL; `Ok(Err)` if the agent refused.
    pub(crate) fn del(
        &self,
        stream: &mut BufReader<UnixStream>,
        container: &mut Container,
    ) -> Result<Result<(), String>> {
        // Out of the set first: from the moment the agent has the request, another may get the address.
        if let Some(address) = container.address {
            lock(&self.0).remove(&address);
        }
        match ask(stream, Op::Del(container.attachment()))? {
            Response::Error(error) => {
                // Maybe it is free, maybe not: nobody knows before the DEL is tried again.
                Ok(Err(format!("{error:?}")))
            }
            _ => {
                container.address = None;
                Ok(Ok(()))
            }
        }
    }
}

/// What a round of requests came to.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) took: Duration,
    /// Nanoseconds of each, sorted.
    nanos: Vec<u64>,
    /// What ADDs were told that were tried again.
    pub(crate) again: Vec<String>,
    pub(crate) failed: Vec<String>,
}

impl Round {
    pub(crate) fn ok(&self) -> usize {
        self.nanos.len()
    }

    /// Takes in another's requests.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.nanos.extend(other.nanos);
        self.nanos.sort_unstable();
        self.again.extend(other.again);
        self.failed.extend(other.failed);
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.ok() as f64 / self.took.as_secs_f64()
    }

    /// Milliseconds at a share of the way.
    pub(crate) fn millis(&self, share: f64) -> f64 {
        quantile(&self.nanos, share) as f64 / 1e6
    }
}

/// What is asked for.
#[derive(Clone, Copy)]
pub(crate) enum Verb<'a> {
    /// From a pool.
    Add(&'a str),
    Del,
}

/// Asks every node for its containers, so many at once on each.
pub(crate) fn round(
    nodes: &[Node],
    containers: &mut [Vec<Container>],
    at_once: usize,
    verb: Verb<'_>,
    held: &Held,
) -> Result<Round> {
    let queues: Vec<Mutex<std::slice::IterMut<'_, Container>>> =
        containers.iter_mut().map(|containers| Mutex::new(containers.iter_mut())).collect();
    let lanes: Vec<_> = nodes.iter().zip(&queues).flat_map(|lane| std::iter::repeat_n(lane, at_once)).collect();
    let began = Instant::now();
    let lane = |(node, queue): (&'_ Node, &'_ Mutex<std::slice::IterMut<'_, Container>>)| -> Result<Round> {
        let (mut stream, mut seen) = (node.connect()?, Round::default());
        loop {
            let Some(container) = lock(queue).next() else { return Ok(seen) };
            let start = Instant::now();
            let answer = match verb {
                Verb::Add(pool) => held.add_patiently(&mut stream, pool, container, &mut seen.again)?,
                Verb::Del => held.del(&mut stream, container)?,
            };
            match answer {
                Ok(()) => seen.nanos.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)),
                Err(error) => seen.failed.push(error),
            }
        }
    };
    let seen: Vec<Round> = thread::scope(|scope| {
        let lane = &lane;
        let threads: Vec<_> = lanes.into_iter().map(|of| scope.spawn(move || lane(of))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a client panicked"))?)
            .collect::<Result<_>>()
    })?;
    let mut all = Round { took: began.elapsed(), ..Round::default() };
    seen.into_iter().for_each(|seen| all.absorb(seen));
    Ok(all)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
