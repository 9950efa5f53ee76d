//! Errors as RFC 9457 problem documents.

use axum::Json;
use axum::extract::rejection::{BytesRejection, JsonRejection, PathRejection, QueryRejection, StringRejection};
use axum::http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use berth_core::error::Error;
use serde::Serialize;
use utoipa::ToSchema;

/// What went wrong, for programs and people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Problem {
    /// Which problem this is: `urn:berth:problem:` and a short name.
    #[serde(rename = "type")]
    kind: String,
    /// The short name in words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// What happened, to which object.
    detail: String,
    /// The field that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// What a command line exits with.
    exit_code: u8,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, slug: &str, detail: String) -> Self {
        let title = slug.replace('-', " ");
        let kind = format!("urn:berth:problem:{slug}");
        Self { kind, title, status: status.as_u16(), detail, field: None, hint: None, exit_code: 1 }
    }

    /// The request did not get as far as a handler.
    fn rejected(status: StatusCode, slug: &str, detail: String) -> Self {
        let hint = match status {
            StatusCode::PAYLOAD_TOO_LARGE => "split it: a body may have 4 MiB",
            StatusCode::UNSUPPORTED_MEDIA_TYPE => "send JSON, with Content-Type: application/json",
            _ => "see /openapi.json for what is expected here",
        };
        Self { exit_code: 2, ..Self::new(status, slug, detail).hint(hint) }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let names = error.names();
        let status = StatusCode::from_u16(names.http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let problem = Self { exit_code: names.exit, ..Self::new(status, names.slug, error.to_string()) };
        let problem = problem.hint(names.hint);
        match error {
            Error::Invalid { field, .. } => problem.field(field),
            _ => problem,
        }
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        // The text ends with the path of the field and what was expected of it.
        let text = rejection.body_text();
        let problem = Self::rejected(rejection.status(), "bad-body", text.clone());
        let field = text.rsplit_once("target type: ").and_then(|(_, rest)| rest.split_once(": "));
        match field.filter(|(path, _)| !path.contains(' ')) {
            Some((path, _)) => problem.field(path),
            None => problem,
        }
    }
}

macro_rules! plain_rejection {
    ($($rejection:ty => $slug:literal),*) => {
        $(impl From<$rejection> for Problem {
            fn from(rejection: $rejection) -> Self {
                Self::rejected(rejection.status(), $slug, rejection.body_text())
            }
        })*
    };
}
plain_rejection!(QueryRejection => "bad-query", PathRejection => "bad-path", BytesRejection => "bad-body", StringRejection => "bad-body");

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self)).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}
