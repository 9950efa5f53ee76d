//! Reading case files.

use crate::case::Case;
use crate::template::{self, Unknown, Vars};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// One file of cases. They stay untyped until their tables are expanded, since a table may fill in any part of a case.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    /// What the file covers; for the reader.
    #[serde(rename = "about")]
    _about: String,
    /// The configuration that every case patches.
    config: Value,
    cases: Vec<Value>,
}

/// Where the suite's own cases live.
#[must_use]
pub fn default_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

/// Reads every `*.yaml` file of a directory, in the order of their names.
///
/// # Errors
/// If a file cannot be read, a case is malformed, or two cases have one name.
pub fn load_dir(dir: &Path) -> Result<Vec<Case>> {
    let mut paths = fs::read_dir(dir)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>())
        .with_context(|| format!("cannot list {}", dir.display()))?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();

    let mut cases = Vec::new();
    for path in paths {
        cases.extend(load_file(&path).with_context(|| format!("in {}", path.display()))?);
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = cases.iter().find(|case| !names.insert(&case.name)) {
        bail!("two cases are called {:?}", twice.name);
    }
    Ok(cases)
}

fn load_file(path: &Path) -> Result<Vec<Case>> {
    let file: File = serde_saphyr::from_str(&fs::read_to_string(path)?)?;
    let mut cases = Vec::new();
    for case in file.cases {
        let name = case["name"].as_str().unwrap_or("(no name)").to_owned();
        cases.extend(expand_table(case, &file.config).with_context(|| format!("case {name:?}"))?);
    }
    Ok(cases)
}

/// A case with a `table` is a case per row, whose columns are variables; `row` names it.
fn expand_table(mut case: Value, config: &Value) -> Result<Vec<Case>> {
    let table = case.as_object_mut().and_then(|case| case.remove("table"));
    let rows: Vec<Vars> = match table {
        Some(table) => serde_json::from_value(table).context("a table is a list of maps")?,
        None => vec![Vars::new()],
    };
    rows.into_iter()
        .map(|row| {
            let mut case = template::expand(&case, &row, Unknown::Keep)?;
            let mut full = config.clone();
            template::merge(&mut full, case.get("config").unwrap_or(&Value::Object(Vars::new())));
            case["config"] = full;
            let mut case: Case = serde_json::from_value(case)?;
            if let Some(label) = row.get("row").and_then(Value::as_str) {
                case.name = format!("{}: {label}", case.name);
            }
            Ok(case)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every difference on purpose must say why: the list of them is documentation.
    #[test]
    fn the_suite_loads_and_its_differences_have_reasons() {
        let cases = load_dir(&default_dir()).unwrap();
        assert!(cases.len() > 100, "only {} cases", cases.len());
        for step in cases.iter().flat_map(|case| &case.steps) {
            for differs in [&step.host_local, &step.berth].into_iter().flatten() {
                assert!(differs.why.len() > 10, "{step:?}");
            }
        }
    }
}
