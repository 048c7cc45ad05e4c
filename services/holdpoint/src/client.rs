//! A client of the REST API.
//!
//! Every request that changes something can be sent twice: a POST carries a fresh `Idempotency-Key`,
//! and after a lost connection the same request is sent once more. The client knows no rule of
//! Holdpoint and prints nothing.

mod error;
mod events;
mod sse;

use std::time::Duration;

use chrono::{DateTime, Utc};
use holdpoint_contracts::Problem;
use holdpoint_contracts::history::HistoryItem;
use holdpoint_contracts::run::{ChangedRun, RunView};
use holdpoint_contracts::scheduler::AdvancedClock;
use holdpoint_ids::CommandId;
pub(crate) use reqwest::Method;
use reqwest::{Request, Url, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) use error::{ClientError, exit_kind_of};
pub(crate) use events::{Events, Live};

use crate::connection::{Connection, is_loopback};

/// How long a connection is kept for the next call. The gateway closes it after 15 s of silence, and a call that is
/// sent at that moment would be lost.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Longest time for a response.
const RESPONSE_MAX: Duration = Duration::from_secs(60);
/// Longest time for an advance of the clock, which waits for all work that it triggers.
const ADVANCE_MAX: Duration = Duration::from_secs(600);
/// Longest time for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Pause before the second try.
const RETRY_AFTER: Duration = Duration::from_millis(200);

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const YAML: &str = "application/yaml";

pub(crate) type Query = [(&'static str, String)];

/// Speaks to one workspace of one Holdpoint; cheap to clone.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    to: Connection,
}

/// A successful response, parsed and verbatim.
#[derive(Debug, Clone)]
pub(crate) struct Body<T> {
    pub(crate) value: T,
    pub(crate) text: String,
    pub(crate) status: u16,
}

/// The time of Holdpoint, which may be a test clock.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Now {
    pub(crate) now: DateTime<Utc>,
}

