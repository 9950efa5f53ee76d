//! How long an allocation and a release take in the engine alone, by how full the pool is.

use crate::holders::{container, request};
use crate::{instructions, memory};
use anyhow::{Context, Result, ensure};
use berth_bench::rows::{Rows, median};
use berth_core::addr::Cidr;
use berth_core::holder::Holder;
use berth_core::ipam::{Config, Entropy, Ipam, Outcome, Request};
use berth_core::model::{Edges, Gateway, Pick, Pool};
use berth_core::time::Time;
use std::collections::{HashSet, VecDeque};
use std::hint::black_box;
use std::net::IpAddr;
use std::time::Instant;

/// A pool, and how many of its addresses are taken before the clock starts.
struct Row {
    cidr: &'static str,
    pick: Pick,
    fill: Fill,
}

/// How full a pool is. Nobody fills a /64: there "full" is a share of 65,536 held addresses.
#[derive(Clone, Copy)]
struct Fill {
    name: &'static str,
    /// Per ten thousand.
    share: u64,
}

const FILLS: [Fill; 4] = [
    Fill { name: "0 %", share: 0 },
    Fill { name: "50 %", share: 5_000 },
    Fill { name: "99 %", share: 9_900 },
    Fill { name: "99.99 %", share: 9_999 },
];

/// A /16, a million IPv4 addresses, a /64.
const POOLS: [(&str, u64); 3] = [("10.0.0.0/16", 1 << 16), ("10.0.0.0/12", 1 << 20), ("fd00::/64", 1 << 16)];

fn rows() -> Vec<Row> {
    let picks = [Pick::LeastRecentlyReleased, Pick::Sequential, Pick::Random];
    let of_pool = |cidr| picks.into_iter().flat_map(move |pick| FILLS.map(|fill| Row { cidr, pick, fill }));
    POOLS.iter().flat_map(|&(cidr, _)| of_pool(cidr)).collect()
}

impl Row {
    fn name(&self) -> String {
        let pick = match self.pick {
            Pick::LeastRecentlyReleased => "least recent",
            Pick::Sequential => "sequential",
            Pick::Random => "random",
        };
        format!("{:<12} {pick:<13} {:>8}", self.cidr, self.fill.name)
    }

    /// Whether valgrind, fifty times slower, has the pool filled in seconds.
    fn is_quick_to_fill(&self) -> bool {
        let size = POOLS.iter().find(|(cidr, _)| *cidr == self.cidr).map_or(0, |(_, size)| *size);
        size <= 1 << 16 && self.pick == Pick::LeastRecentlyReleased
    }

    /// The pool, with as many addresses taken as the row says.
    fn prepare(&self) -> Result<Bench> {
        let whole = POOLS.iter().find(|(cidr, _)| *cidr == self.cidr).map_or(0, |(_, size)| *size);
        let ranges = vec![self.cidr.parse::<Cidr>()?.range()];
        let edges = Edges { network: true, broadcast: true, gateway: true };
        let pool = Pool { pick: self.pick, gateway: Gateway::None, edges, ..Pool::new("pool", ranges) };
        let mut ipam = Ipam::new();
        let config = Config { pools: [("pool".to_owned(), pool)].into(), ..Config::default() };
        config.validate()?;
        ipam.configure(config);
        let mut bench = Bench { ipam, held: VecDeque::new(), entropy: Entropy(1), seen: HashSet::new(), next: 0 };
        for _ in 0..whole * self.fill.share / 10_000 {
            bench.fill()?;
        }
        Ok(bench)
    }
}

/// A pool under load.
struct Bench {
    ipam: Ipam,
    held: VecDeque<Holder>,
    entropy: Entropy,
    seen: HashSet<IpAddr>,
    next: u64,
}

impl Bench {
    fn now(&self) -> Time {
        Time(1_790_000_000_000_000 + self.next * 10)
    }

    fn fill(&mut self) -> Result<()> {
        let holder = container(self.next);
        self.next += 1;
        let outcome = self.ipam.allocate(&request(holder.clone()), self.now(), &mut self.entropy)?;
        self.ipam.commit();
        let address = outcome.given.first().context("nothing given")?.address();
        ensure!(self.seen.insert(address), "{address} was given out twice");
        self.held.push_back(holder);
        Ok(())
    }

