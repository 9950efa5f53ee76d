//! The envelope that every answer of the allocator comes in.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Nothing was asked for, or not enough.
pub(super) const BAD_REQUEST: u32 = 1;

/// Everything else that went wrong.
pub(super) const FAILED: u32 = 2;

/// An answer of the allocator. HTTP says 200 whatever is inside; `code` and `result` tell.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Envelope {
    /// 0 is success, 1 a bad request, 2 everything else.
    pub code: u32,
    /// What happened.
    pub message: String,
    /// Whether it worked.
    pub result: bool,
    /// What was given out or taken back; null on failure.
    pub data: Value,
    /// The request's `X-Request-Id`.
    pub request_id: String,
}

impl Envelope {
    pub(super) fn success(message: String, data: Value) -> Self {
        Self { code: 0, message, result: true, data, request_id: String::new() }
    }

    pub(super) fn failure(code: u32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), result: false, data: Value::Null, request_id: String::new() }
    }

    /// A failure that has nothing to do with the request.
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        Self::failure(FAILED, message)
    }

    /// The same, for this request.
    #[must_use]
    pub fn with_request_id(self, request_id: impl Into<String>) -> Self {
        Self { request_id: request_id.into(), ..self }
    }
}
