//! `http_request {method?, url, headers?, body?}`: one HTTP call.
//!
//! Owns the limits, the headers that identify the calling step, and redirects. It must never follow a hop that
//! [`EgressPolicy`] has not checked, nor send secrets to another origin than the one in the step.

mod headers;

use std::{collections::BTreeMap, time::Duration};

use holdpoint_contracts::duration;
use reqwest::{
    Method, StatusCode,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION},
};
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use self::headers::{add_identity, header_value, read_headers, shown_headers};
use super::failed_response::read_failed;
use super::{MAX_INLINE_RESULT, invalid_args, quote, read_args};
use crate::{
    redaction::Redaction,
    targets::{self, EgressPolicy},
    tool::{BoxFuture, CallCost, Risk, Tool, ToolCall, ToolFailure, ToolResult, ToolSuccess},
};

const NAME: &str = "http_request";

/// Largest request body, in bytes.
pub const MAX_REQUEST_BODY: usize = 1024 * 1024;

/// Largest response body in bytes: the limit of an inline result.
pub const MAX_RESPONSE_BODY: usize = MAX_INLINE_RESULT;

/// Time limit of a call, with all redirects and the whole response.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest time of a call whose step has a `timeout`.
pub const LONGEST_TIMEOUT: Duration = Duration::from_mins(10);

/// Redirects of one call at most.
pub const MAX_REDIRECTS: usize = 5;

/// Code of a call to an address that is not allowed. Nothing was sent to it.
const TARGET_REFUSED: &str = "target_refused";

/// No request was sent.
const CONNECT_FAILED: &str = "connect_failed";

/// The request may have had its effect. A step that must not be done twice becomes uncertain.
const HTTP_FAILED: &str = "http_failed";

#[derive(Debug, Clone)]
pub struct HttpRequest {
    policy: EgressPolicy,
    client: reqwest::Client,
    timeout: Duration,
}

impl HttpRequest {
    /// `timeout` limits a call with all redirects, usually to [`DEFAULT_TIMEOUT`]. A longer `timeout` of its step counts
    /// instead, up to [`LONGEST_TIMEOUT`]. A `rustls` provider must be installed first.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(policy: EgressPolicy, timeout: Duration) -> Result<Self, reqwest::Error> {
        let client = policy.client(LONGEST_TIMEOUT.max(timeout))?;
        Ok(Self {
            policy,
            client,
            timeout,
        })
    }

    async fn run(&self, call: &ToolCall) -> ToolResult {
        let args: Args = read_args(NAME, &call.dispatch.args)?;
        let request = Outgoing::new(NAME, args, call)?;
        let (cost, secrets) = (CallCost::default(), Redaction::default());
        let response = self.exchange(request, &cost, &secrets).await?;
        let (status, body) = (response.status.as_u16(), response.value());
        let data = json!({ "status": status, "headers": response.headers, "body": body });
        // Escapes and headers can make the stored text longer than the body.
        if data.to_string().len() > MAX_RESPONSE_BODY {
            return Err(too_large());
        }
        Ok(ToolSuccess {
            description: response.description,
            data,
        })
    }

    /// Limits the whole call to its timeout.
    pub(super) async fn in_time(
        &self,
        call: &ToolCall,
        run: impl Future<Output = ToolResult>,
    ) -> ToolResult {
        let of_step = call.dispatch.timeout_ms.map(Duration::from_millis);
        let of_step = of_step.unwrap_or_default().min(LONGEST_TIMEOUT);
        let limit = self.timeout.max(of_step);
        let result = tokio::time::timeout(limit, run).await;
        result.unwrap_or_else(|_elapsed| Err(timed_out(limit)))
    }

    /// Sends the request, follows redirects, adds the cost, and reads the whole response. A status of 400 or above is a
    /// failure, and has a cost too. Its body shows no part of `secrets`.
    pub(super) async fn exchange(
        &self,
        mut request: Outgoing,
        cost: &CallCost,
        secrets: &Redaction,
    ) -> Result<ToolResponse, ToolFailure> {
        for hop in 0..=MAX_REDIRECTS {
            let sent = self.send(&request).await;
            let response = sent.map_err(|failure| after_redirects(failure, hop))?;
            match redirect_target(&response, &request.url)? {
                Some(next) => request.follow(response.status(), next)?,
                None => {
                    cost.add(cost_of(response.headers()));
                    let status = response.status();
                    if status.is_client_error() || status.is_server_error() {
                        let host = request.host();
                        return Err(read_failed(response, &host, secrets).await);
                    }
                    return self.read(response, &request).await;
                }
            }
        }
        Err(ToolFailure::new(
            "too_many_redirects",
            format!("The address redirected more than {MAX_REDIRECTS} times."),
        ))
    }

    async fn send(&self, request: &Outgoing) -> Result<reqwest::Response, ToolFailure> {
        self.policy
            .check(&request.url)
            .map_err(|reason| refused(&reason))?;
        let mut builder = self
            .client
            .request(request.method.clone(), request.url.clone())
            .headers(request.headers.clone());
        if let Some(body) = &request.body {
            builder = builder.body(body.clone());
        }
        builder.send().await.map_err(|error| self.failure(&error))
    }

    async fn read(
        &self,
        mut response: reqwest::Response,
        request: &Outgoing,
    ) -> Result<ToolResponse, ToolFailure> {
        let status = response.status();
        let headers = shown_headers(response.headers());
        let is_json = headers
            .get(CONTENT_TYPE.as_str())
            .is_some_and(|kind| is_json(kind));
        let mut bytes = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if bytes.len() + chunk.len() > MAX_RESPONSE_BODY => {
                    return Err(too_large());
                }
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(error) => return Err(self.failure(&error)),
            }
        }
        Ok(ToolResponse {
            status,
            headers,
            is_json,
            bytes,
            host: request.host(),
            description: format!("{} {} answered {status}", request.method, request.host()),
        })
    }

    /// reqwest's texts quote the whole URL, which may contain a secret. They are never passed on.
    fn failure(&self, error: &reqwest::Error) -> ToolFailure {
        if let Some(reason) = targets::refusal(error) {
            return refused(reason);
        }
        // First, because a connection that is not made in time has not sent anything either.
        if error.is_connect() {
            return ToolFailure::new(CONNECT_FAILED, "The address could not be reached.");
        }
        if error.is_timeout() {
            return ToolFailure::new("timeout", "The address did not answer in time.");
        }
        ToolFailure::new(HTTP_FAILED, "The connection failed during the request.")
    }
}