    /// So many allocations, each followed by the release of the longest held: nanoseconds for each of the two. Holders
    /// are made, and addresses compared, while the clock stands.
    fn turn(&mut self, operations: u32) -> Result<(u64, u64)> {
        let (mut allocating, mut releasing) = (0, 0);
        // Few enough at a time that even an almost full pool has room for them.
        let batch = 6.min(operations.max(1));
        for _ in 0..operations / batch {
            let requests: Vec<_> = (self.next..).take(batch as usize).map(|n| request(container(n))).collect();
            self.next += u64::from(batch);
            let start = Instant::now();
            let outcomes = self.allocate_all(&requests)?;
            allocating += start.elapsed().as_nanos() as u64;
            for (request, outcome) in requests.into_iter().zip(outcomes) {
                let address = outcome.given.first().context("nothing given")?.address();
                ensure!(self.seen.insert(address), "{address} was given out twice");
                self.held.push_back(request.holder);
            }
            let leaving: Vec<Holder> = self.held.drain(..batch as usize).collect();
            let start = Instant::now();
            let freed = self.release_all(&leaving);
            releasing += start.elapsed().as_nanos() as u64;
            for address in freed.iter().flatten() {
                ensure!(self.seen.remove(address), "{address} was released but not held");
            }
        }
        let operations = u64::from(operations / batch * batch).max(1);
        Ok((allocating / operations, releasing / operations))
    }

    /// What is timed, and what callgrind counts: hence a function of its own.
    #[inline(never)]
    fn allocate_all(&mut self, requests: &[Request]) -> Result<Vec<Outcome>> {
        let now = self.now();
        let mut outcomes = Vec::with_capacity(requests.len());
        for request in requests {
            outcomes.push(self.ipam.allocate(request, now, &mut self.entropy)?);
            self.ipam.commit();
        }
        Ok(outcomes)
    }

    #[inline(never)]
    fn release_all(&mut self, holders: &[Holder]) -> Vec<Vec<IpAddr>> {
        let now = self.now();
        let mut freed = Vec::with_capacity(holders.len());
        for holder in holders {
            freed.push(self.ipam.release(holder.attachment(), now));
            self.ipam.commit();
        }
        freed
    }
}

/// Prints everything about the engine.
pub(crate) fn report(operations: u32, rounds: u32) -> Result<()> {
    let note = "one allocation, and one release, in nanoseconds; instructions for both together";
    let columns =
        [("pool         picks          full", 35), ("allocate ns", 11), ("release ns", 10), ("instructions", 12)];
    let table = Rows::begin(&format!("engine: {note}"), &columns);
    let rows = rows();
    // A pool's rows are measured in turn, round by round, so that a slow moment of the machine hits all of them.
    for (chunk, group) in rows.chunks(FILLS.len()).enumerate() {
        let mut benches = group.iter().map(Row::prepare).collect::<Result<Vec<_>>>()?;
        let mut times = vec![(Vec::new(), Vec::new()); group.len()];
        for _ in 0..rounds.max(1) {
            for (bench, (allocate, release)) in benches.iter_mut().zip(&mut times) {
                let (a, r) = black_box(bench.turn(operations)?);
                allocate.push(a);
                release.push(r);
            }
        }
        for (i, (row, (allocate, release))) in group.iter().zip(times).enumerate() {
            let number = chunk * FILLS.len() + i;
            let count = instructions::per_operation(number, row.is_quick_to_fill());
            let count = count.map_or_else(|| "n/a".to_owned(), |n| n.to_string());
            table.print(&[row.name(), median(allocate).to_string(), median(release).to_string(), count]);
        }
    }
    memory::report()
}

/// Fills the pool of a row and runs operations on it.
pub(crate) fn run(row: usize, operations: u32) -> Result<()> {
    let rows = rows();
    let mut bench = rows.get(row).context("no such row")?.prepare()?;
    black_box(bench.turn(operations)?);
    Ok(())
}
