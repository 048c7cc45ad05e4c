//! One id and one line in the log for every request. Paths and statuses, never headers or queries.

use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument as _;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest id that is taken over from the caller.
const ID_MAX: usize = 128;

/// Gives the request an id (the caller's, if it has a sensible one), and logs how it ended.
pub(crate) async fn log(request: Request, next: Next) -> Response {
    let began = Instant::now();
    let given = request
        .headers()
        .get(REQUEST_ID)
        .and_then(|value| value.to_str().ok());
    let id = given
        .filter(|id| is_sensible(id))
        .map_or_else(fresh, str::to_owned);
    let method = request.method().clone();
    let path = shown(request.uri().path()).to_owned();
    let span = tracing::info_span!("http", request = id);
    let mut response = next.run(request).instrument(span.clone()).await;
    let (status, ms) = (response.status().as_u16(), began.elapsed().as_millis());
    span.in_scope(|| {
        // Probes ask every few seconds and say nothing while all is well.
        if is_probe(&path) && status < 400 {
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

fn fresh() -> String {
    format!("{:016x}", rand::random::<u64>())
}

fn is_sensible(id: &str) -> bool {
    (1..=ID_MAX).contains(&id.len()) && id.chars().all(|c| c.is_ascii_graphic())
}

/// What the log may show of a path: a log-in link is a secret until it was used, and so is a mail's.
fn shown(path: &str) -> &str {
    if path.starts_with("/login/") {
        "/login/…"
    } else if path.starts_with("/l/") {
        "/l/…"
    } else {
        path
    }
}

fn is_probe(path: &str) -> bool {
    matches!(path, "/livez" | "/readyz")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_in_link_is_not_in_the_log() {
        assert_eq!(shown("/login/s3cr3t"), "/login/…");
        assert_eq!(shown("/l/s3cr3t"), "/l/…");
        assert_eq!(shown("/login"), "/login");
        assert_eq!(
            shown("/v1/workspaces/default/runs"),
            "/v1/workspaces/default/runs"
        );
    }
}
