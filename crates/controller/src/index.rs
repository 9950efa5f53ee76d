//! Which blocks speak of a pod, a node or a claim, so that an event is followed up where it matters and nowhere else; and
//! which have an address.

use berth_core::block::{Block, BlockKey, State};
use berth_core::ipam::Ipam;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

/// What a holder is found by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tag {
    Pod(String, String),
    Machine(String, String),
    Node(String),
    Claim(String, String),
}

/// The index over all blocks.
#[derive(Debug, Default)]
pub(crate) struct Index {
    tags: HashMap<BlockKey, BTreeSet<Tag>>,
    blocks: BTreeMap<Tag, BTreeSet<BlockKey>>,
}

impl Index {
    /// Takes in a block as it is now; `None` if it is gone.
    pub(crate) fn put(&mut self, key: &BlockKey, block: Option<&Block>) {
        let tags: BTreeSet<Tag> = block.map(tags_of).unwrap_or_default();
        let before = if tags.is_empty() { self.tags.remove(key) } else { self.tags.insert(key.clone(), tags.clone()) };
        let before = before.unwrap_or_default();
        for tag in before.difference(&tags) {
            if let Some(blocks) = self.blocks.get_mut(tag) {
                blocks.remove(key);
                if blocks.is_empty() {
                    self.blocks.remove(tag);
                }
            }
        }
        for tag in tags.difference(&before) {
            self.blocks.entry(tag.clone()).or_default().insert(key.clone());
        }
    }

    /// The pods, and the virtual machines that they run, that a block speaks of: namespace and name.
    pub(crate) fn pods_in(&self, key: &BlockKey) -> impl Iterator<Item = (&str, &str)> {
        self.tags.get(key).into_iter().flatten().filter_map(|tag| match tag {
            Tag::Pod(namespace, name) | Tag::Machine(namespace, name) => Some((namespace.as_str(), name.as_str())),
            _ => None,
        })
    }

    fn of(&self, tag: &Tag) -> impl Iterator<Item = &BlockKey> + use<'_> {
        self.blocks.get(tag).into_iter().flatten()
    }

    /// The blocks that speak of a pod.
    pub(crate) fn of_pod(&self, namespace: &str, name: &str) -> impl Iterator<Item = &BlockKey> {
        self.of(&Tag::Pod(namespace.to_owned(), name.to_owned()))
    }

    /// The blocks that speak of a virtual machine.
    pub(crate) fn of_machine(&self, namespace: &str, name: &str) -> impl Iterator<Item = &BlockKey> {
        self.of(&Tag::Machine(namespace.to_owned(), name.to_owned()))
    }

    /// Whether any block speaks of a virtual machine.
    pub(crate) fn has_machines(&self) -> bool {
        let first = Tag::Machine(String::new(), String::new());
        self.blocks.range(first..).next().is_some_and(|(tag, _)| matches!(tag, Tag::Machine(..)))
    }

    /// The blocks that speak of a node.
    pub(crate) fn of_node(&self, name: &str) -> impl Iterator<Item = &BlockKey> {
        self.of(&Tag::Node(name.to_owned()))
    }

    /// The blocks that speak of a claim.
    pub(crate) fn of_claim(&self, namespace: &str, name: &str) -> impl Iterator<Item = &BlockKey> {
        self.of(&Tag::Claim(namespace.to_owned(), name.to_owned()))
    }

    /// The blocks that speak of pods of a namespace.
    pub(crate) fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &BlockKey> {
        self.of_pods(namespace, String::new())
    }

    /// The blocks that speak of pods which a StatefulSet of this name would have.
    pub(crate) fn of_stateful(&self, namespace: &str, name: &str) -> impl Iterator<Item = &BlockKey> {
        self.of_pods(namespace, format!("{name}-"))
    }

    /// The blocks that speak of pods of a namespace whose names begin like this.
    fn of_pods(&self, namespace: &str, prefix: String) -> impl Iterator<Item = &BlockKey> + use<'_> {
        let first = Tag::Pod(namespace.to_owned(), prefix.clone());
        let namespace = namespace.to_owned();
        let own = self.blocks.range(first..).take_while(
            move |(tag, _)| matches!(tag, Tag::Pod(own, pod) if *own == namespace && pod.starts_with(&prefix)),
        );
        own.flat_map(|(_, blocks)| blocks)
    }
}

