//! What is kept of the response to a failed HTTP call.
//!
//! Owns the bounds. A server may send back what it got, so the caller hides its secrets before anything leaves the node.

use std::time::Duration;

use holdpoint_contracts::size::json_bytes;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde_json::{Value, json};

use super::clean;
use crate::redaction::Redaction;
use crate::tool::ToolFailure;

/// Most of a body that is read and kept, in bytes. A longer one is cut.
pub(super) const BODY_KEPT_MAX: usize = 2 * 1024;

/// Longest body in JSON, whose escapes make a text longer. The executor keeps 4 KiB of data of a failed attempt.
const BODY_JSON_MAX: usize = 3 * 1024;

/// Longest content type, in characters.
const CONTENT_TYPE_MAX: usize = 200;

/// Longest time for the body. The status is known, and a server that sends no body must not make it a timeout.
const BODY_WITHIN: Duration = Duration::from_secs(2);

/// Reads the first bytes of the body. A body that ends early is kept as far as it came.
pub(super) async fn read_failed(
    mut response: reqwest::Response,
    host: &str,
    secrets: &Redaction,
) -> ToolFailure {
    let mut bytes = Vec::new();
    let reading = async {
        while bytes.len() < BODY_KEPT_MAX
            && let Ok(Some(chunk)) = response.chunk().await
        {
            bytes.extend_from_slice(&chunk);
        }
    };
    // What came in time is kept.
    tokio::time::timeout(BODY_WITHIN, reading).await.ok();
    let kind = content_type(response.headers());
    failed(host, response.status(), &kind, &bytes, secrets)
}

/// The failure of a status that is not a success, with status, content type and the first part of the body.
pub(super) fn failed(
    host: &str,
    status: StatusCode,
    content_type: &str,
    body: &[u8],
    secrets: &Redaction,
) -> ToolFailure {
    let data = json!({
        "status": status.as_u16(),
        "content_type": clean(content_type, CONTENT_TYPE_MAX),
        "body": first_part(body, secrets),
    });
    ToolFailure::new("http_status", format!("{host} answered {status}.")).with_data(data)
}

fn content_type(headers: &HeaderMap) -> String {
    let kind = headers.get(CONTENT_TYPE);
    let kind = kind.map(|kind| String::from_utf8_lossy(kind.as_bytes()).into_owned());
    kind.unwrap_or_default()
}

/// The body as a text without secrets, also without one that is cut at the end.
fn first_part(body: &[u8], secrets: &Redaction) -> String {
    let kept = body.get(..BODY_KEPT_MAX);
    let text = String::from_utf8_lossy(kept.unwrap_or(body));
    let text = if kept.is_some() {
        secrets.hide_in_start(&text)
    } else {
        secrets.hide_text(&text)
    };
    let mut text = clean(&text, BODY_KEPT_MAX);
    while json_bytes(&Value::from(text.as_str())) > BODY_JSON_MAX {
        let chars = text.chars().count();
        text = text.chars().take(chars - chars.div_ceil(8)).collect();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body_of(body: &[u8], secrets: &Redaction) -> String {
        let failure = failed("h", StatusCode::BAD_GATEWAY, "text/plain", body, secrets);
        failure.data["body"].as_str().unwrap().to_owned()
    }

    /// Gate 3: what is kept is bounded, whatever a server sends.
    #[test]
    fn a_body_is_cut_to_what_the_executor_keeps() {
        let secrets = Redaction::default();
        for body in [
            vec![b'x'; 100_000],
            vec![b'"'; 100_000],
            vec![0xff; 100_000],
            "é\u{0}".repeat(50_000).into_bytes(),
        ] {
            let text = body_of(&body, &secrets);
            assert!(json_bytes(&Value::from(text.as_str())) <= BODY_JSON_MAX);
            assert!(text.chars().count() >= 900, "{}", text.len());
        }
        assert_eq!(body_of(b"too\nlate", &secrets), "too late");
        assert_eq!(body_of(b"", &secrets), "");
    }

    /// Gate 3: a secret is hidden also where the body is cut.
    #[test]
    fn no_part_of_a_secret_is_kept() {
        let mut secrets = Redaction::default();
        secrets.add("hunter2-hunter2", "[secret]");
        assert_eq!(body_of(b"no hunter2-hunter2", &secrets), "no [secret]");
        for before in (BODY_KEPT_MAX - 20)..=BODY_KEPT_MAX {
            let body = format!("{}hunter2-hunter2 and more", "x".repeat(before));
            let text = body_of(body.as_bytes(), &secrets);
            assert!(!text.contains("hun"), "{text}");
        }
    }
}
