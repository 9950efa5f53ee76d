//! STATUS: could an ADD with this configuration be served?
//!
//! It is answered by trying one and taking it back, so that it cannot say something else than ADD would. The runtime
//! asks for no container in particular, hence rules about namespaces and pods are left out of account; those about the
//! node are not, since the node is this one.

use crate::node::Node;
use berth_core::error::Error;
use berth_core::ipam::{Group, Request};
use berth_core::model::Subject;
use berth_door::words::groups;
use berth_wire::cni;
use berth_wire::protocol::{Response, StatusRequest};

pub(crate) fn answer(node: &Node, wanted: StatusRequest) -> Result<Response, cni::Error> {
    let unavailable =
        |error: Error| cni::Error::new(cni::code::UNAVAILABLE, error.to_string()).hint(error.names().hint);
    let requests = requests(node, wanted).map_err(unavailable)?;
    let served = node.engine.transact(move |context| {
        let mut refusal = None;
        for request in &requests {
            match context.could_serve(request) {
                Ok(()) => return Ok(()),
                Err(error) => drop(refusal.get_or_insert(error)),
            }
        }
        refusal.map_or(Ok(()), Err)
    });
    served.map(|()| Response::Done).map_err(unavailable)
}

/// The requests of which one must be served: more than one where the name of a claim stands for a claim in the
/// namespace of whichever pod comes.
fn requests(node: &Node, wanted: StatusRequest) -> Result<Vec<Request>, Error> {
    let families = wanted.families.into_iter().map(Into::into).collect();
    let base = Group { pools: wanted.pools, network: wanted.domain, families, ..Group::default() };
    let subject = Subject { node: node.name.clone(), anyone: true, ..Subject::default() };
    let request = Request { subject, groups: groups(base, Vec::new(), &wanted.ranges)?, ..Request::default() };
    let Some(name) = wanted.claim else { return Ok(vec![request]) };
    let names = if name.contains('/') { vec![name] } else { node.claims_named(&name)? };
    let with_claim = |name: String| {
        let mut request = request.clone();
        node.use_claim(&name, &mut request)?;
        Ok(request)
    };
    names.into_iter().map(with_claim).collect()
}
