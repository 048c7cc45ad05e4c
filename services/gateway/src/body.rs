//! Request bodies: their limits, media types and JSON, and the caller's idempotency key.

use axum::body::Body as HttpBody;
use axum::extract::{FromRequestParts, OriginalUri, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use futures_util::StreamExt;
use holdpoint_contracts::value_limits::{self, LimitExceeded};
use holdpoint_contracts::{FieldError, IdempotencyKey, Problem, duration};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::auth::caller::Bearer;
use crate::body_limits::{BODY_MAX, is_too_slow, too_large};
use crate::problem::{ApiResult, excerpt};

/// Longest `Idempotency-Key`, in characters.
const KEY_MAX: usize = 255;

#[derive(Debug)]
pub(crate) struct Body {
    bytes: Vec<u8>,
    media_type: Option<String>,
}

/// All bytes of a body, within its limits.
pub(crate) async fn arrived(body: HttpBody) -> Result<Vec<u8>, Problem> {
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| broken_off(&error))?;
        if bytes.len().saturating_add(chunk.len()) > BODY_MAX {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn broken_off(error: &axum::Error) -> Problem {
    if is_too_slow(error) {
        return Problem::new(408, "body_too_slow", "the body did not arrive in time");
    }
    Problem::new(
        400,
        "invalid_body",
        format!("the body ended early: {error}"),
    )
}

impl Body {
    /// Reads a body, and the caller's idempotency key with a digest of the request.
    pub(crate) async fn read(
        request: Request,
        app: &App,
    ) -> ApiResult<(Option<IdempotencyKey>, Self)> {
        let (mut parts, body) = request.into_parts();
        let bearer = Bearer::from_request_parts(&mut parts, app).await?;
        let (workspace, kind, name) = bearer.scope();
        let caller_key = idempotency_key(&parts.headers)?;
        let bytes = arrived(body).await?;
        let key = caller_key.map(|key| IdempotencyKey {
            key: scoped(&[workspace, kind, &name, &route(&parts), &key]),
            digest: digest(&parts, &bytes),
        });
        let media_type = parts.headers.get(header::CONTENT_TYPE).map(media_type);
        Ok((key, Self { bytes, media_type }))
    }

    /// The JSON object in the body. An empty body means `{}` if it may be empty.
    pub(crate) fn json<T: DeserializeOwned>(&self, may_be_empty: bool) -> Result<T, Problem> {
        if !self.bytes.is_empty() {
            self.must_be("JSON (`application/json`)", is_json)?;
        } else if may_be_empty {
            return from_json(b"{}");
        }
        from_json(&self.bytes)
    }

    /// The text of an agent, YAML or JSON.
    pub(crate) fn agent_text(&self) -> Result<&str, Problem> {
        self.must_be(
            "YAML or JSON (`application/yaml`, `application/json`, `text/…`)",
            |it| {
                is_json(it)
                    || is_text(it)
                    || matches!(it, "application/yaml" | "application/x-yaml")
            },
        )?;
        if self.media_type.as_deref().is_some_and(is_json) {
            any_json(&self.bytes)?;
        }
        self.text()
    }

    /// The text of a batch, one JSON value a line.
    pub(crate) fn lines(&self) -> Result<&str, Problem> {
        self.must_be("one JSON value a line (`application/x-ndjson`)", |it| {
            is_json(it)
                || is_text(it)
                || matches!(
                    it,
                    "application/x-ndjson" | "application/ndjson" | "application/jsonl"
                )
        })?;
        self.text()
    }

    fn text(&self) -> Result<&str, Problem> {
        std::str::from_utf8(&self.bytes)
            .map_err(|error| Problem::new(400, "invalid_text", format!("not UTF-8: {error}")))
    }

    /// A body without a type is taken as what the route expects.
    fn must_be(&self, expected: &str, is: impl Fn(&str) -> bool) -> Result<(), Problem> {
        match self.media_type.as_deref() {
            Some(found) if !is(found) => Err(Problem::new(
                415,
                "unsupported_media_type",
                format!(
                    "unsupported media type `{}`; expected {expected}",
                    excerpt(found)
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }
}

/// The key of one part of a request.
pub(crate) fn key_of_part(key: &IdempotencyKey, part: &str, content: &[u8]) -> IdempotencyKey {
    IdempotencyKey {
        key: scoped(&[&key.key, part]),
        digest: format!("{:x}", Sha256::digest(content)),
    }
}

/// Reads a JSON object.
///
/// # Errors
/// 400 for invalid JSON. 422 with a pointer for JSON of another shape.
pub(crate) fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let value = any_json(bytes)?;
    // Serde would read an array as the fields in their order.
    if !value.is_object() {
        return Err(invalid_field("", "must be a JSON object"));
    }
    from_value(value)
}

/// A JSON object of which other fields have been taken.
pub(crate) fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let pointer = pointer(error.path());
        let message = quoted_message(&error.into_inner().to_string());
        invalid_field(&pointer, &message)
    })
}

/// 422 about one field, or about the whole body where the pointer is empty.
pub(crate) fn invalid_field(pointer: &str, message: &str) -> Problem {
    let at = if pointer.is_empty() {
        "the body"
    } else {
        pointer
    };
    Problem::invalid_body(format!("{at}: {message}"))
        .with_errors(vec![FieldError::at(pointer, message)])
}

/// The milliseconds of a duration such as `2h`.
pub(crate) fn parse_duration_ms(pointer: &str, text: &str) -> Result<u64, Problem> {
    let time = duration::parse(text).map_err(|error| invalid_field(pointer, &error.to_string()))?;
    u64::try_from(time.as_millis()).map_err(|error| invalid_field(pointer, &error.to_string()))
}

/// Rewrites pointers into a command as pointers into the body that the caller sent.
pub(crate) fn rewrite_pointers(mut problem: Problem, rewrite: impl Fn(&str) -> String) -> Problem {
    for pointer in problem
        .errors
        .iter_mut()
        .filter_map(|it| it.pointer.as_mut())
    {
        *pointer = rewrite(pointer);
    }
    problem
}

/// The same for members that the command has elsewhere than the body.
pub(crate) fn rewrite_prefixes(problem: Problem, prefixes: &[(&str, &str)]) -> Problem {
    rewrite_pointers(problem, |pointer| {
        let rewritten = prefixes.iter().find_map(|(command, body)| {
            let rest = pointer.strip_prefix(command)?;
            Some(format!("{body}{rest}"))
        });
        rewritten.unwrap_or_else(|| pointer.to_owned())
    })
}

/// Reads JSON within the limits that all services share.
fn any_json(bytes: &[u8]) -> Result<Value, Problem> {
    value_limits::check_json(bytes).map_err(LimitExceeded::problem)?;
    let value = serde_json::from_slice(bytes).map_err(|error| {
        Problem::new(
            400,
            "invalid_json",
            format!("request body is not valid JSON: {error}"),
        )
    })?;
    value_limits::check(&value).map_err(LimitExceeded::problem)?;
    Ok(value)
}

fn quoted_message(message: &str) -> String {
    // Serde's message does not say how to write `"decision": "approve"`.
    if message.starts_with("invalid type: unit variant") {
        return "must be an object with this name as its field, such as {\"approve\": {}}"
            .to_owned();
    }
    message.chars().take(500).collect()
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    path.iter()
        .fold(String::new(), |pointer, segment| match segment {
            Segment::Seq { index } => format!("{pointer}/{index}"),
            Segment::Map { key } => {
                format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
            }
            Segment::Enum { .. } | Segment::Unknown => pointer,
        })
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    value
        .to_str()
        .ok()
        .filter(|key| {
            (1..=KEY_MAX).contains(&key.len()) && key.chars().all(|c| c.is_ascii_graphic())
        })
        .map(|key| Some(key.to_owned()))
        .ok_or_else(|| {
            let detail = format!("`Idempotency-Key` is 1 to {KEY_MAX} visible ASCII characters");
            Problem::new(400, "invalid_idempotency_key", detail)
        })
}

/// Method and path as the caller wrote them.
fn route(parts: &Parts) -> String {
    let path = parts
        .extensions
        .get::<OriginalUri>()
        .map_or(parts.uri.path(), |it| it.0.path());
    format!("{} {path}", parts.method)
}

/// Digest of the body, and of the query where there is one.
fn digest(parts: &Parts, bytes: &[u8]) -> String {
    let mut digest = Sha256::new_with_prefix(bytes);
    if let Some(query) = parts.uri.query() {
        digest.update(b"\0?");
        digest.update(query.as_bytes());
    }
    format!("{:x}", digest.finalize())
}

/// Digest of several texts of which none can reach into its neighbour.
pub(crate) fn scoped(texts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for text in texts {
        digest.update(text.len().to_be_bytes());
        digest.update(text.as_bytes());
    }
    format!("{:x}", digest.finalize())
}

fn media_type(value: &axum::http::HeaderValue) -> String {
    let text = String::from_utf8_lossy(value.as_bytes());
    text.split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

fn is_json(media_type: &str) -> bool {
    media_type == "application/json"
        || media_type.starts_with("application/") && media_type.ends_with("+json")
}

fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Start {
        #[serde(default, rename = "labels")]
        _labels: std::collections::BTreeMap<String, String>,
    }

    #[test]
    fn what_is_no_json_is_400_and_json_of_another_shape_is_422_and_says_where() {
        let problem = from_json::<Start>(b"{").unwrap_err();
        assert_eq!(
            (problem.status, problem.code.as_str()),
            (400, "invalid_json")
        );
        let problem = from_json::<Start>(br#"{"labels": {"a/b": 1}}"#).unwrap_err();
        assert_eq!(
            (problem.status, problem.code.as_str()),
            (422, "invalid_body")
        );
        assert_eq!(problem.errors[0].pointer.as_deref(), Some("/labels/a~1b"));
        let problem = from_json::<Start>(br#"{"lables": {}}"#).unwrap_err();
        assert!(
            problem.detail.contains("unknown field `lables`"),
            "{}",
            problem.detail
        );
    }

    /// A-H7: what a body may hold ends before any later reader does.
    #[test]
    fn a_body_that_is_too_deep_is_refused() {
        let deep = format!("{{\"labels\": {}{}}}", "[".repeat(32), "]".repeat(32));
        let problem = from_json::<Start>(deep.as_bytes()).unwrap_err();
        assert_eq!(problem.code, "value_not_allowed");
        assert!(problem.detail.contains("at most 32"), "{}", problem.detail);
        let far = "[".repeat(BODY_MAX);
        assert_eq!(any_json(far.as_bytes()).unwrap_err().status, 422);
        assert_eq!(any_json(b"[\"\\u0000\"]").unwrap_err().status, 422);
    }

    #[test]
    fn errors_of_a_command_point_into_the_body() {
        let problem = Problem::invalid_body("no").with_errors(vec![
            FieldError::at("/decision/respond/answer/city", "this is required"),
            FieldError::at("/version", "no number"),
        ]);
        let problem = rewrite_prefixes(problem, &[("/decision/respond/answer", "/answers")]);
        let pointers: Vec<_> = problem.errors.iter().map(|it| &it.pointer).collect();
        assert_eq!(
            pointers,
            [
                &Some("/answers/city".to_owned()),
                &Some("/version".to_owned())
            ]
        );
    }

    #[test]
    fn a_decision_that_is_only_a_word_is_refused_with_an_example() {
        #[derive(Debug, Deserialize)]
        struct Batch {
            #[serde(rename = "decision")]
            _decision: holdpoint_contracts::handoff::Decision,
        }
        let problem = from_json::<Batch>(br#"{"decision": "approve"}"#).unwrap_err();
        assert_eq!(problem.errors[0].pointer.as_deref(), Some("/decision"));
        assert!(
            problem.detail.contains(r#"{"approve": {}}"#),
            "{}",
            problem.detail
        );
    }

    /// Mend C-11: a form is no agent, and no other body of the API either.
    #[test]
    fn a_form_is_not_taken() {
        let body = Body {
            bytes: b"agent=a".to_vec(),
            media_type: Some("application/x-www-form-urlencoded".to_owned()),
        };
        for refused in [
            body.agent_text().map(drop),
            body.lines().map(drop),
            body.json::<Value>(false).map(drop),
            body.json::<Value>(true).map(drop),
        ] {
            assert_eq!(refused.unwrap_err().status, 415);
        }
    }

    #[test]
    fn keys_differ_by_workspace_actor_route_and_key() {
        let mut keys = vec![
            scoped(&["a", "owner", "POST /x", "k"]),
            scoped(&["b", "owner", "POST /x", "k"]),
            scoped(&["a", "other", "POST /x", "k"]),
            scoped(&["a", "owner", "POST /y", "k"]),
            scoped(&["a", "owner", "POST /x", "l"]),
            scoped(&["ao", "wner", "POST /x", "k"]),
        ];
        assert!(keys.iter().all(|key| key.len() == 64));
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 6);
    }

    #[test]
    fn a_part_has_a_key_of_its_own_that_is_the_same_each_time() {
        let whole = IdempotencyKey {
            key: scoped(&["k"]),
            digest: String::new(),
        };
        assert_eq!(
            key_of_part(&whole, "#1", b"x"),
            key_of_part(&whole, "#1", b"x")
        );
        assert_ne!(
            key_of_part(&whole, "#1", b"x").key,
            key_of_part(&whole, "#2", b"x").key
        );
        assert_ne!(
            key_of_part(&whole, "#1", b"x").digest,
            key_of_part(&whole, "#1", b"y").digest
        );
    }

    #[test]
    fn an_idempotency_key_is_short_and_visible() {
        let with = |value: &str| {
            let headers = [(
                header::HeaderName::from_static("idempotency-key"),
                value.parse().unwrap(),
            )];
            idempotency_key(&headers.into_iter().collect())
        };
        assert_eq!(with("a-1").unwrap().as_deref(), Some("a-1"));
        assert!(with(&"x".repeat(255)).is_ok());
        for bad in [String::new(), "x".repeat(256), "a b".to_owned()] {
            assert_eq!(
                with(&bad).unwrap_err().code,
                "invalid_idempotency_key",
                "{bad}"
            );
        }
    }
}
