//! A YAML document that remembers the line of each of its parts, so that an error can point at it.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;
use std::fmt;

/// One value and the line it starts on.
#[derive(Debug)]
pub(crate) struct Tree {
    line: u64,
    node: Node,
}

#[derive(Debug)]
enum Node {
    Leaf(Value),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl Tree {
    /// The same without lines, and without nulls in maps: to Kubernetes, a field without a value is absent.
    pub(crate) fn value(&self) -> Value {
        match &self.node {
            Node::Leaf(value) => value.clone(),
            Node::List(items) => items.iter().map(Self::value).collect(),
            Node::Map(entries) => {
                let values = entries.iter().map(|(key, tree)| (key.clone(), tree.value()));
                values.filter(|(_, value)| !value.is_null()).collect()
            }
        }
    }

    /// The line of the field at `path`, or of the nearest part around it that is there.
    pub(crate) fn line(&self, path: &str) -> u64 {
        let mut tree = self;
        for step in path.split(['.', '[', ']']).filter(|step| !step.is_empty()) {
            let Some(child) = tree.child(step) else { break };
            tree = child;
        }
        tree.line
    }

    fn child(&self, step: &str) -> Option<&Self> {
        match &self.node {
            Node::Leaf(_) => None,
            Node::List(items) => items.get(step.parse::<usize>().ok()?),
            Node::Map(entries) => entries.iter().find(|(key, _)| key == step).map(|(_, tree)| tree),
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Node>::deserialize(deserializer)?;
        Ok(Self { line: spanned.referenced.line(), node: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }
}
