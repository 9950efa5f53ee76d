//! ADD: one address of every range set, or nothing.

use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::lease::Held;
use crate::lower::Set;
use crate::owner::Owner;
use crate::verbs::Job;
use berth_wire::args::Args;
use berth_wire::cni::{AddResult, Dns, Ip};
use berth_wire::resolv;
use rustix::io::Errno;
use std::net::IpAddr;

/// After so many taken addresses in a row, one look at the directory is cheaper than trying on.
const TRIES: usize = 32;

impl Job<'_> {
    /// Leases an address of every range set. What the container's interface already holds counts, so a repeated ADD
    /// gives the same answer; what a failing ADD has leased itself it gives back, and nothing else.
    pub(crate) fn add(&self) -> Result<AddResult> {
        let args = Args::parse(self.call.args)?;
        let mut requested = args.addresses;
        requested.extend(self.config.requested()?);
        let sets = self.config.sets()?;
        let wanted = share_out(&sets, requested)?;
        let routes = self.config.routes()?;
        let dns = self.dns()?;

        let owner = self.owner();
        let ips = self.with_directory(|directory| {
            if directory.is_buried_since(&owner, self.call.stamp) {
                return Err(Error::Superseded(self.call.container.to_owned()));
            }
            let mut held = directory.held_by(&owner)?;
            let old = directory.held_by(&self.old_owner())?;
            let had = held.len();
            let mut ips = Vec::with_capacity(sets.len());
            for (index, (set, &wanted)) in sets.iter().zip(&wanted).enumerate() {
                let kept = held[..had].iter().chain(&old).map(|held| held.address);
                let kept: Vec<IpAddr> = kept.filter(|&address| set.contains(address)).collect();
                match self.address(directory, (index, set), wanted, &kept, &mut held) {
                    Ok(address) => ips.extend(set.link(address).map(|link| Ip {
                        address,
                        prefix_len: link.prefix_len,
                        gateway: Some(link.gateway),
                    })),
                    Err(source) => {
                        // Whatever cannot be given back here, the runtime's DEL will.
                        held.drain(had..).for_each(|new| _ = directory.release(new.address));
                        return Err(Error::Range { index, source: Box::new(source) });
                    }
                }
            }
            if held.len() > had {
                directory.record(&owner, &held);
            }
            Ok(ips)
        })?;
        Ok(AddResult { ips, routes, dns })
    }

    /// The address of one range set: one that is kept, the one wanted, or the next that is free. A new lease is added
    /// to `held`.
    fn address(
        &self,
        directory: &mut Directory,
        (index, set): (usize, &Set),
        wanted: Option<IpAddr>,
        kept: &[IpAddr],
        held: &mut Vec<Held>,
    ) -> Result<IpAddr> {
        match (wanted, kept) {
            (None, &[first, ..]) => return Ok(first),
            (Some(wanted), kept) if kept.contains(&wanted) => return Ok(wanted),
            (Some(_), &[address, ..]) => {
                return Err(Error::Duplicate { address, container: self.call.container.to_owned() });
            }
            (_, []) => {}
        }
        directory.certain()?;
        let cursor = directory.cursor(index);
        let owner = self.owner();
        let lease = match wanted {
            Some(wanted) => lease_wanted(directory, set, wanted, &owner)?,
            None => lease_next(directory, set, cursor.last, &owner)?,
        };
        directory.advance(cursor, lease.address);
        held.push(lease);
        Ok(lease.address)
    }

    fn dns(&self) -> Result<Dns> {
        let Some(path) = self.config.resolv_conf()? else { return Ok(Dns::default()) };
        match std::fs::read(&path) {
            Ok(text) => Ok(resolv::parse(&String::from_utf8_lossy(&text))),
            Err(error) => {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                Err(Error::Io { op: "open", path, errno })
            }
        }
    }
}

/// Gives every range set the first requested address that lies in it. One that is left over is an error.
fn share_out(sets: &[Set], mut requested: Vec<IpAddr>) -> Result<Vec<Option<IpAddr>>> {
    let mut seen = Vec::with_capacity(requested.len());
    requested.retain(|address| {
        let is_new = !seen.contains(address);
        seen.push(*address);
        is_new
    });
    let wanted = sets
        .iter()
        .map(|set| requested.iter().position(|&address| set.contains(address)).map(|i| requested.remove(i)))
        .collect();
    if requested.is_empty() { Ok(wanted) } else { Err(Error::Unfulfilled(requested)) }
}

fn lease_wanted(directory: &mut Directory, set: &Set, wanted: IpAddr, owner: &Owner) -> Result<Held> {
    if set.link(wanted).is_some_and(|link| link.gateway == wanted) {
        return Err(Error::Gateway(wanted));
    }
    let taken = || Error::Taken { address: wanted, set: set.to_string() };
    directory.lease(wanted, owner)?.ok_or_else(taken)
}

/// Leases the first free address after `last`. No range is ever walked: at most every lease is passed over once.
fn lease_next(directory: &mut Directory, set: &Set, last: Option<IpAddr>, owner: &Owner) -> Result<Held> {
    let mut candidates = set.candidates(last);
    for address in candidates.by_ref().take(TRIES) {
        if let Some(held) = directory.lease(address, owner)? {
            return Ok(held);
        }
    }
    let taken = directory.taken()?;
    for address in candidates.filter(|address| !taken.contains(address)) {
        if let Some(held) = directory.lease(address, owner)? {
            return Ok(held);
        }
    }
    Err(Error::Exhausted(set.to_string()))
}
