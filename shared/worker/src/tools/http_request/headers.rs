//! Headers of a call: those of the author, those that identify the step, and those of a response.

use std::collections::BTreeMap;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::super::{invalid_args, quote};
use crate::tool::{ToolCall, ToolFailure};

const MAX_HEADERS: usize = 64;

/// Headers of the connection. Setting them could smuggle a second request.
const RESERVED: [&str; 8] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

pub(super) fn read_headers(
    tool: &str,
    given: &BTreeMap<String, String>,
) -> Result<HeaderMap, ToolFailure> {
    if given.len() > MAX_HEADERS {
        let error = format!("`headers` has more than {MAX_HEADERS} entries");
        return Err(invalid_args(tool, &error));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let lower = name.to_ascii_lowercase();
        if RESERVED.contains(&lower.as_str()) || lower.starts_with("holdpoint-") {
            let error = format!("`headers` may not set {}; remove it", quote(name));
            return Err(invalid_args(tool, &error));
        }
        let (Ok(name), Ok(mut value)) = (
            HeaderName::try_from(lower.as_str()),
            HeaderValue::from_str(value),
        ) else {
            let error = format!(
                "header {} has a name or value that HTTP cannot carry (line break?)",
                quote(name)
            );
            return Err(invalid_args(tool, &error));
        };
        // It may be a key.
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Headers that identify the step, without the step token, which gives access to the API. An
/// `Idempotency-Key` of the author stays, because the step's text is the same for every attempt.
pub(super) fn add_identity(headers: &mut HeaderMap, call: &ToolCall) -> Result<(), ToolFailure> {
    headers.insert(
        "holdpoint-run",
        header_value(&call.dispatch.run.to_string())?,
    );
    headers.insert("holdpoint-step", header_value(&call.dispatch.step)?);
    headers.insert(
        "holdpoint-attempt",
        HeaderValue::from(call.dispatch.attempt),
    );
    headers.insert("traceparent", header_value(&call.dispatch.traceparent)?);
    if !headers.contains_key("idempotency-key") {
        headers.insert(
            "idempotency-key",
            header_value(&call.dispatch.idempotency_key())?,
        );
    }
    Ok(())
}

pub(super) fn header_value(text: &str) -> Result<HeaderValue, ToolFailure> {
    HeaderValue::from_str(text).map_err(|_invalid| {
        ToolFailure::new(
            "invalid_args",
            "The call's identity is not valid in an HTTP header.",
        )
    })
}

/// Names in lower case; repeated headers are joined by commas.
pub(super) fn shown_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut shown: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        shown
            .entry(name.as_str().to_owned())
            .and_modify(|all| {
                all.push_str(", ");
                all.push_str(&value);
            })
            .or_insert_with(|| value.clone().into_owned());
    }
    shown
}
