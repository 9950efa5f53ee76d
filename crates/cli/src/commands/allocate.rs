//! `berth allocate`: take addresses under a name.

use crate::Result;
use crate::api::{AllocateRequest, Allocated, Allocation, HolderRef};
use crate::args::{AllocateArgs, Family, Format, RequestArgs};
use crate::client::Client;
use crate::table;
use crate::ui::Ui;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

pub(super) fn run(args: &AllocateArgs, client: &Client, ui: &mut Ui) -> Result<()> {
    let request = request(&args.request);
    let answer = client.post(&["addresses"], &request)?;
    if ui.raw(args.output.format, &answer)? {
        return Ok(());
    }
    let addresses = client.read::<Allocated>(answer)?.addresses;
    if args.output.format == Format::Name {
        addresses.iter().try_for_each(|given| ui.line(&given.name()))?;
    } else {
        print(&addresses, args.output.format == Format::Wide, ui)?;
    }
    if args.request.who.holder.is_none() && args.request.claim.is_none() {
        ui.note(&format!("Held by {id}; give it back with `berth release --holder {id}`.", id = request.holder.id));
    }
    Ok(())
}

/// The addresses given, and with `wide` why these.
pub(super) fn print(addresses: &[Allocation], wide: bool, ui: &mut Ui) -> Result<()> {
    let headers = ["ADDRESS", "GATEWAY", "POOL", "NETWORK"].into_iter().chain(wide.then_some("REASON"));
    let mut rows = table::table(headers);
    for given in addresses {
        let gateway = given.gateway.map(|gateway| gateway.to_string()).unwrap_or_default();
        let cells = [given.title(), gateway, given.pool.clone(), given.network.clone()];
        let reason = wide.then(|| given.reason.clone());
        rows.add_row(cells.into_iter().chain(reason).map(table::text).collect::<Vec<_>>());
    }
    ui.table(&mut rows)
}

/// The request that these arguments make.
pub(super) fn request(args: &RequestArgs) -> AllocateRequest {
    let who = &args.who;
    let labels = [("pod", &who.pod_labels), ("namespace", &who.namespace_labels), ("node", &who.node_labels)];
    let labels = labels.into_iter().filter(|(_, labels)| !labels.is_empty());
    // The claim's user is the claim: whoever asks for it again means the same addresses.
    let holder = who.holder.clone().or_else(|| args.claim.clone()).unwrap_or_else(made_up_name);
    AllocateRequest {
        holder: HolderRef {
            kind: "named",
            id: holder,
            namespace: who.namespace.clone(),
            pod: who.pod.clone(),
            node: who.node.clone(),
        },
        pools: args.pools.clone(),
        network: args.network.clone(),
        addresses: args.addresses.clone(),
        families: args.families.iter().map(|&family| if family == Family::V4 { "IPv4" } else { "IPv6" }).collect(),
        count: args.count,
        claim: args.claim.clone(),
        keep: args.keep.clone(),
        labels: labels.map(|(of, labels)| (of, labels.iter().cloned().collect::<BTreeMap<_, _>>())).collect(),
    }
}

/// A name that no one else has. The standard library's hash keys are the randomness at hand.
fn made_up_name() -> String {
    format!("cli-{:08x}", RandomState::new().hash_one(std::process::id()) >> 32)
}
