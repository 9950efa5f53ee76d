//! Files of objects, as they are given to `-f`.

use crate::{Error, Result};
use serde_json::Value;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// The text of all files together, as one stream of YAML documents. JSON is YAML.
pub(crate) fn read(files: &[PathBuf]) -> Result<String> {
    let mut documents = Vec::new();
    for file in files {
        if file.as_os_str() == "-" {
            documents.push(io::read_to_string(io::stdin()).map_err(|error| Error::file(file, &error))?);
        } else if file.is_dir() {
            for file in manifests_in(file)? {
                documents.push(read_file(&file)?);
            }
        } else {
            documents.push(read_file(file)?);
        }
    }
    Ok(documents.join("\n---\n"))
}

fn read_file(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| Error::file(path, &error))
}

/// The manifests of a directory by name, so that the order is the same every time.
fn manifests_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let is_manifest = |path: &PathBuf| path.extension().is_some_and(|e| EXTENSIONS.iter().any(|known| e == *known));
    let entries = fs::read_dir(dir)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<PathBuf>>>());
    let mut files = entries.map_err(|error| Error::file(dir, &error))?;
    files.retain(is_manifest);
    files.sort();
    if files.is_empty() {
        return Err(Error::file(dir, &format!("no .{} file in it", EXTENSIONS.join(", ."))));
    }
    Ok(files)
}

/// What an object is found by.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ObjectRef {
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// The objects that a text describes. Only what names them is looked at.
pub(crate) fn objects(text: &str) -> Result<Vec<ObjectRef>> {
    let wrong = |message: String| Error::Usage { message, hint: "every object needs kind and metadata.name" };
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| wrong(error.to_string()))?;
    let mut objects = Vec::new();
    for (i, document) in documents.iter().enumerate().filter(|(_, document)| !document.is_null()) {
        // `kind: List` holds objects in place of being one.
        let items = document.get("items").and_then(Value::as_array);
        for object in items.map_or(std::slice::from_ref(document), Vec::as_slice) {
            let part = |pointer| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            let (Some(kind), Some(name)) = (part("/kind"), part("/metadata/name")) else {
                return Err(wrong(format!("document {}: this is no object", i + 1)));
            };
            objects.push(ObjectRef { kind, namespace: part("/metadata/namespace"), name });
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, namespace: Option<&str>, name: &str) -> ObjectRef {
        ObjectRef { kind: kind.into(), namespace: namespace.map(Into::into), name: name.into() }
    }

    #[test]
    fn objects_are_named_by_yaml_json_and_lists() {
        let text = "kind: IPPool\nmetadata: {name: blue}\n---\n---\n\
            {\"kind\": \"List\", \"items\": [{\"kind\": \"IPClaim\", \"metadata\": {\"name\": \"vip\", \"namespace\": \"web\"}}]}\n";
        let found = objects(text).unwrap();
        assert_eq!(found, [object("IPPool", None, "blue"), object("IPClaim", Some("web"), "vip")]);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["kind: IPPool\n", "[1, 2]\n", "a: b: c\n"] {
            assert_eq!(objects(text).unwrap_err().exit_code(), 2, "{text}");
        }
    }

    #[test]
    fn a_directory_is_read_by_name_and_must_have_manifests() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(&[dir.path().to_owned()]).unwrap_err().to_string().contains("no .yaml, .yml, .json file"));
        for (name, text) in [("b.yml", "b"), ("a.yaml", "a"), ("c.json", "c"), ("README.md", "no")] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        assert_eq!(read(&[dir.path().to_owned()]).unwrap(), "a\n---\nb\n---\nc");
    }
}