/// A redirect may follow an effect, so a second address that is not called does not show that nothing happened.
fn after_redirects(failure: ToolFailure, hop: usize) -> ToolFailure {
    let text = match failure.code.as_str() {
        CONNECT_FAILED => "The address of a redirect could not be reached.",
        TARGET_REFUSED => "The address of a redirect is not allowed.",
        _ => return failure,
    };
    if hop == 0 {
        return failure;
    }
    ToolFailure::new(HTTP_FAILED, text)
}

fn timed_out(limit: Duration) -> ToolFailure {
    let within = duration::describe(limit);
    ToolFailure::new("timeout", format!("No full answer within {within}."))
}

impl Tool for HttpRequest {
    fn name(&self) -> &'static str {
        NAME
    }

    fn risk(&self) -> Risk {
        Risk::Medium
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(self.in_time(call, self.run(call)))
    }
}

/// A complete response with a status below 400.
pub(super) struct ToolResponse {
    pub(super) status: StatusCode,
    headers: BTreeMap<String, String>,
    is_json: bool,
    pub(super) bytes: Vec<u8>,
    /// The host after all redirects.
    pub(super) host: String,
    pub(super) description: String,
}

impl ToolResponse {
    /// Whether the tool has asked people and parks (`Holdpoint-Outcome: parked`).
    pub(super) fn parks(&self) -> bool {
        let outcome = self.headers.get("holdpoint-outcome");
        outcome.is_some_and(|outcome| outcome.eq_ignore_ascii_case("parked"))
    }

    pub(super) fn content_type(&self) -> &str {
        let kind = self.headers.get(CONTENT_TYPE.as_str());
        kind.map_or("", String::as_str)
    }

    /// JSON if the content type and the body are JSON, otherwise the text.
    pub(super) fn value(&self) -> Value {
        let parsed = serde_json::from_slice(&self.bytes).ok();
        let parsed = parsed.filter(|_| self.is_json);
        parsed.unwrap_or_else(|| Value::from(String::from_utf8_lossy(&self.bytes).into_owned()))
    }
}

/// What the tool says that the call has cost (`Holdpoint-Cost: 0.02`).
fn cost_of(headers: &HeaderMap) -> f64 {
    let cost = headers.get("holdpoint-cost");
    let cost = cost.and_then(|cost| cost.to_str().ok()?.parse().ok());
    cost.unwrap_or_default()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    #[serde(default = "get")]
    pub(super) method: String,
    pub(super) url: String,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Option<Value>,
    /// The executor uses it to decide about retries.
    #[serde(default, rename = "idempotent")]
    pub(super) _idempotent: bool,
}

fn get() -> String {
    "GET".to_owned()
}

