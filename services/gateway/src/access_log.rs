//! An id and a log line for every request. The log has paths and statuses, never headers or queries.

use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument as _;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest id that a caller can choose.
const ID_MAX: usize = 128;

/// Gives the request an id, or keeps a valid one of the caller, and logs the answer.
pub(crate) async fn log_request(request: Request, next: Next) -> Response {
    let began = Instant::now();
    let given = request
        .headers()
        .get(REQUEST_ID)
        .and_then(|value| value.to_str().ok());
    let is_visible = |id: &&str| id.chars().all(|c| c.is_ascii_graphic());
    let valid = given.filter(|id| (1..=ID_MAX).contains(&id.len()) && is_visible(id));
    let fresh = || format!("{:016x}", rand::random::<u64>());
    let id = valid.map_or_else(fresh, str::to_owned);
    let method = request.method().clone();
    let path = redact_path(request.uri().path()).to_owned();
    let span = tracing::info_span!("http", request = id);
    let mut response = next.run(request).instrument(span.clone()).await;
    let (status, ms) = (response.status().as_u16(), began.elapsed().as_millis());
    span.in_scope(|| {
        // Probes come every few seconds, so only their failures are logged.
        if matches!(&*path, "/livez" | "/readyz") && status < 400 {
            tracing::debug!(%method, path, status, %ms, "answered");
        } else if status >= 500 {
            tracing::warn!(%method, path, status, %ms, "answered");
        } else {
            tracing::info!(%method, path, status, %ms, "answered");
        }
    });
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// A path without secrets: login links and links in mails open a session.
fn redact_path(path: &str) -> &str {
    if path.starts_with("/login/") {
        "/login/…"
    } else if path.starts_with("/l/") {
        "/l/…"
    } else {
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_in_link_is_not_in_the_log() {
        assert_eq!(redact_path("/login/s3cr3t"), "/login/…");
        assert_eq!(redact_path("/l/s3cr3t"), "/l/…");
        assert_eq!(redact_path("/login"), "/login");
        assert_eq!(
            redact_path("/v1/workspaces/default/runs"),
            "/v1/workspaces/default/runs"
        );
    }
}
