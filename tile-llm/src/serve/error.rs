//! Errors in OpenAI's format.

use super::json_response;
use crate::engine::SubmitError;
use crate::scheduler::Refused;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// A status code and `{"error": {"message", "type", "param", "code"}}`.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    message: String,
    /// The field of the request that is wrong.
    param: Option<&'static str>,
    code: Option<&'static str>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> ApiError {
        ApiError { status, message: message.into(), param: None, code: None }
    }

    /// 400: `param` is wrong.
    pub(super) fn field(param: &'static str, why: impl std::fmt::Display) -> ApiError {
        let message = format!("`{param}` {why}");
        ApiError { param: Some(param), ..ApiError::new(StatusCode::BAD_REQUEST, message) }
    }

    pub(super) fn with_code(self, code: &'static str) -> ApiError {
        ApiError { code: Some(code), ..self }
    }

    pub(super) fn with_status(self, status: StatusCode) -> ApiError {
        ApiError { status, ..self }
    }

    /// The model failed on it: 500.
    pub(super) fn failed(why: impl std::fmt::Display) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the model failed: {why}"))
    }

    pub(super) fn body(&self) -> Value {
        let kind = match self.status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        json!({ "error": { "message": self.message, "type": kind, "param": self.param, "code": self.code } })
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> ApiError {
        let message = error.to_string();
        match error {
            SubmitError::Stopped => ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message),
            SubmitError::Refused(Refused::QueueFull { .. }) => {
                ApiError::new(StatusCode::TOO_MANY_REQUESTS, message).with_code("queue_full")
            }
            SubmitError::Refused(refused) => {
                let code = match refused {
                    Refused::Context { .. } | Refused::Cache { .. } => Some("context_length_exceeded"),
                    _ => None,
                };
                ApiError { code, ..ApiError::new(StatusCode::BAD_REQUEST, message) }
            }
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = json_response(self.status, &self.body());
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
