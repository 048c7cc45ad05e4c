//! A gateway on a free port with all it needs, and a played executor that writes down what it is
//! asked.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};
use futures_util::StreamExt;
use holdpoint_bus::Bus;
use holdpoint_bus::server::{self, Provided};
use holdpoint_clock::Clock;
use holdpoint_contracts::history::{EventType, HistoryItem, Nudge};
use holdpoint_contracts::run::{Clocks, RunStatus, RunView};
use holdpoint_contracts::subject;
use holdpoint_ids::{RunId, Workspace};
use holdpoint_store::Location;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{Config, Deps, GatewayError};

/// What the played executor knows and was asked.
#[derive(Debug, Default)]
pub(super) struct Played {
    /// Verb and envelope of every command, in order.
    pub(super) asked: Vec<(String, Value)>,
    pub(super) history: Vec<HistoryItem>,
    pub(super) run_final: bool,
}

pub(super) struct Edge {
    pub(super) base: String,
    pub(super) token: String,
    /// Opens the workspace `other`.
    pub(super) other_token: String,
    pub(super) played: Arc<Mutex<Played>>,
    pub(super) stop: CancellationToken,
    pub(super) serving: JoinHandle<Result<(), GatewayError>>,
    pub(super) dir: TempDir,
    client: reqwest::Client,
    bus: Bus,
    nats: Option<Provided>,
}

impl Drop for Edge {
    fn drop(&mut self) {
        drop(self.nats.take());
        server::kill_leftover(self.dir.path());
    }
}

pub(super) fn at() -> DateTime<Utc> {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

impl Edge {
    pub(super) async fn new() -> Self {
        let edge = Self::without_executor().await;
        play(edge.bus.clone(), edge.played.clone()).await;
        edge
    }

    pub(super) async fn without_executor() -> Self {
        // A second installation says no, which is fine.
        drop(rustls::crypto::ring::default_provider().install_default());
        let dir = tempfile::tempdir().unwrap();
        let settings = server::Settings {
            data_dir: dir.path().to_owned(),
            url: None,
        };
        let nats = server::provide(settings).await.unwrap();
        let bus = Bus::connect(&nats.url, "gateway-test").await.unwrap();
        let store = Location::Sqlite(dir.path().join("gateway.db"));
        let clock = Clock::standing_at(at());
        let deps = Deps {
            bus: bus.clone(),
            clock,
            store,
            mails: None,
        };
        let http = SocketAddr::from(([127, 0, 0, 1], 0));
        let gateway = crate::start(deps, Config { http }).await.unwrap();
        let token = gateway.owner_token(&workspace("default")).await.unwrap();
        let other_token = gateway.owner_token(&workspace("other")).await.unwrap();
        let base = format!("http://{}", gateway.address());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(gateway.serve(stop.clone()));
        let client = reqwest::Client::new();
        let (played, nats) = (Arc::default(), Some(nats));
        Self {
            base,
            token,
            other_token,
            played,
            stop,
            serving,
            dir,
            client,
            bus,
            nats,
        }
    }

    /// A request without a token, at a path from the root.
    pub(super) fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    /// A request with the owner's token, at a path in the workspace.
    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, &format!("/v1/workspaces/default{path}"))
            .bearer_auth(&self.token)
    }

    pub(super) async fn get(&self, path: &str) -> Response {
        self.request(Method::GET, path).send().await.unwrap()
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Response {
        self.request(Method::POST, path)
            .json(&body)
            .send()
            .await
            .unwrap()
    }

    /// Adds one item to the history and tells whoever listens.
    pub(super) async fn happens(&self, run: RunId, kind: EventType) {
        let seq = {
            let mut played = self.played.lock().unwrap();
            let seq = played.history.len() as u64 + 1;
            played.run_final = kind == EventType::RunCompleted;
            played.history.push(HistoryItem {
                seq,
                kind,
                at: at(),
                run,
                step: None,
                message: format!("item {seq}"),
                data: Value::Null,
            });
            seq
        };
        let nudge = serde_json::to_vec(&Nudge {
            runs: vec![(run, seq)],
        })
        .unwrap();
        let subject = subject::live(&workspace("default"), "executor");
        self.bus.send(subject, nudge.into()).await.unwrap();
    }
}

