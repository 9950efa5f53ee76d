//! Manifests over HTTP.

use super::{Answer, Problem, blocking};
use crate::node::Node;
use crate::objects::Applied;
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum_extra::extract::WithRejection;
use berth_core::error::Error;
use berth_dialects::kinds::{self, KindInfo};
use berth_dialects::{Object, parse_manifests};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ApplyQuery {
    /// Say what would be done, and do nothing.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    /// Namespace, for kinds that have one.
    namespace: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApplyAnswer {
    /// What became of each object, in the order given.
    results: Vec<Applied>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Objects {
    /// The objects, in order of name.
    items: Vec<Object>,
}

/// Applies manifests, YAML or JSON, all or none.
#[utoipa::path(post, path = "/v1alpha1/apply", tag = "objects", params(ApplyQuery),
    request_body(content = String, content_type = "application/yaml", description = "Any number of documents"),
    responses((status = 200, body = ApplyAnswer), (status = 422, body = Problem, description = "An object is wrong"),
        (status = 409, body = Problem, description = "An address in use would be lost")))]
pub(crate) async fn apply(
    State(node): State<Arc<Node>>,
    WithRejection(Query(query), _): WithRejection<Query<ApplyQuery>, Problem>,
    WithRejection(body, _): WithRejection<String, Problem>,
) -> Answer<ApplyAnswer> {
    let objects = parse_manifests(&body).map_err(|error| {
        let problem = Problem::from(Error::Invalid { field: "manifest".to_owned(), reason: error.to_string() });
        problem.hint("mend the manifest; nothing of it was applied")
    })?;
    let results = blocking(&node, move |node| node.apply(&objects, query.dry_run)).await?;
    Ok(Json(ApplyAnswer { results }))
}

/// The objects of a kind, with their status.
#[utoipa::path(get, path = "/v1alpha1/objects/{kind}", tag = "objects",
    params(("kind" = String, Path, description = "Kind, plural or short name"), Place),
    responses((status = 200, body = Objects), (status = 404, body = Problem)))]
pub(crate) async fn list(
    State(node): State<Arc<Node>>,
    WithRejection(Path(kind), _): WithRejection<Path<String>, Problem>,
    WithRejection(Query(place), _): WithRejection<Query<Place>, Problem>,
) -> Answer<Objects> {
    let kind = find(&kind)?;
    let items = blocking(&node, move |node| node.list(kind, place.namespace.as_deref())).await?;
    Ok(Json(Objects { items }))
}

/// One object, with its status.
#[utoipa::path(get, path = "/v1alpha1/objects/{kind}/{name}", tag = "objects",
    params(("kind" = String, Path), ("name" = String, Path), Place),
    responses((status = 200, body = Object), (status = 404, body = Problem)))]
pub(crate) async fn get(
    State(node): State<Arc<Node>>,
    WithRejection(Path((kind, name)), _): WithRejection<Path<(String, String)>, Problem>,
    WithRejection(Query(place), _): WithRejection<Query<Place>, Problem>,
) -> Answer<Object> {
    let kind = find(&kind)?;
    let namespace = namespace(kind, place);
    blocking(&node, move |node| node.get(kind, namespace.as_deref(), &name)).await.map(Json)
}

/// Deletes one object, unless something depends on it.
#[utoipa::path(delete, path = "/v1alpha1/objects/{kind}/{name}", tag = "objects",
    params(("kind" = String, Path), ("name" = String, Path), Place),
    responses((status = 200, body = Applied), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "It is in use")))]
pub(crate) async fn delete(
    State(node): State<Arc<Node>>,
    WithRejection(Path((kind, name)), _): WithRejection<Path<(String, String)>, Problem>,
    WithRejection(Query(place), _): WithRejection<Query<Place>, Problem>,
) -> Answer<Applied> {
    let kind = find(&kind)?;
    let namespace = namespace(kind, place).unwrap_or_default();
    blocking(&node, move |node| node.delete(kind.kind, &namespace, &name)).await.map(Json)
}

/// The namespace that is meant: only namespaced kinds have one, and theirs is `default` if none is named.
fn namespace(kind: &KindInfo, place: Place) -> Option<String> {
    kind.namespaced.then(|| place.namespace.unwrap_or_else(|| berth_dialects::object::DEFAULT_NAMESPACE.to_owned()))
}

fn find(typed: &str) -> Result<&'static KindInfo, Problem> {
    kinds::find(typed).ok_or_else(|| {
        let known = kinds::KINDS.iter().map(|info| info.plural).collect::<Vec<_>>().join(", ");
        let problem = Problem::new(StatusCode::NOT_FOUND, "unknown-kind", format!("there is no kind {typed:?}"));
        match kinds::suggest(typed) {
            Some(meant) => problem.hint(format!("did you mean {meant}? There are {known}")),
            None => problem.hint(format!("there are {known}")),
        }
    })
}
