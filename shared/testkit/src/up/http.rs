//! The HTTP side of [`Up`]: small calls relative to its workspace, with its token.

use std::time::Duration;

use anyhow::Context as _;
use reqwest::Method;
use serde_json::{Value, json};

use super::Up;

const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// Status and body; an empty body is `null`, one that is no JSON is a string.
pub type Answer = (u16, Value);

pub(super) fn client() -> anyhow::Result<reqwest::Client> {
    // The one process-wide choice of cryptography; a second one is refused and harmless.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    Ok(reqwest::Client::builder()
        .timeout(ANSWER_WAIT)
        .no_proxy()
        .build()?)
}

impl Up {
    /// GET of `path` below `/v1/workspaces/{workspace}/`.
    ///
    /// # Errors
    /// When there is no answer; a refusal is an answer.
    pub async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.call(Method::GET, &self.in_workspace(path), None).await
    }

    /// POST of `body`, as [`Up::get`].
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        self.call(Method::POST, &self.in_workspace(path), Some(body))
            .await
    }

    /// POST of `body` under an idempotency key, so that it can be sent again after a death.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn post_under(&self, key: &str, path: &str, body: &Value) -> anyhow::Result<Answer> {
        let url = format!("{}{}", self.url, self.in_workspace(path));
        let request = self.client.post(url).bearer_auth(&self.token);
        send(request.header("Idempotency-Key", key).json(body)).await
    }

    /// PUT of `body`, as [`Up::get`].
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn put(&self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        self.call(Method::PUT, &self.in_workspace(path), Some(body))
            .await
    }

    /// PATCH with `body`, as [`Up::get`].
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn patch(&self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        self.call(Method::PATCH, &self.in_workspace(path), Some(body))
            .await
    }

    /// DELETE, as [`Up::get`].
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn delete(&self, path: &str) -> anyhow::Result<Answer> {
        self.call(Method::DELETE, &self.in_workspace(path), None)
            .await
    }

    /// Moves the test clock on, by `"5d"` for example.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn clock_advance(&self, by: &str) -> anyhow::Result<Value> {
        let (status, body) = self
            .call(
                Method::POST,
                "/v1/clock/advance",
                Some(&json!({ "by": by })),
            )
            .await?;
        anyhow::ensure!(
            (200..300).contains(&status),
            "clock by {by}: {status} {body}"
        );
        Ok(body)
    }

    /// Any call, by the path from the root, with the workspace's token.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        self.call_with(&self.token, method, path, body).await
    }

    /// Any call, by the path from the root, with a token of somebody else.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn call_with(
        &self,
        token: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        let mut request = self
            .client
            .request(method, format!("{}{path}", self.url))
            .bearer_auth(token);
        if let Some(body) = body {
            request = request.json(body);
        }
        send(request).await.with_context(|| path.to_owned())
    }

    fn in_workspace(&self, path: &str) -> String {
        format!(
            "/v1/workspaces/{}/{}",
            self.workspace,
            path.trim_start_matches('/')
        )
    }
}

async fn send(request: reqwest::RequestBuilder) -> anyhow::Result<Answer> {
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