/// The request, which each redirect changes.
pub(super) struct Outgoing {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
}

impl Outgoing {
    /// Errors name `tool`.
    pub(super) fn new(tool: &str, args: Args, call: &ToolCall) -> Result<Self, ToolFailure> {
        let method = read_method(tool, &args.method)?;
        let url = Url::parse(&args.url).map_err(|error| {
            let error = format!("`url` must be an absolute address such as https://… ({error})");
            invalid_args(tool, &error)
        })?;
        let mut headers = read_headers(tool, &args.headers)?;
        let body = args.body.filter(|body| !body.is_null()).map(|body| {
            let (kind, bytes) = match body.as_str() {
                Some(text) => ("text/plain; charset=utf-8", text.as_bytes().to_vec()),
                None => ("application/json", body.to_string().into_bytes()),
            };
            headers
                .entry(CONTENT_TYPE)
                .or_insert(HeaderValue::from_static(kind));
            bytes
        });
        add_identity(&mut headers, call)?;
        Self {
            method,
            url,
            headers,
            body,
        }
        .within_limit()
    }

    /// Adds the step token. Only a tool that an operator has registered may act for the step.
    pub(super) fn with_step_token(mut self, call: &ToolCall) -> Result<Self, ToolFailure> {
        if let Some(token) = &call.dispatch.token {
            let mut token = header_value(token)?;
            token.set_sensitive(true);
            self.headers.insert("holdpoint-token", token);
        }
        Ok(self)
    }

    /// Sets `body` as JSON, also for a text or null.
    pub(super) fn json(mut self, body: &Value) -> Result<Self, ToolFailure> {
        self.headers
            .entry(CONTENT_TYPE)
            .or_insert(HeaderValue::from_static("application/json"));
        self.body = Some(body.to_string().into_bytes());
        self.within_limit()
    }

    fn within_limit(self) -> Result<Self, ToolFailure> {
        let bytes = self.body.as_ref().map_or(0, Vec::len);
        if bytes > MAX_REQUEST_BODY {
            return Err(ToolFailure::new(
                "request_too_large",
                format!("The request body is larger than {MAX_REQUEST_BODY} bytes."),
            ));
        }
        Ok(self)
    }

    fn host(&self) -> String {
        quote(self.url.host_str().unwrap_or("the server"))
    }

    /// Continues at `next` as browsers do: 303 turns into GET, and so does a POST at 301 or 302. Another
    /// origin gets none of the step's headers, because they may be secrets for the first origin. The body
    /// may be a secret, too: a redirect that would send it to another origin fails the step.
    fn follow(&mut self, status: StatusCode, next: Url) -> Result<(), ToolFailure> {
        let was_post = self.method == Method::POST;
        let to_get = match status {
            StatusCode::SEE_OTHER => self.method != Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => was_post,
            _other => false,
        };
        if to_get {
            self.method = Method::GET;
            self.body = None;
            self.headers.remove(CONTENT_TYPE);
        }
        if self.url.origin() != next.origin() {
            if self.body.is_some() {
                return Err(ToolFailure::new(
                    "redirect_refused",
                    format!(
                        "{} redirects the body to another origin, which is refused. Write the final address into the step.",
                        self.host()
                    ),
                ));
            }
            self.headers.clear();
        }
        self.url = next;
        Ok(())
    }
}

fn read_method(tool: &str, text: &str) -> Result<Method, ToolFailure> {
    let known = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    known
        .into_iter()
        .find(|method| method.as_str().eq_ignore_ascii_case(text))
        .ok_or_else(|| {
            invalid_args(
                tool,
                "`method` must be GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS",
            )
        })
}

fn redirect_target(response: &reqwest::Response, from: &Url) -> Result<Option<Url>, ToolFailure> {
    let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = response.headers().get(LOCATION).filter(|_| is_redirect) else {
        return Ok(None);
    };
    let next = location.to_str().ok().and_then(|text| from.join(text).ok());
    match next {
        Some(next) => Ok(Some(next)),
        None => Err(ToolFailure::new(
            HTTP_FAILED,
            "The response redirects to an invalid address.",
        )),
    }
}

fn is_json(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    kind == "application/json" || kind == "text/json" || kind.ends_with("+json")
}

fn refused(reason: &targets::TargetRefused) -> ToolFailure {
    ToolFailure::new(TARGET_REFUSED, format!("Not called: {reason}."))
}

fn too_large() -> ToolFailure {
    ToolFailure::new(
        "response_too_large",
        format!("The answer is larger than {MAX_RESPONSE_BODY} bytes, the limit of a result."),
    )
}
