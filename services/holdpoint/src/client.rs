//! The REST API from the outside: one method for each thing the commands and the demo ask for.
//!
//! Every request that changes something can be sent twice: a POST carries an `Idempotency-Key` of
//! its own, and one lost connection is answered by sending the same again. It holds no rule of
//! Holdpoint and prints nothing.

mod error;
mod events;
mod sse;

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use holdpoint_contracts::Problem;
use holdpoint_contracts::agent::AgentView;
use holdpoint_contracts::contact::ContactView;
use holdpoint_contracts::executor::PlannedAgent;
use holdpoint_contracts::history::HistoryItem;
use holdpoint_contracts::notification::NotificationView;
use holdpoint_contracts::run::{ChangedRun, Page, RunView};
use holdpoint_contracts::scheduler::AdvancedClock;
use holdpoint_ids::CommandId;
use reqwest::{Method, Url, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) use error::ClientError;
pub(crate) use events::{Events, Live};

use crate::connection::Connection;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The same where time is moved, which waits for what it wakes.
const ADVANCE_MAX: Duration = Duration::from_secs(600);
/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Pause before the second try.
const RETRY_AFTER: Duration = Duration::from_millis(200);

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const YAML: &str = "application/yaml";

/// Speaks to one workspace of one Holdpoint; cheap to clone.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    to: Connection,
}

/// An answer: as it was understood, and as it came.
#[derive(Debug, Clone)]
pub(crate) struct Body<T> {
    /// What it says.
    pub(crate) value: T,
    /// The body verbatim.
    pub(crate) text: String,
    /// 200 or 201.
    pub(crate) status: u16,
}

/// What a run is started with.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct StartRun {
    /// What its steps see as `$input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<Value>,
    /// An id, or an object with `id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) contact: Option<Value>,
    /// To find it again.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
}

/// What the clock of Holdpoint shows.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Now {
    /// Its time.
    pub(crate) now: DateTime<Utc>,
}

/// One request, kept so that it can be sent a second time.
struct Request<'a> {
    method: Method,
    url: Url,
    media_type: &'static str,
    body: Option<&'a str>,
    key: Option<String>,
    answer_max: Duration,
}

