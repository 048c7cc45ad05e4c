//! Saying no over HTTP (RFC 9457). Every error of the gateway leaves through here.

use std::any::Any;

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use holdpoint_contracts::{FieldError, Problem};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::pages;

/// A problem on its way out.
#[derive(Debug)]
pub(crate) struct ApiError(pub(crate) Problem);

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

/// A problem as it stands in a body; also a part of a batch's answer.
#[derive(Debug, Serialize)]
pub(crate) struct ProblemBody {
    /// Names the kind of problem; the same for the same code.
    #[serde(rename = "type")]
    kind: String,
    title: String,
    status: u16,
    pub(crate) code: String,
    pub(crate) detail: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    /// Members of the code's own, such as `winner` (RFC 9457, 3.2).
    #[serde(flatten)]
    data: Map<String, Value>,
}

impl From<Problem> for ProblemBody {
    fn from(problem: Problem) -> Self {
        let title = status(&problem)
            .canonical_reason()
            .unwrap_or("ApiError")
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

/// What is no error status cannot be a problem: then it is our fault.
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

/// The gateway's own database does not answer: logged here, told as "try again".
pub(crate) fn database_away(error: impl Into<holdpoint_store::StoreError>) -> Problem {
    let error: &dyn std::error::Error = &error.into();
    tracing::error!(error, "the gateway's database does not answer");
    Problem::unavailable("the gateway's database does not answer; try again")
}

/// There is no such path.
pub(crate) async fn no_such_path(uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path();
    if is_for_people(&uri, &headers) {
        return pages::refused(&Problem::not_found(format!(
            "There is no page at {path}. The address may be incomplete."
        )));
    }
    ApiError(Problem::not_found(format!("there is nothing at {path}"))).into_response()
}

/// The path exists with other methods; the header `Allow` lists them.
pub(crate) async fn no_such_method(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path();
    let refused = |detail| Problem::new(405, "method_not_allowed", detail);
    if is_for_people(&uri, &headers) {
        let detail = format!("{path} is the address of a form. Open its page and use the form.");
        return pages::refused(&refused(detail));
    }
    let detail = format!("{method} is not possible at {path}; `Allow` says what is");
    ApiError(refused(detail)).into_response()
}

/// Whether a browser asks, for something that is not below the API.
fn is_for_people(uri: &Uri, headers: &HeaderMap) -> bool {
    let accepts_pages = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"));
    accepts_pages && !uri.path().starts_with("/v1/")
}

/// A handler panicked: logged here, and nothing of it leaves.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the layer gives the payload away"
)]
pub(crate) fn panicked(payload: Box<dyn Any + Send + 'static>) -> Response {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied());
    tracing::error!(
        panic = text.unwrap_or("without words"),
        "a handler panicked"
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