/// Status and code of a refusal, which must be a whole problem.
pub(super) async fn refusal(response: Response) -> (u16, String) {
    let status = response.status();
    let media_type = response.headers()["content-type"].clone();
    let body: Value = response.json().await.unwrap();
    assert_eq!(media_type, "application/problem+json", "{body}");
    for field in ["type", "title", "code", "detail"] {
        assert!(body[field].is_string(), "{field} in {body}");
    }
    assert_eq!(body["status"], status.as_u16());
    (status.as_u16(), body["code"].as_str().unwrap().to_owned())
}

pub(super) async fn ok(response: Response) -> Value {
    assert_eq!(response.status(), StatusCode::OK);
    response.json().await.unwrap()
}

pub(super) fn workspace(name: &str) -> Workspace {
    name.parse().unwrap()
}

async fn play(bus: Bus, played: Arc<Mutex<Played>>) {
    let client = bus.client().clone();
    let asks = client
        .subscribe(subject::asks_filter("executor"))
        .await
        .unwrap();
    let queries = client
        .subscribe(subject::queries_filter("executor"))
        .await
        .unwrap();
    client.flush().await.unwrap();
    tokio::spawn(async move {
        let mut requests = futures_util::stream::select(asks, queries);
        while let Some(request) = requests.next().await {
            let parts = subject::parse(&request.subject).unwrap();
            let body: Value = serde_json::from_slice(&request.payload).unwrap();
            let reply = answer(&parts.verb, body, &mut played.lock().unwrap());
            let payload = serde_json::to_vec(&reply).unwrap();
            client
                .publish(request.reply.unwrap(), payload.into())
                .await
                .unwrap();
        }
    });
}

fn answer(verb: &str, body: Value, played: &mut Played) -> Value {
    let reply = match verb {
        "agents" | "contacts" | "runs" => json!({"ok": {"items": [], "next_cursor": null}}),
        "history" => history(&body, played),
        "plan_agent" => problem(422, "invalid_agent"),
        "apply_agent" => json!({"ok": {
            "agent": body["command"]["agent"], "version": 1, "status": "active",
            "description": null, "updated_at": at(), "changed": true,
        }}),
        "put_contact" => json!({"ok": {"id": body["command"]["contact"]}}),
        "start_run" if body["command"]["agent"] == "nobody" => problem(404, "not_found"),
        "start_run" => json!({"ok": run_view(&body)}),
        "pause_run" | "resume_run" | "cancel_run" => {
            let mut run = serde_json::to_value(run_view(&body)).unwrap();
            run["changed"] = true.into();
            json!({ "ok": run })
        }
        other => panic!("not played: {other}"),
    };
    if body.get("command").is_some() {
        played.asked.push((verb.to_owned(), body));
    }
    reply
}

fn problem(status: u16, code: &str) -> Value {
    json!({"problem": {"status": status, "code": code, "detail": "played"}})
}

fn history(body: &Value, played: &Played) -> Value {
    let after = body["after"].as_u64().unwrap();
    let limit = usize::try_from(body["limit"].as_u64().unwrap()).unwrap();
    let later = played
        .history
        .iter()
        .filter(|item| item.seq > after)
        .take(limit);
    json!({"ok": {
        "items": later.collect::<Vec<_>>(),
        "last_seq": played.history.len(),
        "run_final": played.run_final,
    }})
}

fn run_view(body: &Value) -> RunView {
    let command = &body["command"];
    let agent = command["agent"].as_str().unwrap_or("outreach");
    RunView {
        id: command["run"].as_str().unwrap().parse().unwrap(),
        agent: agent.parse().unwrap(),
        version: 1,
        status: RunStatus::Queued,
        resume_at: None,
        message: "Queued.".to_owned(),
        contact: command["contact"].as_str().map(|id| id.parse().unwrap()),
        labels: serde_json::from_value(command["labels"].clone()).unwrap_or_default(),
        waiting_on: Vec::new(),
        paused_by: Vec::new(),
        steps: Vec::new(),
        result: None,
        failure: None,
        clocks: Clocks::default(),
        created_at: at(),
        ended_at: None,
    }
}
