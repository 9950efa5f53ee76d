//! Claims: named addresses, bound when the claim is made, used by one container at a time, kept in between.

use crate::node::Node;
use berth_core::error::Error;
use berth_core::holder::Sticky;
use berth_core::ipam::{Group, Request};
use berth_dialects::native::Claim;
use berth_dialects::{Lowered, Object, lower};
use berth_engine::Context;
use std::collections::BTreeSet;
use tracing::info;

const KIND: &str = "IPClaim";

/// The claim in an object, if it is one.
pub(crate) fn read(object: &Object) -> Result<Option<Claim>, Error> {
    match lower(object)? {
        Lowered::Claim(claim) => Ok(Some(claim)),
        _ => Ok(None),
    }
}

/// Binds a claim that was made or changed: its addresses are picked, and held without a deadline until the first use.
///
/// # Errors
/// [`Error::InUse`] if it asks for something else now while its addresses are in use.
pub(crate) fn bind(context: &mut Context<'_>, old: Option<&Object>, new: &Object, node: &str) -> Result<(), Error> {
    let Some(claim) = read(new)? else { return Ok(()) };
    let asked_before = old.map(read).transpose()?.flatten().map(|old| old.group);
    if asked_before.is_some_and(|before| !same(&before, &claim.group)) {
        unbind(context, new, &claim)?;
    }
    let mut request = claim.request();
    node.clone_into(&mut request.subject.node);
    context.ipam.keep(&request, context.now, context.entropy).map(drop)
}

fn same(a: &Group, b: &Group) -> bool {
    let asks = |g: &Group| (g.pools.clone(), g.network.clone(), g.addresses.clone(), g.families.clone(), g.count);
    asks(a) == asks(b)
}

/// Lets a claim's addresses go, unless they are in use.
///
/// # Errors
/// [`Error::InUse`] names the users.
pub(crate) fn unbind(context: &mut Context<'_>, object: &Object, claim: &Claim) -> Result<(), Error> {
    let users = context.ipam.active_of_identity(&claim.identity);
    if users.is_empty() {
        context.ipam.forget_identity(&claim.identity, context.now);
        return Ok(());
    }
    let holders = users.iter().map(|(address, holder)| format!("{address} by {holder}")).collect::<Vec<_>>().join(", ");
    Err(Error::InUse { object: object.title(), holders })
}

impl Node {
    /// Asks for the addresses of a claim, instead of what the pools would pick.
    ///
    /// # Errors
    /// If there is no such claim, or it is another namespace's.
    pub(crate) fn use_claim(&self, name: &str, request: &mut Request) -> Result<(), Error> {
        let own = &request.subject.namespace;
        let default = if own.is_empty() { berth_dialects::object::DEFAULT_NAMESPACE } else { own };
        let (namespace, name) = name.split_once('/').unwrap_or((default, name));
        if !own.is_empty() && namespace != own {
            let reason =
                format!("{namespace}/{name} belongs to another namespace; a pod of {own:?} uses its own claims");
            return Err(Error::Invalid { field: "claim".to_owned(), reason });
        }
        if let Some(claim) = read(&self.stored(KIND, namespace, name)?)? {
            request.holder.sticky = Some(Sticky { identity: claim.identity.clone(), keep: claim.keep });
            request.groups = vec![claim.group];
        }
        Ok(())
    }

    /// The claims of this name in all namespaces, as `NAMESPACE/NAME`; at least one.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn claims_named(&self, wanted: &str) -> Result<Vec<String>, Error> {
        let found: Vec<String> = self.engine.with_store(|journal| {
            let claims = journal.objects().keys().filter(|(kind, _, name)| kind == KIND && name == wanted);
            claims.map(|(_, namespace, name)| format!("{namespace}/{name}")).collect()
        });
        if found.is_empty() { Err(Error::UnknownClaim(wanted.to_owned())) } else { Ok(found) }
    }

    /// Lets go of what is kept for claims that are gone: a crash can come between deleting a claim and letting go.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn forget_lost_claims(&self) -> Result<(), Error> {
        let kept: BTreeSet<String> = self.engine.read(|ipam| {
            let identities = ipam.slots().filter_map(|(_, _, view)| view.identity().map(str::to_owned));
            identities.filter(|identity| identity.starts_with("claim/")).collect()
        });
        if kept.is_empty() {
            return Ok(());
        }
        let known: BTreeSet<String> = self.engine.with_store(|journal| {
            let claims = journal.objects().keys().filter(|(kind, _, _)| kind == KIND);
            claims.map(|(_, namespace, name)| format!("claim/{namespace}/{name}")).collect()
        });
        let lost: Vec<String> = kept.difference(&known).cloned().collect();
        if lost.is_empty() {
            return Ok(());
        }
        info!(claims = lost.join(", "), "letting go of what was kept for claims that are gone");
        self.engine.transact(move |context| {
            for identity in &lost {
                context.ipam.forget_identity(identity, context.now);
            }
            Ok(())
        })
    }
}
