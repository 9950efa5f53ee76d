//! IPBlock objects: read, listed, written by compare-and-swap.

use berth_core::block::{BLOCK_UNITS, Block, BlockKey, Slot, State};
use berth_core::time::Time;
use berth_dialects::native::block::{BlockSpec, block_name, from_spec, key_of, to_spec};
use berth_store::{BlockWrite, Stored, Written};
use kube::api::{ApiResource, DeleteParams, GroupVersionKind, ListParams, Object, PostParams, Preconditions};
use kube::core::NotUsed;
use kube::{Api, Client, Error};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use tracing::warn;

/// A label for each node that has a holder in the block: what a node needs to know is found by it.
const NODE_LABEL: &str = "node.berth.io/";
const NETWORK_LABEL: &str = "berth.io/network";
/// Set on a block of leases by a node that gets none: whoever has leases there is to open one. The next write of the
/// block takes it off.
const WANTED: &str = "berth.io/wanted-by";
/// On a block in which nothing is in use: it may be deleted once it has cooled.
const EMPTY: &str = "berth.io/empty";
const PAGE: u32 = 500;

/// A block as the API server has it.
pub type BlockObject = Object<BlockSpec, NotUsed>;

/// The blocks of a cluster, written in the name of one node.
#[derive(Clone)]
pub struct Blocks {
    api: Api<BlockObject>,
    resource: ApiResource,
    node: String,
}

impl Blocks {
    /// The blocks of a cluster.
    #[must_use]
    pub fn new(client: Client, node: &str) -> Self {
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("berth.io", "v1alpha1", "IPBlock"), "ipblocks");
        Self { api: Api::all_with(client, &resource), resource, node: node.to_owned() }
    }

    /// For watching them.
    #[must_use]
    pub const fn api(&self) -> &Api<BlockObject> {
        &self.api
    }

    /// Selects the blocks in which a node has holders.
    #[must_use]
    pub fn of_node(node: &str) -> String {
        label_of(node)
    }

    /// All that match, as of now: a list without a version is read from the quorum.
    ///
    /// # Errors
    /// If a page cannot be read.
    pub async fn list(&self, selector: Option<&str>) -> Result<Vec<Stored>, Error> {
        let mut params =
            ListParams { label_selector: selector.map(str::to_owned), ..ListParams::default() }.limit(PAGE);
        let mut all = Vec::new();
        loop {
            let page = self.api.list(&params).await?;
            all.extend(page.items.iter().filter_map(decode));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    /// One block; revision 0 and empty if it is not there, and [closed](is_closed) if it makes no sense.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn read(&self, key: &BlockKey) -> Result<(Block, u64), Error> {
        let Some(object) = self.api.get_opt(&block_name(key)).await? else { return Ok(Default::default()) };
        Ok(decode(&object).map_or_else(|| (closed(key), revision(&object)), |(_, block, revision)| (block, revision)))
    }

    /// Writes a block if the server has the expected revision. From then on it is nobody's alone.
    ///
    /// # Errors
    /// If it is not known to be written.
    pub async fn write(&self, write: &BlockWrite) -> Result<Written, Error> {
        self.write_as(write, None).await
    }

    /// Writes a block if the server has the expected revision. From then on it is this node's alone, if it is leased as a
    /// whole: no other agent may write it.
    ///
    /// # Errors
    /// If it is not known to be written.
    pub async fn write_leased(&self, write: &BlockWrite) -> Result<Written, Error> {
        self.write_as(write, Some(&self.node).filter(|_| write.changed == u64::MAX)).await
    }

    async fn write_as(&self, write: &BlockWrite, lessee: Option<&String>) -> Result<Written, Error> {
        let name = block_name(&write.key);
        if is_closed(&write.block) {
            let reason = format!(
                "IPBlock {name} cannot be read, and is not written over; restore it, or delete it if nothing of it is in use"
            );
            return Err(Error::Api(Box::new(kube::core::Status::failure(&reason, "Invalid").with_code(422))));
        }
        let result = match (write.block.is_empty(), write.expected) {
            (true, 0) => Ok(0),
            (true, _) => match self.delete(&name, write.expected).await {
                // What counts as in use there, because others were told late, is first told to be free.
                Err(error) if crate::connect::status(&error) == Some(403) => self.put(&name, write, lessee).await,
                result => result,
            },
            _ => self.put(&name, write, lessee).await,
        };
        match result {
            Ok(revision) => Ok(Written::As(revision)),
            Err(error) if matches!(crate::connect::status(&error), Some(404 | 409)) => Ok(Written::Conflict),
            Err(error) => Err(error),
        }
    }

    async fn delete(&self, name: &str, expected: u64) -> Result<u64, Error> {
        let only_if = Preconditions { resource_version: Some(expected.to_string()), uid: None };
        let params = DeleteParams { preconditions: Some(only_if), ..DeleteParams::default() };
        self.api.delete(name, &params).await.map(|_| 0)
    }

    async fn put(&self, name: &str, write: &BlockWrite, lessee: Option<&String>) -> Result<u64, Error> {
        let (post, mut object) = (PostParams::default(), self.encode(name, write));
        object.spec.lessee = lessee.cloned();
        let written = match write.expected {
            0 => self.api.create(&post, &object).await,
            _ => self.api.replace(name, &post, &object).await,
        };
        written.map(|object| revision(&object))
    }

    /// The blocks in which nothing is in use, whoever emptied them.
    ///
    /// # Errors
    /// If a page cannot be read.
    pub async fn list_empty(&self) -> Result<Vec<Stored>, Error> {
        self.list(Some(EMPTY)).await
    }

    /// Tells whoever has leases in a block that this node needs addresses; true if it did not know yet.
    ///
    /// # Errors
    /// If it is not known to be told.
    pub async fn want(&self, key: &BlockKey) -> Result<bool, Error> {
        let Some(mut object) = self.api.get_opt(&block_name(key)).await? else { return Ok(false) };
        if is_wanted(&object) {
            return Ok(false);
        }
        object.metadata.annotations.get_or_insert_default().insert(WANTED.to_owned(), self.node.clone());
        object.metadata.managed_fields = None;
        object.spec.writer = Some(self.node.clone());
        let name = block_name(key);
        match self.api.replace(&name, &PostParams::default(), &object).await {
            Err(error) if !matches!(crate::connect::status(&error), Some(404 | 409)) => Err(error),
            outcome => Ok(outcome.is_ok()),
        }
    }

    fn encode(&self, name: &str, write: &BlockWrite) -> BlockObject {
        let spec = BlockSpec { writer: Some(self.node.clone()), ..to_spec(&write.key, &write.block) };
        let mut labels: BTreeMap<String, String> =
            nodes(&write.block).iter().map(|node| (label_of(node), String::new())).collect();
        if write.block.taken() == 0 {
            labels.insert(EMPTY.to_owned(), String::new());
        }
        if let Some(value) = label_value(&write.key.plane.network) {
            labels.insert(NETWORK_LABEL.to_owned(), value);
        }
        let mut object = BlockObject::new(name, &self.resource, spec);
        object.metadata.labels = Some(labels);
        object.metadata.resource_version = (write.expected != 0).then(|| write.expected.to_string());
        object
    }
}

