//! Calls of the HTTP API, and starts of runs through it.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use holdpoint_bus::Bus;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::super::instruction::{Api, BenchAgent, Pace};
use super::super::statistics::{micros, per_second, percentiles, round};
use super::runs::RunStarter;
use crate::connection::WORKSPACE_DEFAULT;

/// Longest time of one call.
const CALL_MAX: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(super) struct HttpClient {
    http: reqwest::Client,
    base: String,
    token: String,
}

impl HttpClient {
    pub(super) fn new(api: &Api) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(CALL_MAX)
            .build()?;
        let base = format!("{}/v1/workspaces/{WORKSPACE_DEFAULT}", api.url);
        Ok(Self {
            http,
            base,
            token: api.token.clone(),
        })
    }

    /// Reads a path, and returns the reply with the microseconds that the call took.
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<(Value, u64)> {
        let request = self.http.get(format!("{}/{path}", self.base));
        reply(path, request.bearer_auth(&self.token)).await
    }

    /// Sends a body, and returns the reply with the microseconds that the call took. Any other status than 2xx is an
    /// error.
    pub(super) async fn post(
        self,
        path: String,
        media_type: &'static str,
        body: String,
    ) -> anyhow::Result<(Value, u64)> {
        let request = self.http.post(format!("{}/{path}", self.base));
        let request = request
            .bearer_auth(&self.token)
            .header(CONTENT_TYPE, media_type);
        reply(&path, request.body(body)).await
    }
}

async fn reply(path: &str, request: reqwest::RequestBuilder) -> anyhow::Result<(Value, u64)> {
    let began = Instant::now();
    let response = request.send().await?;
    let status = response.status();
    let body = response.bytes().await?;
    let time = micros(began.elapsed());
    if !status.is_success() {
        bail!("{path}: {status}: {}", String::from_utf8_lossy(&body));
    }
    Ok((serde_json::from_slice(&body)?, time))
}

/// Starts runs that wait for a day. A request starts one run, or `lines` runs as a batch.
pub(super) async fn start_runs(
    bus: &Bus,
    api: &Api,
    pace: &Pace,
    lines: u64,
) -> anyhow::Result<Value> {
    let agent = BenchAgent::Wait;
    RunStarter::new(bus.clone(), agent).await?;
    let client = HttpClient::new(api)?;
    let (path, media_type, body) = if lines > 1 {
        let lines = usize::try_from(lines)?;
        ("runs:batch", "application/x-ndjson", "{}\n".repeat(lines))
    } else {
        ("runs", "application/json", "{}".to_owned())
    };
    let path = format!("agents/{}/{path}", agent.name());
    let began = Instant::now();
    let mut tick = pace.ticks();
    let mut calls = FuturesUnordered::new();
    let (mut sent, mut started, mut times) = (0, 0, Vec::new());
    while sent < pace.runs || !calls.is_empty() {
        while sent < pace.allowed(began.elapsed()) && calls.len() < pace.window {
            calls.push(client.clone().post(path.clone(), media_type, body.clone()));
            sent += lines;
        }
        tokio::select! {
            Some(reply) = calls.next() => {
                let (reply, time) = reply?;
                started += count_started(&reply, lines)?;
                times.push(time);
            }
            _ = tick.tick() => {}
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok(json!({
        "runs": started,
        "runs_per_request": lines,
        "seconds": round(seconds),
        "starts_per_s": round(per_second(started, seconds)),
        "call": percentiles(times),
    }))
}

/// The runs that a reply reports as started.
fn count_started(reply: &Value, lines: u64) -> anyhow::Result<u64> {
    if lines == 1 {
        return Ok(1);
    }
    let items = reply.get("items").and_then(Value::as_array);
    let items = items.context("the reply to a batch has no items")?;
    let is_started = |item: &&Value| item.get("status").and_then(Value::as_u64) == Some(201);
    Ok(u64::try_from(items.iter().filter(is_started).count())?)
}
