//! Problems over HTTP (RFC 9457). Every error of the API has this form.

use std::any::Any;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use holdpoint_contracts::{FieldError, Problem};
use holdpoint_store::StoreError;
use sea_orm::DbErr;
use serde::Serialize;
use serde_json::{Map, Value};

/// Longest excerpt of a text, in characters.
const EXCERPT_MAX: usize = 120;

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct ApiError(#[from] pub(crate) Problem);

pub(crate) type ApiResult<T> = Result<T, ApiError>;

pub(crate) type JsonResult<T> = ApiResult<axum::Json<T>>;

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self(database_away(error))
    }
}

impl From<DbErr> for ApiError {
    fn from(error: DbErr) -> Self {
        Self(database_away(error))
    }
}

/// A problem in a body. The answer to a batch has one for each part that failed.
#[derive(Debug, Serialize)]
pub(crate) struct ProblemBody {
    /// The same for the same code.
    #[serde(rename = "type")]
    kind: String,
    title: String,
    status: u16,
    pub(crate) code: String,
    pub(crate) detail: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    /// Members that depend on the code, such as `winner` (RFC 9457, 3.2).
    #[serde(flatten)]
    data: Map<String, Value>,
}

impl From<Problem> for ProblemBody {
    fn from(problem: Problem) -> Self {
        let title = status(&problem)
            .canonical_reason()
            .unwrap_or("Error")
            .to_owned();
        Self {
            kind: format!("urn:holdpoint:problem:{}", problem.code),
            title,
            status: status(&problem).as_u16(),
            code: problem.code,
            detail: problem.detail,
            errors: problem.errors,
            data: match *problem.data {
                Value::Object(members) => members,
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_)
                | Value::Array(_) => Map::new(),
            },
        }
    }
}

/// The status of a problem. A service that sends another status than an error has a defect: 500.
pub(crate) fn status(problem: &Problem) -> StatusCode {
    StatusCode::from_u16(problem.status)
        .ok()
        .filter(|status| status.is_client_error() || status.is_server_error())
        .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = status(&self.0);
        let body = axum::Json(ProblemBody::from(self.0));
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        let problem_json = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, problem_json);
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// Logs that the gateway's database does not answer. The caller gets 503.
pub(crate) fn database_away(error: impl Into<StoreError>) -> Problem {
    let error: &dyn std::error::Error = &error.into();
    tracing::error!(
        error,
        "the gateway's database does not answer; the request is refused with 503"
    );
    Problem::unavailable("the gateway's database does not answer; try again")
}

/// 422: the key was used for another request.
pub(crate) fn key_reused() -> Problem {
    Problem::new(
        422,
        "idempotency_key_reused",
        "this Idempotency-Key was used for another body; use a new key for a new request",
    )
}

/// As much of a text of a caller as an answer repeats.
pub(crate) fn excerpt(text: &str) -> String {
    text.chars().take(EXCERPT_MAX).collect()
}

/// Logs the panic of a handler. The caller gets 500 without details.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the layer passes the payload by value"
)]
pub(crate) fn panicked(payload: Box<dyn Any + Send + 'static>) -> Response {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied());
    tracing::error!(
        panic = text.unwrap_or("without a message"),
        "a handler panicked; the request is answered with 500"
    );
    ApiError(Problem::internal()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_problem_says_type_title_status_code_and_detail() {
        let problem =
            Problem::new(422, "invalid_agent", "line 2 is no step").with_errors(vec![FieldError {
                line: Some(2),
                message: "no step".to_owned(),
                ..Default::default()
            }]);
        assert_eq!(
            serde_json::to_value(ProblemBody::from(problem)).unwrap(),
            json!({
                "type": "urn:holdpoint:problem:invalid_agent",
                "title": "Unprocessable Entity",
                "status": 422,
                "code": "invalid_agent",
                "detail": "line 2 is no step",
                "errors": [{"line": 2, "message": "no step"}],
            })
        );
    }

    #[test]
    fn a_problem_with_a_status_that_is_none_is_our_fault() {
        for status in [0, 200, 302, 1000] {
            let refused = ApiError(Problem::new(status, "odd", "odd"));
            assert_eq!(
                refused.into_response().status(),
                StatusCode::INTERNAL_SERVER_ERROR
            );
        }
    }

    #[test]
    fn headers_say_how_to_go_on() {
        let response = ApiError(Problem::new(401, "unauthorized", "no token")).into_response();
        assert_eq!(response.headers()[header::WWW_AUTHENTICATE], "Bearer");
        assert_eq!(
            response.headers()[header::CONTENT_TYPE],
            "application/problem+json"
        );
        let response = ApiError(Problem::unavailable("down")).into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
}