impl Client {
    /// A client for that address; nothing is sent yet.
    ///
    /// # Errors
    /// When the address is none.
    pub(crate) fn new(to: Connection) -> Result<Self, ClientError> {
        let url = Url::parse(&to.url).map_err(|error| ClientError::address(&to.url, &error))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ClientError::address(
                &to.url,
                &"it starts with http:// or https://",
            ));
        }
        segment(&to.workspace)?;
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_MAX)
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

    /// Whether it speaks for a step that runs.
    pub(crate) fn is_step(&self) -> bool {
        let token = self.to.token.as_deref().unwrap_or_default();
        token.starts_with(holdpoint_auth::STEP_TOKEN_PREFIX)
    }

    /// Reads something; `path` is within the workspace unless it starts with `/`.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<Body<T>, ClientError> {
        let mut url = self.url(path)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.send(self.request(Method::GET, url, JSON, None)).await
    }

    /// Sends JSON under an idempotency key of its own.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Body<T>, ClientError> {
        let text = written(body)?;
        self.send(self.request(Method::POST, self.url(path)?, JSON, Some(&text)))
            .await
    }

    /// Removes something.
    pub(crate) async fn delete<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Body<T>, ClientError> {
        let request = self.request(Method::DELETE, self.url(path)?, JSON, None);
        self.send(request).await
    }

    /// Replaces something.
    pub(crate) async fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Body<T>, ClientError> {
        let text = written(body)?;
        self.send(self.request(Method::PUT, self.url(path)?, JSON, Some(&text)))
            .await
    }

    /// Changes parts of something (RFC 7386).
    pub(crate) async fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Body<T>, ClientError> {
        let text = written(body)?;
        self.send(self.request(Method::PATCH, self.url(path)?, MERGE_PATCH, Some(&text)))
            .await
    }

    /// Stores an agent; status 200 when it said the same already.
    pub(crate) async fn apply_agent(&self, text: &str) -> Result<Body<AgentView>, ClientError> {
        self.send_text("agents", text).await
    }

    /// What an agent's text compiles to.
    pub(crate) async fn plan_agent(&self, text: &str) -> Result<Body<PlannedAgent>, ClientError> {
        self.send_text("agents/plan", text).await
    }

    /// One agent with its steps.
    pub(crate) async fn agent(&self, name: &str) -> Result<Body<AgentView>, ClientError> {
        self.get(&format!("agents/{}", segment(name)?), &[]).await
    }

    /// Starts a run of an agent.
    pub(crate) async fn start_run(
        &self,
        agent: &str,
        start: &StartRun,
    ) -> Result<Body<RunView>, ClientError> {
        self.post(&format!("agents/{}/runs", segment(agent)?), start)
            .await
    }

    /// One run with its steps.
    pub(crate) async fn run(&self, run: &str) -> Result<Body<RunView>, ClientError> {
        self.get(&format!("runs/{}", segment(run)?), &[]).await
    }

    /// Runs, newest first; filters are those of `GET /runs`.
    pub(crate) async fn runs(
        &self,
        filter: &[(&str, String)],
    ) -> Result<Body<Page<RunView>>, ClientError> {
        self.get("runs", filter).await
    }

    /// The live history of a run, from the item after that number on (0: from the start).
    pub(crate) fn events(&self, run: &str, after: u64) -> Result<Events<HistoryItem>, ClientError> {
        let url = self.url(&format!("runs/{}/events", segment(run)?))?;
        let after = (after > 0).then(|| after.to_string());
        Ok(Events::new(self.clone(), url, after))
    }

    /// The caller's notifications live, from the beginning.
    pub(crate) fn told(&self, unread: bool) -> Result<Events<NotificationView>, ClientError> {
        let mut url = self.url("notifications")?;
        if unread {
            url.query_pairs_mut().append_pair("unread", "true");
        }
        Ok(Events::new(self.clone(), url, None))
    }

    /// Freezes a run.
    pub(crate) async fn pause(&self, run: &str) -> Result<Body<ChangedRun>, ClientError> {
        self.steer(run, "pause", &json!({})).await
    }

    /// Lets a run go on; the mode is a word of the API, none is `continue`.
    pub(crate) async fn resume(
        &self,
        run: &str,
        mode: Option<&str>,
    ) -> Result<Body<ChangedRun>, ClientError> {
        let body = mode.map_or_else(|| json!({}), |mode| json!({ "mode": mode }));
        self.steer(run, "resume", &body).await
    }

    /// Ends a run.
    pub(crate) async fn cancel(
        &self,
        run: &str,
        reason: Option<&str>,
    ) -> Result<Body<ChangedRun>, ClientError> {
        let body = reason.map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
        self.steer(run, "cancel", &body).await
    }

    /// Stores a contact, replacing what was known of it.
    pub(crate) async fn put_contact(
        &self,
        id: &str,
        fields: &Value,
    ) -> Result<Body<ContactView>, ClientError> {
        self.put(&format!("contacts/{}", segment(id)?), fields)
            .await
    }

    /// Changes some fields of a contact; `null` removes one.
    pub(crate) async fn patch_contact(
        &self,
        id: &str,
        patch: &Value,
    ) -> Result<Body<ContactView>, ClientError> {
        self.patch(&format!("contacts/{}", segment(id)?), patch)
            .await
    }

    /// One contact.
    pub(crate) async fn contact(&self, id: &str) -> Result<Body<ContactView>, ClientError> {
        self.get(&format!("contacts/{}", segment(id)?), &[]).await
    }

    /// What time it is for Holdpoint.
    pub(crate) async fn clock(&self) -> Result<Body<Now>, ClientError> {
        self.get("/v1/clock", &[]).await
    }

    /// Moves the test clock on by a duration, for example `5d`.
    pub(crate) async fn advance_clock(&self, by: &str) -> Result<Body<AdvancedClock>, ClientError> {
        let text = written(&json!({ "by": by }))?;
        let url = self.url("/v1/clock/advance")?;
        let request = self.request(Method::POST, url, JSON, Some(&text));
        self.send(Request {
            answer_max: ADVANCE_MAX,
            ..request
        })
        .await
    }

    async fn steer(
        &self,
        run: &str,
        action: &str,
        body: &Value,
    ) -> Result<Body<ChangedRun>, ClientError> {
        self.post(&format!("runs/{}/{action}", segment(run)?), body)
            .await
    }

    async fn send_text<T: DeserializeOwned>(
        &self,
        path: &str,
        text: &str,
    ) -> Result<Body<T>, ClientError> {
        let media_type = if text.trim_start().starts_with('{') {
            JSON
        } else {
            YAML
        };
        self.send(self.request(Method::POST, self.url(path)?, media_type, Some(text)))
            .await
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

    fn request<'a>(
        &self,
        method: Method,
        url: Url,
        media_type: &'static str,
        body: Option<&'a str>,
    ) -> Request<'a> {
        let key = (method == Method::POST).then(|| CommandId::fresh().to_string());
        Request {
            method,
            url,
            media_type,
            body,
            key,
            answer_max: ANSWER_MAX,
        }
    }

    /// Sends it, and once more under the same key when the connection fails.
    async fn send<T: DeserializeOwned>(
        &self,
        request: Request<'_>,
    ) -> Result<Body<T>, ClientError> {
        let (status, text) = match self.send_once(&request).await {
            Err(error) if is_connection_error(&error) => {
                tokio::time::sleep(RETRY_AFTER).await;
                self.send_once(&request).await
            }
            answer => answer,
        }
        .map_err(|error| self.unreachable(&error))?;
        // A 202 without a command is a question that was asked.
        if status == 202 && text.contains("\"command_id\"") {
            return Err(ClientError::accepted(&text));
        }
        if !(200..300).contains(&status) {
            return Err(ClientError::refused(status, text));
        }
        // 204: there is nothing to tell, and programs read that as JSON, too.
        let text = if status == 204 {
            "null".to_owned()
        } else {
            text
        };
        match serde_json::from_str(&text) {
            Ok(value) => Ok(Body {
                value,
                text,
                status,
            }),
            Err(error) => Err(ClientError::NotUnderstood {
                reason: error.to_string(),
            }),
        }
    }

    async fn send_once(&self, request: &Request<'_>) -> Result<(u16, String), reqwest::Error> {
        let mut builder = self
            .authorized(request.method.clone(), request.url.clone())
            .header(header::ACCEPT, JSON)
            .timeout(request.answer_max);
        if let Some(key) = &request.key {
            builder = builder.header("Idempotency-Key", key);
        }
        if let Some(body) = request.body {
            builder = builder
                .header(header::CONTENT_TYPE, request.media_type)
                .body(body.to_owned());
        }
        let response = builder.send().await?;
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

/// A name or id as it may stand in a path; anything else is refused before it is sent, so that no
/// text can lead to another path than the one that was meant.
pub(crate) fn segment(text: &str) -> Result<&str, ClientError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_name =
        text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_allowed);
    if is_name {
        return Ok(text);
    }
    let shown: String = text.chars().take(200).collect();
    let detail = format!("`{shown}` is no name or id: letters, digits, `.`, `_` and `-`");
    Err(Problem::not_found(detail).into())
}

fn written(body: &impl Serialize) -> Result<String, ClientError> {
    serde_json::to_string(body).map_err(|error| ClientError::NotUnderstood {
        reason: error.to_string(),
    })
}

/// Whether a host of an address is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
}

/// Nothing is known of what became of it, so the same may be sent again.
fn is_connection_error(error: &reqwest::Error) -> bool {
    !error.is_timeout() && !error.is_builder() && !error.is_redirect()
}

#[cfg(test)]
mod tests;
