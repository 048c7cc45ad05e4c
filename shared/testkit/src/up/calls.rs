//! Calls to the HTTP interface of [`Up`], below its workspace and with its token.

use anyhow::Context as _;
use reqwest::Method;
use serde_json::{Value, json};

use super::Up;
use super::http::{Answer, send};

/// A call fails if there is no response. A refusal is a response.
impl Up {
    /// GET of `path` below `/v1/workspaces/{workspace}/`.
    pub async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.call(Method::GET, &self.in_workspace(path), None).await
    }

    /// POST of `body`, as [`Up::get`].
    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        self.call(Method::POST, &self.in_workspace(path), Some(body))
            .await
    }

    /// POST of `body` under an idempotency key, so that it can be repeated after a crash.
    pub async fn post_under(&self, key: &str, path: &str, body: &Value) -> anyhow::Result<Answer> {
        let url = format!("{}{}", self.url, self.in_workspace(path));
        let request = self.client.post(url).bearer_auth(&self.token);
        send(request.header("Idempotency-Key", key).json(body)).await
    }

    /// PUT of `body`, as [`Up::get`].
    pub async fn put(&self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        self.call(Method::PUT, &self.in_workspace(path), Some(body))
            .await
    }

    /// PATCH with `body`, as [`Up::get`].
    pub async fn patch(&self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        self.call(Method::PATCH, &self.in_workspace(path), Some(body))
            .await
    }

    /// DELETE, as [`Up::get`].
    pub async fn delete(&self, path: &str) -> anyhow::Result<Answer> {
        self.call(Method::DELETE, &self.in_workspace(path), None)
            .await
    }

    /// Posts the YAML text of an agent.
    pub async fn post_yaml(&self, path: &str, text: &str) -> anyhow::Result<Answer> {
        let url = format!("{}{}", self.url, self.in_workspace(path));
        let request = self.client.post(url).bearer_auth(&self.token);
        let request = request.header("content-type", "application/yaml");
        send(request.body(text.to_owned()))
            .await
            .with_context(|| path.to_owned())
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
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        self.call_with(&self.token, method, path, body).await
    }

    /// Any call, by the path from the root, with another token.
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

    pub(crate) fn in_workspace(&self, path: &str) -> String {
        format!(
            "/v1/workspaces/{}/{}",
            self.workspace,
            path.trim_start_matches('/')
        )
    }
}
