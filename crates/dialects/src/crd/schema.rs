//! From the OpenAPI schema of a type to the structural schema that an API server takes.

use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Bounds for what has none of its own. Everything is bounded: the server reckons the cost of a rule from bounds, and
/// no object may grow without end.
const MAX_LENGTH: u32 = 253;
const MAX_ITEMS: u32 = 64;
const MAX_PROPERTIES: u32 = 64;

/// Keywords that mean the same on both sides.
const KEPT: [&str; 7] = ["description", "enum", "example", "format", "minimum", "maximum", "required"];

/// The structural schema of a type.
pub(crate) fn structural<T: ToSchema>() -> Value {
    let mut named = Vec::new();
    T::schemas(&mut named);
    let named = named.into_iter().map(|(name, schema)| (name, json_of(&schema))).collect();
    node(&json_of(&T::schema()), &named)
}

/// Schemas always serialize; one that did not would be empty, which the tests of the definitions notice.
fn json_of(schema: &impl Serialize) -> Value {
    serde_json::to_value(schema).unwrap_or_default()
}

fn node(schema: &Value, named: &BTreeMap<String, Value>) -> Value {
    // A reference stands for the schema it names; a description beside it speaks of the field and wins.
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        let mut inlined = named.get(name).map(|target| node(target, named)).unwrap_or_default();
        if let Some(description) = schema.get("description") {
            inlined["description"] = description.clone();
        }
        return inlined;
    }
    // `Option` of a reference. The server drops nulls where they are not allowed, which is what `None` means.
    if let Some(choices) = schema["oneOf"].as_array() {
        let some = choices.iter().find(|choice| choice["type"] != "null");
        return some.map(|choice| node(choice, named)).unwrap_or_default();
    }
    let mut out = Map::new();
    for key in KEPT {
        if let Some(value) = schema.get(key) {
            out.insert(key.to_owned(), value.clone());
        }
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null").cloned().unwrap_or_default(),
        kind => kind.clone(),
    };
    if let Some(items) = schema.get("items") {
        out.insert("items".to_owned(), node(items, named));
    }
    if let Some(fields) = schema["properties"].as_object() {
        let fields = fields.iter().map(|(name, field)| (name.clone(), node(field, named)));
        out.insert("properties".to_owned(), Value::Object(fields.collect()));
    } else if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        // Beside properties it is forbidden; unknown fields are then pruned or refused.
        out.insert("additionalProperties".to_owned(), node(values, named));
    }
    // Rust's unsigned 32 bits are more than the server's `int32`.
    if kind == "integer" && schema.get("minimum").is_some() {
        out.insert("format".to_owned(), json!("int64"));
        out.entry("maximum").or_insert(json!(u32::MAX));
    }
    out.insert("type".to_owned(), kind);
    Value::Object(out)
}

/// The part of a schema at `allow.nodes[]`: fields by name, `[]` for the items of a list, `{}` for the values of a map.
pub(crate) fn at<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut here = schema;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let name = part.trim_end_matches("[]").trim_end_matches("{}");
        here = here.get_mut("properties")?.get_mut(name)?;
        if part.ends_with("[]") {
            here = here.get_mut("items")?;
        } else if part.ends_with("{}") {
            here = here.get_mut("additionalProperties")?;
        }
    }
    Some(here)
}

/// Adds keywords to the part of a schema at a path. Whether there is such a part is for a test to say.
pub(crate) fn refine(schema: &mut Value, path: &str, keywords: &Value) -> bool {
    let (Some(target), Some(keywords)) = (at(schema, path).and_then(Value::as_object_mut), keywords.as_object()) else {
        return false;
    };
    for (key, value) in keywords {
        match (target.get_mut(key), value) {
            // Rules add up.
            (Some(Value::Array(old)), Value::Array(new)) if key == super::rules::RULES => old.extend(new.clone()),
            _ => drop(target.insert(key.clone(), value.clone())),
        }
    }
    true
}

/// Gives a bound to whatever has none.
pub(crate) fn bound(schema: &mut Value) {
    let Some(here) = schema.as_object_mut() else { return };
    match here.get("type").and_then(Value::as_str) {
        Some("string") if !here.contains_key("enum") => _ = here.entry("maxLength").or_insert(json!(MAX_LENGTH)),
        Some("array") => _ = here.entry("maxItems").or_insert(json!(MAX_ITEMS)),
        Some("object") if here.contains_key("additionalProperties") => {
            here.entry("maxProperties").or_insert(json!(MAX_PROPERTIES));
        }
        _ => {}
    }
    for key in ["items", "additionalProperties"] {
        here.get_mut(key).into_iter().for_each(bound);
    }
    if let Some(fields) = here.get_mut("properties").and_then(Value::as_object_mut) {
        fields.values_mut().for_each(bound);
    }
}
