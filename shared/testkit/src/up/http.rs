//! Sends a request and reads the response.

use std::time::Duration;

use serde_json::Value;

const RESPONSE_WAIT: Duration = Duration::from_secs(30);

/// How long a connection is kept for the next call. The gateway closes it after 15 s of silence, and a test that
/// blocks its thread does not see that.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// Status and body; an empty body is `null`, one that is not JSON is a string.
pub type Answer = (u16, Value);

pub(super) fn client() -> anyhow::Result<reqwest::Client> {
    // The one process-wide choice of cryptography; a second one is refused and harmless.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    Ok(reqwest::Client::builder()
        .timeout(RESPONSE_WAIT)
        .pool_idle_timeout(IDLE_MAX)
        .no_proxy()
        .build()?)
}

pub(super) async fn send(request: reqwest::RequestBuilder) -> anyhow::Result<Answer> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    let text = response.text().await?;
    let value = match serde_json::from_str(&text) {
        Ok(value) => value,
        Err(_) if text.is_empty() => Value::Null,
        Err(_) => Value::String(text),
    };
    Ok((status, value))
}
