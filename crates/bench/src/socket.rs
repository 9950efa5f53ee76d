//! Leases per second through the socket of a running daemon.

use anyhow::{Context, Result, bail, ensure};
use berth_bench::rows::{Rows, quantile};
use berth_wire::protocol::{AddRequest, Attachment, Op, Request, Response, read_frame, write_frame};
use std::collections::HashSet;
use std::io::BufReader;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How many leases a connection holds at a time, so that addresses of different connections meet.
const HELD: usize = 16;

/// What one connection saw.
#[derive(Default)]
struct Seen {
    leases: u64,
    /// Nanoseconds of every ADD.
    adds: Vec<u64>,
}

/// Drives the daemon and prints one row.
pub(crate) fn report(path: &Path, pool: Option<&str>, connections: usize, seconds: u64) -> Result<()> {
    let live: Live = std::array::from_fn(|_| Mutex::new(HashSet::new()));
    let end = Instant::now() + Duration::from_secs(seconds);
    let start = Instant::now();
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let live = &live;
        let threads: Vec<_> =
            (0..connections).map(|n| scope.spawn(move || Client { path, pool, n, live }.run(end))).collect();
        let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a client panicked")));
        joined.map(|result| result.and_then(|seen| seen)).collect::<Result<_>>()
    })?;
    let elapsed = start.elapsed().as_secs_f64();
    let leases: u64 = seen.iter().map(|s| s.leases).sum();
    let mut adds: Vec<u64> = seen.into_iter().flat_map(|s| s.adds).collect();
    adds.sort_unstable();
    let columns = [("serve, through its socket", 26), ("leases/s", 9), ("ADD p50 us", 10), ("ADD p99 us", 10)];
    let micros = |share| format!("{:.1}", quantile(&adds, share) as f64 / 1000.0);
    let table = Rows::begin("socket: ADD and DEL in turn, no address doubled", &columns);
    let rate = format!("{:.0}", leases as f64 / elapsed);
    table.print(&[format!("{connections} connections"), rate, micros(0.5), micros(0.99)]);
    Ok(())
}

/// One connection.
struct Client<'a> {
    path: &'a Path,
    pool: Option<&'a str>,
    n: usize,
    live: &'a Live,
}

/// Every address that somebody has, in parts so that clients do not wait for each other.
type Live = [Mutex<HashSet<IpAddr>>; 64];

fn part(live: &Live, address: IpAddr) -> Result<MutexGuard<'_, HashSet<IpAddr>>> {
    let last = match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => address.octets()[15],
    };
    live[usize::from(last) % live.len()].lock().map_err(|_| anyhow::anyhow!("a client panicked"))
}

impl Client<'_> {
    fn run(&self, end: Instant) -> Result<Seen> {
        let connect =
            || UnixStream::connect(self.path).with_context(|| format!("cannot reach {}", self.path.display()));
        let (mut stream, mut seen) = (BufReader::new(connect()?), Seen::default());
        let mut held: Vec<(Attachment, Vec<IpAddr>)> = Vec::with_capacity(HELD);
        while Instant::now() < end {
            let attachment = self.attachment(seen.leases);
            let start = Instant::now();
            let addresses = self.add(&mut stream, &attachment)?;
            seen.adds.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
            seen.leases += 1;
            held.push((attachment, addresses));
            if held.len() == HELD {
                let (attachment, addresses) = held.remove(0);
                self.del(&mut stream, attachment, &addresses)?;
            }
        }
        for (attachment, addresses) in held {
            self.del(&mut stream, attachment, &addresses)?;
        }
        Ok(seen)
    }

    fn attachment(&self, lease: u64) -> Attachment {
        let container = format!("{:016x}{:016x}{lease:032x}", std::process::id(), self.n);
        Attachment { network: "bench".to_owned(), container, ifname: "eth0".to_owned() }
    }

    fn add(&self, stream: &mut BufReader<UnixStream>, attachment: &Attachment) -> Result<Vec<IpAddr>> {
        let add = AddRequest {
            attachment: attachment.clone(),
            pod: None,
            domain: None,
            pools: self.pool.iter().map(|&pool| pool.to_owned()).collect(),
            addresses: Vec::new(),
            ranges: Vec::new(),
            families: Vec::new(),
            claim: None,
            uplink: None,
        };
        let Response::Ok(result) = call(stream, Op::Add(add))? else { bail!("ADD was answered as if it were not one") };
        let addresses: Vec<IpAddr> = result.ips.iter().map(|ip| ip.address).collect();
        ensure!(!addresses.is_empty(), "ADD gave no address");
        for &address in &addresses {
            ensure!(part(self.live, address)?.insert(address), "{address} was given out twice");
        }
        Ok(addresses)
    }

    fn del(&self, stream: &mut BufReader<UnixStream>, attachment: Attachment, addresses: &[IpAddr]) -> Result<()> {
        // Out of the set first: from the moment the daemon has the request, another may get the address.
        for &address in addresses {
            part(self.live, address)?.remove(&address);
        }
        call(stream, Op::Del(attachment)).map(|_| ())
    }
}

fn call(stream: &mut BufReader<UnixStream>, op: Op) -> Result<Response> {
    write_frame(stream.get_mut(), &Request::new(berth_wire::boot::stamp(), op))?;
    match read_frame(stream)? {
        Response::Error(error) => bail!("the daemon refused: {error:?}"),
        response => Ok(response),
    }
}