/// Whether a node waits for somebody to open a lease of this block.
pub(crate) fn is_wanted(object: &BlockObject) -> bool {
    object.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(WANTED))
}

/// The nodes with holders in a block.
pub(crate) fn nodes(block: &Block) -> BTreeSet<String> {
    let users = block.slots().filter(|(_, view)| matches!(view.state, State::Active | State::Held));
    users.flat_map(|(_, view)| view.holders()).map(|holder| holder.node).filter(|node| !node.is_empty()).collect()
}

/// The name part of a label's key has at most 63 characters; node names may have more.
fn label_of(node: &str) -> String {
    if node.len() <= 63 {
        return format!("{NODE_LABEL}{node}");
    }
    let mut hasher = DefaultHasher::new();
    node.hash(&mut hasher);
    format!("{NODE_LABEL}{}-{:016x}", node[..40].trim_end_matches(['-', '.']), hasher.finish())
}

/// A network as a label's value, where it can be one.
fn label_value(network: &str) -> Option<String> {
    let fits =
        network.len() <= 63 && network.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'));
    fits.then(|| network.replace('/', "."))
}

fn revision(object: &BlockObject) -> u64 {
    // etcd's revisions are numbers, and the API promises since 1.35 that they compare as such.
    object.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// The block behind an object; nothing if it has the name of another block. One that is damaged, or of a release that
/// writes what this one does not know, is reported and left alone: it must not stop the others.
pub(crate) fn decode(object: &BlockObject) -> Option<Stored> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let key = key_of(&object.spec).ok().filter(|key| block_name(key) == name);
    let Some(key) = key else {
        warn!(name, "an IPBlock has not the name of the block that is in it and is not used");
        return None;
    };
    let block = from_spec(&object.spec).map(|(_, block)| block).unwrap_or_else(|error| {
        warn!(name, ?error, "an IPBlock cannot be read; no address of it is given out, and it is not written over");
        closed(&key)
    });
    Some((key, block, revision(object)))
}

/// Since when nothing real is so: the last moment that a block can tell of.
const NEVER: Time = Time::FOREVER;

/// A block of which nothing is known but that it is there: nothing of it may be given out.
fn closed(key: &BlockKey) -> Block {
    let mut block = Block::default();
    for slot in (0..BLOCK_UNITS).filter(|slot| key.unit(*slot) <= key.plane.last_unit()) {
        block.set(slot, Some(&Slot::quarantined(NEVER, None)));
    }
    block
}

/// Whether it is not known what is in a block.
pub(crate) fn is_closed(block: &Block) -> bool {
    block.slots().any(|(_, view)| view.since == NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::addr::Family;
    use berth_core::block::Plane;

    #[test]
    fn a_block_that_cannot_be_read_gives_nothing_and_is_known_for_what_it_is() {
        let plane = Plane { network: "default".into(), family: Family::V4, unit_len: 32 };
        let (key, _) = BlockKey::of(&plane, plane.unit_of("10.9.0.0".parse().unwrap()));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("berth.io", "v1alpha1", "IPBlock"));
        let spec = BlockSpec { slots: "!".to_owned(), ..to_spec(&key, &Block::default()) };
        let mut object = BlockObject::new(&block_name(&key), &resource, spec);
        object.metadata.resource_version = Some("7".to_owned());
        let (found, block, revision) = decode(&object).unwrap();
        assert_eq!((found, revision, block.taken()), (key.clone(), 7, u64::MAX));
        assert!(is_closed(&block) && !is_closed(&Block::default()));
        object.metadata.name = Some("another".to_owned());
        assert!(decode(&object).is_none());
    }
}
