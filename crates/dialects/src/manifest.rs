//! Manifests: one or more objects as YAML or JSON, read whole or refused with the place and the fix.

use crate::field::FieldError;
use crate::object::Object;
use crate::tree::Tree;
use serde_json::Value;
use serde_saphyr::{Options, alias_limits, budget, options};
use std::fmt;

/// The longest text that is read.
pub const MAX_MANIFEST_BYTES: usize = 4 << 20;

/// How deep lists and maps may lie in each other. The deepest object there is needs seven levels.
const MAX_DEPTH: usize = 48;

/// Why a manifest was refused: where it is wrong, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", Place(self))]
pub struct ManifestError {
    /// Which document, from 1; 0 if the text as a whole is refused.
    pub document: usize,
    /// The line, from 1, if it is known.
    pub line: Option<u64>,
    /// The object, e.g. `IPPool "blue"`, if it got as far as having a kind or a name.
    pub object: Option<String>,
    /// The field, e.g. `spec.ranges[1]`; empty for the document as a whole.
    pub field: String,
    /// What is wrong with it and how to mend it.
    pub reason: String,
}

/// `document 2, line 14: IPPool "blue", spec.ranges[1]: `
struct Place<'a>(&'a ManifestError);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ManifestError { document, line, object, field, .. } = self.0;
        let document = (*document > 0).then(|| format!("document {document}"));
        let line = line.map(|line| format!("line {line}"));
        let field = Some(field.clone()).filter(|field| !field.is_empty());
        for parts in [[document, line], [object.clone(), field]] {
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            if !parts.is_empty() {
                write!(f, "{}: ", parts.join(", "))?;
            }
        }
        Ok(())
    }
}

/// Reads every object of a text: YAML documents, JSON (which is YAML), and lists (`kind: List`) of objects.
///
/// # Guarantees
/// Every object has a known kind and a valid name, every field of it is known, and it lowers: what remains to be
/// checked is how objects fit together. Time and memory are bounded by the length of the text, which is bounded.
///
/// # Errors
/// The first thing that is wrong, by document, line, object and field.
pub fn parse_manifests(text: &str) -> Result<Vec<Object>, ManifestError> {
    let whole = |reason: String| ManifestError { document: 0, line: None, object: None, field: String::new(), reason };
    if text.len() > MAX_MANIFEST_BYTES {
        return Err(whole(format!("the manifest is longer than {MAX_MANIFEST_BYTES} bytes; split it")));
    }
    let trees: Vec<Tree> = serde_saphyr::from_multiple_with_options(text, limits()).map_err(|error| {
        let line = error.location().map(|at| at.line());
        let document = line.map_or(0, |line| document_at(text, line));
        ManifestError { document, line, ..whole(plain(&error)) }
    })?;
    let mut objects = Vec::new();
    for tree in &trees {
        read_document(tree, &mut objects).map_err(|(object, error)| ManifestError {
            document: document_at(text, tree.line("")),
            line: Some(tree.line(&error.path)),
            object,
            field: error.path,
            reason: error.reason,
        })?;
    }
    if objects.is_empty() {
        return Err(whole(
            "the manifest is empty; write at least one object with apiVersion, kind and metadata".into(),
        ));
    }
    Ok(objects)
}

/// Reads a text that is one YAML or JSON value and nothing else, under the limits of manifests.
///
/// # Errors
/// What is wrong and, if it is known, on which line.
pub(crate) fn parse_value(text: &str) -> Result<Value, (Option<u64>, String)> {
    let trees: Result<Vec<Tree>, _> = serde_saphyr::from_multiple_with_options(text, limits());
    let trees = trees.map_err(|error| (error.location().map(|at| at.line()), plain(&error)))?;
    match &trees[..] {
        [one] => Ok(one.value()),
        [] => Ok(Value::Null),
        [_, second, ..] => Err((Some(second.line("")), "begins a second document; write one".to_owned())),
    }
}

/// What the YAML reader says, in words for users and without the line, which stands in front already.
fn plain(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().render_with_formatter(&serde_saphyr::UserMessageFormatter);
    let end = [" at line ", " (defined at "].iter().filter_map(|place| text.find(place)).min();
    text[..end.unwrap_or(text.len())].to_owned()
}

/// Which document a line belongs to, from 1. Empty documents do not count.
fn document_at(text: &str, line: u64) -> usize {
    let (mut document, mut begun) = (1, false);
    for (_, line) in (1..=line).zip(text.lines()) {
        let content = line.strip_prefix("---").unwrap_or(line).trim_start();
        if line.starts_with("---") && begun {
            (document, begun) = (document + 1, false);
        }
        begun |= !content.is_empty() && !content.starts_with(['#', '%']);
    }
    document
}

fn limits() -> Options {
    options! {
        budget: budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_documents: 10_000,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_recorded_anchor_bytes: 64 << 10,
            max_total_scalar_bytes: MAX_MANIFEST_BYTES,
        },
        alias_limits: alias_limits! { max_total_replayed_events: 100_000, max_replay_stack_depth: 8 },
        // `y` and `no` are names, as in YAML 1.2.
        strict_booleans: true,
        emit_comments: false,
        with_snippet: false,
    }
}

/// Reads one document, which is an object or a list of them. An empty one is none.
fn read_document(tree: &Tree, objects: &mut Vec<Object>) -> Result<(), (Option<String>, FieldError)> {
    let mut value = tree.value();
    if value.is_null() {
        return Ok(());
    }
    if !value.is_object() {
        return Err((None, FieldError::new("", "is not an object; write apiVersion, kind, metadata and spec")));
    }
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    let Some(items) = is_list.then(|| value["items"].as_array_mut()).flatten() else {
        let title = title(&value);
        objects.push(Object::read(value).map_err(|error| (title, error))?);
        return Ok(());
    };
    for (i, item) in items.iter_mut().enumerate() {
        let title = title(item);
        objects.push(Object::read(item.take()).map_err(|error| (title, error.under(&format!("items[{i}]"))))?);
    }
    Ok(())
}

/// What to call an object that may not be one.
fn title(value: &Value) -> Option<String> {
    let kind = value["kind"].as_str()?;
    let name = value["metadata"]["name"].as_str();
    Some(name.map_or_else(|| kind.to_owned(), |name| format!("{kind} {name:?}")))
}