fn tags_of(block: &Block) -> BTreeSet<Tag> {
    let taken = block.slots().filter(|(_, view)| matches!(view.state, State::Active | State::Held));
    let mut tags = BTreeSet::new();
    for holder in taken.flat_map(|(_, view)| view.holders()) {
        if let Some(machine) = holder.machine() {
            tags.insert(Tag::Machine(holder.namespace.clone(), machine.to_owned()));
        }
        if !holder.pod.is_empty() {
            tags.insert(Tag::Pod(holder.namespace, holder.pod));
        }
        if !holder.node.is_empty() {
            tags.insert(Tag::Node(holder.node));
        }
        let claim = holder.sticky.as_ref().and_then(|sticky| sticky.identity.strip_prefix("claim/")?.split_once('/'));
        tags.extend(claim.map(|(namespace, name)| Tag::Claim(namespace.to_owned(), name.to_owned())));
    }
    tags
}

/// The blocks that addresses are in which somebody has written down, with or without a prefix length.
pub(crate) fn blocks_at<'a>(ipam: &Ipam, texts: impl Iterator<Item = &'a str>) -> BTreeSet<BlockKey> {
    let bare = texts.filter_map(|text| text.split('/').next()?.parse::<IpAddr>().ok());
    let planes = bare.flat_map(|address| ipam.planes_of(address).into_iter().map(move |plane| (plane, address)));
    planes.map(|(plane, address)| BlockKey::of(&plane, plane.unit_of(address)).0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::addr::Family;
    use berth_core::block::{Plane, Slot};
    use berth_core::holder::{Holder, Sticky};
    use berth_core::time::Time;

    fn key(index: u128) -> BlockKey {
        BlockKey { plane: Plane { network: "default".into(), family: Family::V4, unit_len: 32 }, index }
    }

    fn block(pod: &str, node: &str, claim: Option<&str>) -> Block {
        let sticky = claim.map(|identity| Sticky { identity: identity.to_owned(), keep: None });
        let holder = Holder { namespace: "a".into(), pod: pod.into(), node: node.into(), sticky, ..Holder::default() };
        let mut block = Block::default();
        block.set(1, Some(&Slot::active(holder, Time(1))));
        block
    }

    #[test]
    fn an_event_finds_the_blocks_it_concerns_and_no_others() {
        let mut index = Index::default();
        index.put(&key(1), Some(&block("db-0", "n1", None)));
        index.put(&key(2), Some(&block("db-1", "n2", Some("claim/a/vip"))));
        index.put(&key(3), Some(&block("dba-1", "n2", None)));
        assert_eq!(index.of_pod("a", "db-0").collect::<Vec<_>>(), [&key(1)]);
        assert_eq!(index.of_pod("b", "db-0").count(), 0);
        assert_eq!(index.of_node("n2").collect::<Vec<_>>(), [&key(2), &key(3)]);
        assert_eq!(index.of_claim("a", "vip").collect::<Vec<_>>(), [&key(2)]);
        assert_eq!(index.of_stateful("a", "db").collect::<Vec<_>>(), [&key(1), &key(2)]);
    }

    #[test]
    fn a_machine_is_found_by_its_own_name_and_both_ends_of_its_move_by_theirs() {
        let of = |pod: &str, node: &str| Holder {
            namespace: "a".into(),
            pod: pod.into(),
            node: node.into(),
            sticky: Some(Sticky { identity: Sticky::of_machine("a", "vm", "eth0"), keep: None }),
            ..Holder::default()
        };
        let mut index = Index::default();
        index.put(&key(1), Some(&block("vm", "n1", None)));
        assert!(!index.has_machines() && index.of_machine("a", "vm").count() == 0);
        let slot = Slot { source: Some(Box::new(of("p1", "n1"))), ..Slot::active(of("p2", "n2"), Time(1)) };
        let mut moving = Block::default();
        moving.set(1, Some(&slot));
        index.put(&key(2), Some(&moving));
        assert!(index.has_machines());
        assert_eq!(index.of_machine("a", "vm").collect::<Vec<_>>(), [&key(2)]);
        for pod in ["p1", "p2"] {
            assert_eq!(index.of_pod("a", pod).collect::<Vec<_>>(), [&key(2)], "{pod}");
        }
        assert_eq!(index.of_node("n1").collect::<Vec<_>>(), [&key(1), &key(2)]);
        assert!(index.pods_in(&key(2)).any(|pod| pod == ("a", "vm")));
    }

    #[test]
    fn what_a_block_no_longer_says_is_forgotten() {
        let mut index = Index::default();
        index.put(&key(1), Some(&block("p", "n1", None)));
        index.put(&key(1), Some(&block("q", "n1", None)));
        assert_eq!((index.of_pod("a", "p").count(), index.of_pod("a", "q").count()), (0, 1));
        index.put(&key(1), None);
        assert!(index.blocks.is_empty() && index.tags.is_empty());
    }
}
