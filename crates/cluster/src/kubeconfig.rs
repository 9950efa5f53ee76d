//! Kubeconfig files: who one is, and where the API server is.

use crate::certificates::{Pair, secret};
use crate::error::Result;
use serde_json::{Value, json};
use std::path::Path;

/// How a client proves who it is.
pub(crate) enum Identity<'a> {
    /// With a bearer token.
    Token(&'a str),
    /// With a client certificate.
    Certificate(&'a Pair),
}

/// Writes a kubeconfig that only its owner may read. It is JSON, which is YAML too.
pub(crate) fn write(path: &Path, url: &str, authority: &Path, identity: &Identity<'_>) -> Result<()> {
    let user: Value = match identity {
        Identity::Token(token) => json!({ "token": token }),
        Identity::Certificate(pair) => json!({ "client-certificate": pair.certificate, "client-key": pair.key }),
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "berth", "cluster": { "server": url, "certificate-authority": authority } }],
        "users": [{ "name": "user", "user": user }],
        "contexts": [{ "name": "berth", "context": { "cluster": "berth", "user": "user" } }],
        "current-context": "berth",
    });
    secret(path, &format!("{config:#}\n"))
}
