//! Placeholders in case files.
//!
//! `${name}` stands for a variable. A string that is nothing but a placeholder becomes the variable's value whatever
//! its type, so that one row of a table can carry a list. `${repeat:N:text}` is the text N times, which is how a case
//! says "a megabyte" without being one.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

/// Variables by name.
pub type Vars = Map<String, Value>;

/// What to do with a placeholder that no variable answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Leave it for a later pass.
    Keep,
    /// Fail.
    Refuse,
}

/// Replaces the placeholders in every string of a value, keys included.
///
/// # Errors
/// If a placeholder is malformed, or unknown where that is refused.
pub fn expand(value: &Value, vars: &Vars, unknown: Unknown) -> Result<Value> {
    Ok(match value {
        Value::String(text) => match whole(text).and_then(|name| vars.get(name)) {
            Some(value) => value.clone(),
            None => Value::String(expand_text(text, vars, unknown)?),
        },
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| expand(item, vars, unknown)).collect::<Result<_>>()?)
        }
        Value::Object(fields) => {
            let expanded =
                fields.iter().map(|(key, value)| Ok((expand_text(key, vars, unknown)?, expand(value, vars, unknown)?)));
            Value::Object(expanded.collect::<Result<_>>()?)
        }
        other => other.clone(),
    })
}

/// Replaces the placeholders in a text.
///
/// # Errors
/// As [`expand`].
pub fn expand_text(text: &str, vars: &Vars, unknown: Unknown) -> Result<String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').with_context(|| format!("unclosed placeholder in {text:?}"))?;
        expanded.push_str(before);
        match (repeated(name)?, vars.get(name)) {
            (Some(text), _) => expanded.push_str(&text),
            (None, Some(Value::String(value))) => expanded.push_str(value),
            (None, Some(value)) => expanded.push_str(&value.to_string()),
            (None, None) if unknown == Unknown::Keep => expanded.push_str(&format!("${{{name}}}")),
            (None, None) => bail!("unknown placeholder ${{{name}}}"),
        }
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// The name in a text that is one placeholder and nothing else.
fn whole(text: &str) -> Option<&str> {
    text.strip_prefix("${")?.strip_suffix('}').filter(|name| !name.contains('}'))
}

fn repeated(name: &str) -> Result<Option<String>> {
    let Some(rest) = name.strip_prefix("repeat:") else { return Ok(None) };
    let (count, text) = rest.split_once(':').context("repeat needs a count and a text: ${repeat:3:ab}")?;
    Ok(Some(text.repeat(count.parse().with_context(|| format!("bad count in ${{{name}}}"))?)))
}

/// Lays a patch over a value, as RFC 7396 has it: objects merge, null removes, anything else replaces.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn placeholders() {
        let vars = Vars::from_iter([("dir".into(), json!("/d")), ("list".into(), json!(["a", "b"]))]);
        let value = json!({"${dir}/x": "${list}", "n": [1, "${repeat:3:ab}", "${later}"]});
        assert_eq!(
            expand(&value, &vars, Unknown::Keep).unwrap(),
            json!({"/d/x": ["a", "b"], "n": [1, "ababab", "${later}"]})
        );
        assert!(expand(&value, &vars, Unknown::Refuse).is_err());
        assert!(expand_text("${open", &vars, Unknown::Keep).is_err());
    }

    #[test]
    fn patches() {
        let mut target = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        merge(&mut target, &json!({"a": {"b": null, "e": 3}, "d": [2]}));
        assert_eq!(target, json!({"a": {"c": 2, "e": 3}, "d": [2]}));
    }
}
