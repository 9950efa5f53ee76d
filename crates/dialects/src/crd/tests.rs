use super::*;
use crate::native::{claim_status, pool_status, subnet_status};
use crate::{Object, lower_all, parse_manifests};
use berth_core::ipam::Usage;
use berth_core::model::Pool;
use std::path::Path;

const ACCEPTED: &str = include_str!("testdata/accepted.yaml");
const REFUSED: &str = include_str!("testdata/refused.yaml");

/// Keywords of a structural schema that we use; `x-kubernetes-*` are allowed beside them.
const KEYWORDS: &[&str] = &[
    "type",
    "description",
    "properties",
    "required",
    "items",
    "additionalProperties",
    "enum",
    "example",
    "format",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "maxProperties",
    "pattern",
    "default",
];

fn schema_of(kind: &str) -> Value {
    let info = KINDS.iter().find(|info| info.kind == kind).expect("a kind");
    definition(info).expect("a definition")["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Calls `look` with every schema inside, and its path.
fn walk(schema: &Value, path: &str, look: &mut impl FnMut(&str, &Value)) {
    look(path, schema);
    if let Some(fields) = schema["properties"].as_object() {
        fields.iter().for_each(|(name, field)| walk(field, &format!("{path}.{name}"), look));
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(inner) = schema.get(key) {
            walk(inner, &format!("{path}{mark}"), look);
        }
    }
}

#[test]
fn every_native_kind_has_a_definition_and_no_other() {
    let with: Vec<_> = kinds_of(Dialect::Native).map(|info| info.kind).collect();
    assert_eq!(with, ["IPPool", "IPSubnet", "IPReservation", "IPClaim", "IPEndpoint", "IPBlock"]);
    let text = yaml(kinds()).expect("YAML");
    assert_eq!(text.matches("\n---\n").count() + 1, with.len());
}

#[test]
fn schemas_are_structural_described_and_bounded() {
    for info in kinds() {
        let schema = schema_of(info.kind);
        for part in ["spec", "status"] {
            let Some(schema) = schema["properties"].get(part) else { continue };
            walk(schema, &format!("{}.{part}", info.kind), &mut |path, node| {
                let object = node.as_object().unwrap_or_else(|| panic!("{path}: {node}"));
                for key in object.keys() {
                    let known = KEYWORDS.contains(&key.as_str()) || key.starts_with("x-kubernetes-");
                    assert!(known, "{path}: {key}");
                }
                let kind = node["type"].as_str().unwrap_or_else(|| panic!("{path}: {node}"));
                let bound = match kind {
                    "string" if object.contains_key("enum") => "enum",
                    "string" => "maxLength",
                    "array" => "maxItems",
                    "object" if object.contains_key("additionalProperties") => "maxProperties",
                    "object" => "properties",
                    "integer" | "boolean" => "type",
                    _ => panic!("{path}: {kind}"),
                };
                assert!(object.contains_key(bound), "{path} has no {bound}");
                let described = path.ends_with("[]") || path.ends_with("{}") || node["description"].is_string();
                assert!(described, "{path} has no description");
            });
        }
    }
}

#[test]
fn every_limit_and_rule_has_its_field() {
    for info in kinds() {
        let mut schema = schema_of(info.kind)["properties"]["spec"].clone();
        for (path, keywords) in rules::of(info.kind) {
            assert!(schema::at(&mut schema, path).is_some(), "{} {path}", info.kind);
            for rule in keywords[rules::RULES].as_array().into_iter().flatten() {
                assert!(rule["message"].is_string(), "{} {path}: {rule}", info.kind);
            }
        }
    }
}

/// The most characters that a value may take as JSON.
fn largest(schema: &Value) -> usize {
    let number = |key: &str| schema[key].as_u64().map(|n| usize::try_from(n).expect("small"));
    match schema["type"].as_str() {
        Some("string") => {
            let longest = schema["enum"].as_array().map(|all| all.iter().map(|word| word.to_string().len()).max());
            longest.flatten().unwrap_or_else(|| number("maxLength").expect("bounded") + 2)
        }
        Some("array") => 2 + number("maxItems").expect("bounded") * (1 + largest(&schema["items"])),
        Some("object") => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            let fields: usize = fields.map(|(name, field)| name.len() + 4 + largest(field)).sum();
            let values = schema
                .get("additionalProperties")
                .map(|values| number("maxProperties").expect("bounded") * (largest(values) + 253 + 4));
            2 + fields + values.unwrap_or_default()
        }
        _ => 20,
    }
}

#[test]
fn no_object_passes_256_kib() {
    for info in kinds() {
        let schema = schema_of(info.kind);
        // Labels, annotations and managed fields are not ours to bound.
        let most = largest(&schema["properties"]["spec"]);
        assert!(most < (256 << 10) - 4096, "the spec of {}: {most}", info.kind);
    }
}

/// What a value has that its schema does not allow, apart from rules and patterns, which need the real server.
fn misfit(value: &Value, schema: &Value, path: &str) -> Option<String> {
    // The server drops nulls that are not allowed.
    if value.is_null() {
        return None;
    }
    let fits = match schema["type"].as_str() {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        _ => value.is_object(),
    };
    let in_enum = schema["enum"].as_array().is_none_or(|words| words.contains(value));
    let length = value.as_str().map(str::len).or(value.as_array().map(Vec::len)).unwrap_or_default() as u64;
    let most = ["maxLength", "maxItems"].iter().find_map(|key| schema[*key].as_u64());
    let least = schema["minItems"].as_u64().unwrap_or_default();
    let number = value.as_i64().unwrap_or_default();
    let in_range = schema["minimum"].as_i64().is_none_or(|low| low <= number)
        && schema["maximum"].as_i64().is_none_or(|high| number <= high);
    if !fits || !in_enum || !in_range || most.is_some_and(|most| length > most) || length < least {
        return Some(format!("{path}: {value}"));
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.into_iter().find(|name| value.get(name).is_none()) {
        return Some(format!("{path}.{missing} is missing"));
    }
    if let Some(items) = value.as_array() {
        return items.iter().find_map(|item| misfit(item, &schema["items"], &format!("{path}[]")));
    }
    value.as_object()?.iter().find_map(|(name, field)| {
        let path = format!("{path}.{name}");
        match schema["properties"].get(name).or(schema.get("additionalProperties")) {
            Some(schema) => misfit(field, schema, &path),
            None => Some(format!("{path} is unknown")),
        }
    })
}

fn misfits(object: &Object) -> Option<String> {
    misfit(&object.spec, &schema_of(&object.kind)["properties"]["spec"], &object.title())
}

#[test]
fn what_the_daemon_takes_fits_the_definitions() {
    let mut texts = vec![("accepted.yaml".to_owned(), ACCEPTED.to_owned())];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    pages.extend(std::fs::read_dir(root.join("docs")).expect("docs").map(|entry| entry.expect("an entry").path()));
    for page in pages.iter().filter(|page| page.extension().is_some_and(|ext| ext == "md")) {
        let text = std::fs::read_to_string(page).expect("a page");
        let fenced = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        let piped = text.split("<<EOF\n").skip(1).filter_map(|rest| rest.split("EOF\n").next());
        let spoken = ["apiVersion: berth.io/", "apiVersion: spiderpool.spidernet.io/"];
        let own = fenced.chain(piped).filter(|text| spoken.iter().any(|version| text.contains(version)));
        texts.extend(own.map(|manifest| (page.display().to_string(), manifest.to_owned())));
    }
    assert!(texts.len() > 4, "the pages have examples");
    for (page, text) in texts {
        for object in parse_manifests(&text).unwrap_or_else(|error| panic!("{page}: {error}\n{text}")) {
            assert_eq!(misfits(&object), None, "{page}");
        }
    }
}

/// Whether the API server says what is promised is tested where there is one; that the daemon refuses the same, here.
#[test]
fn what_the_definitions_refuse_the_daemon_refuses() {
    for manifest in REFUSED.split("---\n").skip(1) {
        let refused = match parse_manifests(manifest) {
            Err(_) => true,
            Ok(objects) => lower_all(&objects).and_then(|config| config.validate()).is_err(),
        };
        assert!(refused, "{manifest}");
    }
}

#[test]
fn what_is_raised_into_status_is_described() {
    let pool = Pool::new("blue", vec!["10.0.0.0/24".parse().expect("a range")]);
    let usage = Usage::default();
    for (kind, status) in [
        ("IPPool", pool_status(&pool, &usage)),
        ("IPSubnet", subnet_status(&usage)),
        ("IPClaim", claim_status(&["10.0.0.1".parse().expect("an address")])),
    ] {
        let schema = &schema_of(kind)["properties"]["status"];
        assert_eq!(misfit(&status, schema, kind), None);
        assert_eq!(schema["properties"]["conditions"]["x-kubernetes-list-map-keys"], json!(["type"]));
    }
    for kind in ["IPReservation", "IPEndpoint", "IPBlock"] {
        assert!(schema_of(kind)["properties"].get("status").is_none(), "{kind}");
    }
}

#[test]
fn short_names_do_not_hide_core_resources() {
    let info = KINDS.iter().find(|info| info.kind == "IPEndpoint").expect("a kind");
    assert_eq!(definition(info).expect("a definition")["spec"]["names"]["shortNames"], json!(["ipep"]));
}

#[test]
fn the_webhook_is_asked_about_our_kinds_alone_and_may_be_down() {
    let [refuses, fills_in] = super::webhooks();
    assert_eq!(refuses["kind"], "ValidatingWebhookConfiguration");
    assert_eq!(fills_in["kind"], "MutatingWebhookConfiguration");
    for webhook in [&refuses, &fills_in] {
        let hook = &webhook["webhooks"][0];
        assert_eq!(webhook["webhooks"].as_array().map(Vec::len), Some(1));
        assert_eq!((&hook["failurePolicy"], &hook["timeoutSeconds"]), (&json!("Ignore"), &json!(3)));
        assert!(hook["clientConfig"].get("caBundle").is_none());
    }
    let rules = |webhook: &Value| webhook["webhooks"][0]["rules"].clone();
    let spiderpool = json!(["spiderippools", "spidersubnets", "spiderreservedips"]);
    assert_eq!(rules(&refuses)[0]["apiGroups"], json!(["berth.io"]));
    assert_eq!(rules(&refuses)[0]["resources"], json!(["ippools", "ipsubnets", "ipreservations", "ipclaims"]));
    assert_eq!(rules(&refuses)[1]["resources"], spiderpool);
    // The schemas of Berth's own kinds fill in what they lack.
    assert_eq!(rules(&fills_in).as_array().map(Vec::len), Some(1));
    assert_eq!(rules(&fills_in)[0]["resources"], spiderpool);
    assert_eq!(rules(&fills_in)[0]["operations"], json!(["CREATE", "UPDATE"]));
}
