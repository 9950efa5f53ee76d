//! JSON objects the way Go programs read them.
//!
//! CNI configurations are written against Go's decoder: keys match whatever their case, the last of two equal keys
//! wins, and null is as good as absent. Values stay text until somebody asks for them, so that DEL works however
//! broken the parts of a configuration are that it does not need.

use crate::cni::{Error, code};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// An object whose values have not been read yet.
#[derive(Clone, Debug, Default)]
pub struct Object<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Object<'a> {
    /// The raw value of a key; `None` if it is absent or null.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a RawValue> {
        let (_, value) = self.0.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case(key))?;
        (value.get() != "null").then_some(*value)
    }

    /// The value of a key, read as `T`. `path` is the key as the user would find it in the file.
    ///
    /// # Errors
    /// [`code::INVALID_CONFIG`] naming the path.
    pub fn read<T: Deserialize<'a>>(&self, key: &str, path: &str) -> Result<Option<T>, Error> {
        self.get(key).map(|raw| read(raw, path)).transpose()
    }

    /// A list under a key; absent and null are the empty list, but a null inside it is an error.
    ///
    /// # Errors
    /// [`code::INVALID_CONFIG`] naming the path and, where it can, the place in the list.
    pub fn list<T: Deserialize<'a>>(&self, key: &str, path: &str) -> Result<Vec<T>, Error> {
        let items: Vec<&RawValue> = self.read(key, path)?.unwrap_or_default();
        items.into_iter().enumerate().map(|(index, raw)| read(raw, &format!("{path}[{index}]"))).collect()
    }

    /// The keys and their values, in the order written.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(key, value)| (key.as_str(), *value))
    }
}

/// Reads one raw value.
pub(super) fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue, path: &str) -> Result<T, Error> {
    serde_json::from_str(raw.get()).map_err(|error| invalid(path, &error))
}

/// The error for a value that is there but wrong.
pub(super) fn invalid(path: &str, why: &dyn fmt::Display) -> Error {
    Error::new(code::INVALID_CONFIG, format!("invalid network config: {path}: {why}"))
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::with_capacity(8);
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_map(Entries).map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Object<'_> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn keys_match_as_in_go() {
        let object = object(r#"{"RuntimeConfig": 1, "runtimeConfig": 2, "name": null, "Ips": 3}"#);
        assert_eq!(object.read("runtimeconfig", "x"), Ok(Some(2)));
        assert_eq!(object.read("ips", "x"), Ok(Some(3)));
        assert_eq!(object.read::<u8>("name", "x"), Ok(None));
        assert_eq!(object.read::<u8>("other", "x"), Ok(None));
    }

    #[test]
    fn mistakes_name_their_place() {
        let object = object(r#"{"ips": ["10.0.0.1", null], "name": 5}"#);
        let error = object.list::<String>("ips", "runtimeConfig.ips").unwrap_err();
        assert_eq!(error.code, code::INVALID_CONFIG);
        assert!(error.msg.contains("runtimeConfig.ips[1]: invalid type: null, expected a string"), "{}", error.msg);
        let error = object.list::<String>("name", "name").unwrap_err();
        assert!(error.msg.contains("name: invalid type"), "{}", error.msg);
    }

    #[test]
    fn what_nobody_asks_for_may_be_anything() {
        let deep = format!("{{\"x\": {}1{}, \"y\": 7}}", "[".repeat(100_000), "]".repeat(100_000));
        let object = object(&deep);
        assert_eq!(object.read("y", "y"), Ok(Some(7)));
        assert!(object.read::<serde_json::Value>("x", "x").is_err(), "too deep to read, but no crash");
    }
}
