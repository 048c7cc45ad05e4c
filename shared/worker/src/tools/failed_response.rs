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

/// Longest time for the body. The status is known, so a server that sends no body makes it no timeout, unless the limit of
/// the call ends before.
const BODY_WITHIN: Duration = Duration::from_secs(2);

/// Reads the first bytes of the body. A body that ends early is kept as far as it came.
pub(super) async fn read_failed(
    mut response: reqwest::Response,
    host: &str,
    secrets: &Redaction,
) -> ToolFailure {
    let mut bytes = Vec::new();
    let reading = async {
        while bytes.len() <= BODY_KEPT_MAX {
            match response.chunk().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => return true,
                Err(_broken) => return false,
            }
        }
        false
    };
    // What came in time is kept.
    let is_whole = tokio::time::timeout(BODY_WITHIN, reading).await;
    let body = FailedBody {
        content_type: &content_type(response.headers()),
        bytes: &bytes,
        is_whole: is_whole.unwrap_or(false),
    };
    failed(host, response.status(), &body, secrets)
}

/// The body of a response that is a failure.
pub(super) struct FailedBody<'a> {
    pub(super) content_type: &'a str,
    pub(super) bytes: &'a [u8],
    /// False: more was to come.
    pub(super) is_whole: bool,
}

/// The failure of a status that is not a success, with status, content type and the first part of the body.
pub(super) fn failed(
    host: &str,
    status: StatusCode,
    body: &FailedBody<'_>,
    secrets: &Redaction,
) -> ToolFailure {
    let data = json!({
        "status": status.as_u16(),
        "content_type": clean(body.content_type, CONTENT_TYPE_MAX),
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
fn first_part(body: &FailedBody<'_>, secrets: &Redaction) -> String {
    let kept = body.bytes.get(..BODY_KEPT_MAX);
    let text = String::from_utf8_lossy(kept.unwrap_or(body.bytes));
    let hide = |text: &str| {
        if kept.is_some() || !body.is_whole {
            secrets.hide_in_start(text)
        } else {
            secrets.hide_text(text)
        }
    };
    // JSON may write a character of a secret in another way.
    let plain = unescaped(&text);
    let hidden = hide(&plain);
    let text = if hidden == plain { hide(&text) } else { hidden };
    let mut text = clean(&text, BODY_KEPT_MAX);
    while json_bytes(&Value::from(text.as_str())) > BODY_JSON_MAX {
        let chars = text.chars().count();
        text = text.chars().take(chars - chars.div_ceil(8)).collect();
    }
    text
}

/// The text with the escapes of JSON as what they mean. An escape that means nothing stays, and so does half of a pair.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        plain.push_str(before);
        let code = escape.strip_prefix('u').and_then(|it| it.get(..4));
        let code = code.and_then(|code| u32::from_str_radix(code, 16).ok());
        let (meant, length) = match (code.and_then(char::from_u32), escape.chars().next()) {
            (Some(meant), _) => (Some(meant), "u0000".len()),
            (None, Some(meant @ ('"' | '\\' | '/'))) => (Some(meant), 1),
            (None, _) => (None, 0),
        };
        plain.push(meant.unwrap_or('\\'));
        rest = escape.get(length..).unwrap_or_default();
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part_of(bytes: &[u8], is_whole: bool, secrets: &Redaction) -> String {
        let body = FailedBody {
            content_type: "text/plain",
            bytes,
            is_whole,
        };
        let failure = failed("h", StatusCode::BAD_GATEWAY, &body, secrets);
        failure.data["body"].as_str().unwrap().to_owned()
    }

    fn body_of(bytes: &[u8], secrets: &Redaction) -> String {
        part_of(bytes, true, secrets)
    }

    /// Gate 3: servers write the same secret in different ways.
    #[test]
    fn an_escaped_secret_is_hidden() {
        let mut secrets = Redaction::default();
        secrets.add("ab/c\"d=é\\", "[secret]");
        for written in [
            r#"ab/c"d=é\"#,
            r#"ab\/c\"d=é\\"#,
            r#"ab/c\u0022d\u003d\u00e9\u005c"#,
        ] {
            let body = format!(r#"{{"got": "{written}"}}"#);
            let text = body_of(body.as_bytes(), &secrets);
            assert_eq!(text, r#"{"got": "[secret]"}"#, "{written}");
        }
        for other in [r"C:\temp\u12", r"\", r"\ud800 \x", r"a\u00"] {
            assert_eq!(body_of(other.as_bytes(), &secrets), other);
        }
    }

    /// Gate 3: a connection may break in the middle of a secret.
    #[test]
    fn no_part_of_a_secret_is_kept_where_the_body_ends_early() {
        let mut secrets = Redaction::default();
        secrets.add("hunter2-hunter2", "[secret]");
        for end in 1..="hunter2-hunter2".len() {
            let body = format!("key {}", &"hunter2-hunter2"[..end]);
            let text = part_of(body.as_bytes(), false, &secrets);
            assert!(!text.contains('h'), "{text}");
        }
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
