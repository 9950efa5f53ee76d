//! Reading typed values out of generic ones, with errors that name the field and the fix.

use crate::object::Object;
use berth_core::error::Error;
use serde::Deserialize;
use serde_json::Value;

/// What is wrong with one field of an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct FieldError {
    /// Where, e.g. `spec.ranges[1]`; empty for the object as a whole.
    pub path: String,
    /// What is wrong and how to mend it.
    pub reason: String,
}

impl FieldError {
    pub(crate) fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into() }
    }

    /// The same, under a longer path.
    pub(crate) fn under(self, parent: &str) -> Self {
        Self { path: join(parent, &self.path), ..self }
    }

    /// The error of the core, which names the object too.
    pub(crate) fn of(self, object: &Object) -> Error {
        Error::Invalid { field: format!("{}, {}", object.title(), self.path), reason: self.reason }
    }
}

/// Reads `value`, which stands at `path`.
pub(crate) fn decode<'de, T: Deserialize<'de>>(value: &'de Value, path: &str) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let inner = if error.path().iter().len() == 0 { String::new() } else { error.path().to_string() };
        explain(&inner, &error.inner().to_string()).under(path)
    })
}

/// Serde knows what is wrong; this adds what to do about it.
fn explain(path: &str, message: &str) -> FieldError {
    // Serde puts every name it speaks of between backticks.
    let mut names = message.split('`').skip(1).step_by(2);
    let first = names.next().unwrap_or_default();
    if message.starts_with("missing field") {
        return FieldError::new(join(path, first), "is required");
    }
    if message.starts_with("unknown field") {
        return FieldError::new(path, format!("unknown field{}", hint(first, &names.collect::<Vec<_>>())));
    }
    if message.starts_with("unknown variant") {
        return FieldError::new(path, format!("unknown value {first:?}{}", hint(first, &names.collect::<Vec<_>>())));
    }
    let mut reason = message.to_owned();
    for (rust, plain) in [
        ("expected u8", "expected a number from 0 to 255"),
        ("expected u32", "expected a whole number"),
        ("expected a boolean", "expected true or false"),
    ] {
        reason = reason.replace(rust, plain);
    }
    let scalar = ["integer", "floating point", "boolean"].iter().any(|kind| message.contains(kind));
    if scalar && message.ends_with("expected a string") {
        reason.push_str("; put it in quotes");
    }
    FieldError::new(path, reason)
}

/// `; did you mean …?`, or the list of what is known.
pub(crate) fn hint(word: &str, known: &[&str]) -> String {
    match closest(word, known.iter().copied()) {
        Some(name) => format!("; did you mean {name:?}?"),
        None if known.is_empty() => "; leave it out".to_owned(),
        None => format!("; use one of {}", known.join(", ")),
    }
}

/// The known word that was probably meant.
pub(crate) fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let scored = known.into_iter().map(|name| (strsim::jaro_winkler(&word, &name.to_lowercase()), name));
    scored.filter(|(score, _)| *score > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

fn join(parent: &str, child: &str) -> String {
    let dot = if parent.is_empty() || child.is_empty() || child.starts_with('[') { "" } else { "." };
    format!("{parent}{dot}{child}")
}