impl Client {
    /// Sends nothing yet.
    ///
    /// # Errors
    /// When the address is not valid.
    pub(crate) fn new(to: Connection) -> Result<Self, ClientError> {
        let url = Url::parse(&to.url).map_err(|error| ClientError::address(&to.url, &error))?;
        if !matches!(url.scheme(), "http" | "https") {
            let reason = "it must start with http:// or https://";
            return Err(ClientError::address(&to.url, &reason));
        }
        segment(&to.workspace)?;
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_MAX)
            .pool_idle_timeout(IDLE_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("holdpoint/", env!("CARGO_PKG_VERSION")));
        if url.host_str().is_some_and(is_loopback) {
            builder = builder.no_proxy();
        }
        let http = builder
            .build()
            .map_err(|error| ClientError::address(&to.url, &error))?;
        Ok(Self { http, to })
    }

    /// Whether the token is a step token.
    pub(crate) fn is_step(&self) -> bool {
        let token = self.to.token.as_deref().unwrap_or_default();
        token.starts_with(holdpoint_auth::STEP_TOKEN_PREFIX)
    }

    /// `path` is within the workspace unless it starts with `/`, here and below.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &Query,
    ) -> Result<Body<T>, ClientError> {
        let mut request = self.request(Method::GET, path, None)?;
        *request.url_mut() = with_query(request.url().clone(), query);
        self.send(request).await
    }

    /// Sends JSON under a fresh idempotency key.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Body<T>, ClientError> {
        self.send_json(Method::POST, path, body).await
    }

    pub(crate) async fn delete<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Body<T>, ClientError> {
        self.send(self.request(Method::DELETE, path, None)?).await
    }

    /// Sends JSON; a PATCH changes some fields (RFC 7386).
    pub(crate) async fn send_json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Body<T>, ClientError> {
        let is_patch = method == Method::PATCH;
        let media_type = if is_patch { MERGE_PATCH } else { JSON };
        let content = Some((media_type, serde_json::to_string(body)?));
        self.send(self.request(method, path, content)?).await
    }

    pub(crate) async fn start_run(
        &self,
        agent: &str,
        body: &Value,
    ) -> Result<Body<RunView>, ClientError> {
        let path = format!("{}/runs", item_path("agents", agent)?);
        self.post(&path, body).await
    }

    /// One run with its steps.
    pub(crate) async fn run(&self, run: &str) -> Result<Body<RunView>, ClientError> {
        self.get(&item_path("runs", run)?, &[]).await
    }

    /// `action` is `pause`, `resume` or `cancel`.
    pub(crate) async fn change_run(
        &self,
        run: &str,
        action: &str,
        body: &Value,
    ) -> Result<Body<ChangedRun>, ClientError> {
        let path = format!("{}/{action}", item_path("runs", run)?);
        self.post(&path, body).await
    }

    /// The live history of a run from its start.
    pub(crate) fn run_events(&self, run: &str) -> Result<Events<HistoryItem>, ClientError> {
        self.events(&format!("{}/events", item_path("runs", run)?), &[])
    }

    /// A live stream from its start.
    pub(crate) fn events<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &Query,
    ) -> Result<Events<T>, ClientError> {
        Ok(Events::new(
            self.clone(),
            with_query(self.url(path)?, query),
        ))
    }

    pub(crate) async fn clock(&self) -> Result<Body<Now>, ClientError> {
        self.get("/v1/clock", &[]).await
    }

    /// Advances the test clock by a duration, for example `5d`.
    pub(crate) async fn advance_clock(&self, by: &str) -> Result<Body<AdvancedClock>, ClientError> {
        let content = Some((JSON, json!({ "by": by }).to_string()));
        let mut request = self.request(Method::POST, "/v1/clock/advance", content)?;
        *request.timeout_mut() = Some(ADVANCE_MAX);
        self.send(request).await
    }

    /// Sends an agent as YAML or JSON: `agents` stores it (status 200 if it is unchanged), `agents/plan`
    /// compiles it.
    pub(crate) async fn post_agent<T: DeserializeOwned>(
        &self,
        path: &str,
        text: &str,
    ) -> Result<Body<T>, ClientError> {
        let is_json = text.trim_start().starts_with('{');
        let content = Some((if is_json { JSON } else { YAML }, text.to_owned()));
        self.send(self.request(Method::POST, path, content)?).await
    }

    fn url(&self, path: &str) -> Result<Url, ClientError> {
        let base = self.to.url.trim_end_matches('/');
        let text = if path.starts_with('/') {
            format!("{base}{path}")
        } else {
            format!("{base}/v1/workspaces/{}/{path}", self.to.workspace)
        };
        Url::parse(&text).map_err(|error| ClientError::address(&text, &error))
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        content: Option<(&'static str, String)>,
    ) -> Result<Request, ClientError> {
        let has_key = method == Method::POST;
        let mut builder = self
            .authorized(method, self.url(path)?)
            .header(header::ACCEPT, JSON)
            .timeout(RESPONSE_MAX);
        if has_key {
            builder = builder.header("Idempotency-Key", CommandId::fresh().to_string());
        }
        if let Some((media_type, body)) = content {
            builder = builder.header(header::CONTENT_TYPE, media_type).body(body);
        }
        builder.build().map_err(|error| self.unreachable(&error))
    }

    /// Sends a request, and once more under the same key after a connection error.
    async fn send<T: DeserializeOwned>(&self, request: Request) -> Result<Body<T>, ClientError> {
        let same = request.try_clone();
        let (status, mut text) = match (self.send_once(request).await, same) {
            (Err(error), Some(same)) if is_connection_error(&error) => {
                tokio::time::sleep(RETRY_AFTER).await;
                self.send_once(same).await
            }
            (response, _) => response,
        }
        .map_err(|error| self.unreachable(&error))?;
        // `request-input` also returns 202, but without a command id: the question was opened.
        if status == 202 && text.contains("\"command_id\"") {
            return Err(ClientError::accepted(text));
        }
        if !(200..300).contains(&status) {
            return Err(ClientError::refused(status, text));
        }
        // 204 has no body, but programs expect JSON.
        if status == 204 {
            "null".clone_into(&mut text);
        }
        Ok(Body {
            value: serde_json::from_str(&text)?,
            text,
            status,
        })
    }

    async fn send_once(&self, request: Request) -> Result<(u16, String), reqwest::Error> {
        let response = self.http.execute(request).await?;
        let status = response.status().as_u16();
        Ok((status, response.text().await?))
    }

    fn authorized(&self, method: Method, url: Url) -> reqwest::RequestBuilder {
        let builder = self.http.request(method, url);
        match &self.to.token {
            Some(token) => builder.bearer_auth(token),
            None => builder,
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> ClientError {
        if error.is_timeout() && !error.is_connect() {
            return ClientError::TimedOut;
        }
        ClientError::unreachable(&self.to.url, error)
    }
}

fn with_query(mut url: Url, query: &Query) -> Url {
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    url
}

/// The path of an item of a list.
pub(crate) fn item_path(list: &str, id: &str) -> Result<String, ClientError> {
    Ok(format!("{list}/{}", segment(id)?))
}

/// Returns a name or id if it is one path segment, so that no text leads to another path.
pub(crate) fn segment(text: &str) -> Result<&str, ClientError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_name =
        text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_allowed);
    if is_name {
        return Ok(text);
    }
    let shown: String = text.chars().take(200).collect();
    let detail =
        format!("invalid name or id `{shown}`; expected letters, digits, `.`, `_` and `-`");
    Err(Problem::not_found(detail).into())
}

/// Whether the effect of the request is unknown, so that the same may be sent again.
fn is_connection_error(error: &reqwest::Error) -> bool {
    !error.is_timeout() && !error.is_builder() && !error.is_redirect()
}

#[cfg(test)]
mod tests;
