//! A gateway on a free port with its dependencies, and played services that record their commands.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use async_nats::HeaderMap;
use chrono::{DateTime, Utc};
use futures_util::StreamExt;
use holdpoint_auth::{Asserted, AuthError, Claims, Secrets, StepKey, Trust};
use holdpoint_bus::Bus;
use holdpoint_bus::server::{self, Provided};
use holdpoint_clock::Clock;
use holdpoint_contracts::history::{EventType, HistoryItem, Nudge};
use holdpoint_contracts::message::{IdempotencyKey, command_text};
use holdpoint_contracts::notification::FeedItem;
use holdpoint_contracts::run::{Clocks, RunStatus, RunView, StepStatus, StepView, WaitingOn};
use holdpoint_contracts::subject::{self, Parts};
use holdpoint_ids::{RunId, Workspace};
use holdpoint_store::Location;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{Config, Deps};

/// What the played owners know and were asked.
#[derive(Debug, Default)]
pub(super) struct Played {
    /// Verb and envelope of every command, in order.
    pub(super) asked: Vec<(String, Value)>,
    pub(super) history: Vec<HistoryItem>,
    /// The status of every run, instead of queued.
    pub(super) run_status: Option<RunStatus>,
    /// What every run waits for.
    pub(super) waiting_on: Vec<WaitingOn>,
    /// Numbered facts about users.
    pub(super) users: Vec<Value>,
    /// Of the one request that there is.
    pub(super) request_status: String,
    /// How often it was looked at.
    pub(super) queries: u32,
    /// How many replies show the effect of a decision as `pending`.
    pub(super) pending: u32,
    /// Requests whose caller waits for the effect.
    pub(super) asked_for_effect: u32,
    /// What every decision is refused with.
    pub(super) refusal: Option<Value>,
    /// Changes of notifications with their users, oldest first.
    pub(super) feed: Vec<(String, FeedItem)>,
    /// Added right after the unread notifications were listed.
    pub(super) late_feed_item: Option<(String, FeedItem)>,
    pub(super) feed_queries: u32,
    trust: Trust,
    /// What was found of each assertion that came.
    vouched: HashMap<String, Result<Claims, AuthError>>,
}

impl Played {
    /// Checks an assertion as its owner does.
    fn claims(&self, parts: &Parts, body: &Value, payload: &[u8]) -> Result<Claims, AuthError> {
        let key: Option<IdempotencyKey> =
            serde_json::from_value(body["key"].clone()).map_err(|_unlike| AuthError::Malformed)?;
        let asserted = Asserted {
            service: &parts.service,
            verb: &parts.verb,
            key: key.as_ref(),
            command: command_text(payload).ok_or(AuthError::Malformed)?,
        };
        let assertion = body["assertion"].as_str().unwrap_or_default();
        self.trust
            .check(assertion, &asserted, &parts.workspace, at())
    }
}

/// File that lists what other services lack. Without it they lack nothing.
pub(super) const LACKS: &str = "lacks";

pub(super) struct Edge {
    pub(super) base: String,
    pub(super) token: String,
    /// Opens the workspace `other`.
    pub(super) other_token: String,
    /// Path of a link that signs a browser in as the owner.
    pub(super) login: String,
    pub(super) played: Arc<Mutex<Played>>,
    pub(super) stop: CancellationToken,
    pub(super) serving: JoinHandle<()>,
    pub(super) dir: TempDir,
    pub(super) clock: Clock,
    pub(super) steps: StepKey,
    secrets: Secrets,
    client: reqwest::Client,
    pub(super) bus: Bus,
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
        edge.play("executor").await;
        edge
    }

    /// Starts to answer as one of the owners.
    pub(super) async fn play(&self, service: &str) {
        play(self.bus.clone(), self.played.clone(), service).await;
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
        let (clock, secrets) = (Clock::standing_at(at()), Secrets::fresh().unwrap());
        let played = Arc::new(Mutex::new(Played {
            trust: secrets.keys().unwrap().trust,
            ..Played::default()
        }));
        play(bus.clone(), played.clone(), "handoff").await;
        let gateway = gateway(&dir, &bus, &clock, &secrets).await;
        let token = gateway.owner_token(&workspace("default")).await.unwrap();
        let other_token = gateway.owner_token(&workspace("other")).await.unwrap();
        let login = gateway.owner_login(&workspace("default")).await.unwrap();
        played.lock().unwrap().asked.clear();
        let base = format!("http://{}", gateway.address());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(gateway.serve(stop.clone()));
        let keys = secrets.keys().unwrap();
        Self {
            base,
            token,
            other_token,
            login,
            played,
            stop,
            serving,
            dir,
            clock,
            steps: keys.steps,
            secrets,
            client: reqwest::Client::new(),
            bus,
            nats: Some(nats),
        }
    }

    /// Ends the gateway and starts it again on the same tables.
    pub(super) async fn restart(&mut self) {
        self.stop.cancel();
        (&mut self.serving).await.unwrap();
        let gateway = gateway(&self.dir, &self.bus, &self.clock, &self.secrets).await;
        self.base = format!("http://{}", gateway.address());
        self.stop = CancellationToken::new();
        self.serving = tokio::spawn(gateway.serve(self.stop.clone()));
    }

    /// A token of a user, made by the owner.
    pub(super) async fn token_of(&self, user: &str, role: Option<&str>) -> String {
        let body = json!({"user": user, "role": role});
        let made = self.post("/tokens", body).await;
        assert_eq!(made.status(), 201);
        let made: Value = made.json().await.unwrap();
        made["token"].as_str().unwrap().to_owned()
    }

    /// The owner takes all tokens of a user back.
    pub(super) async fn revoke(&self, user: &str) {
        let page = ok(self.get("/tokens").await).await;
        let all = page["items"].as_array().unwrap().iter();
        for token in all.filter(|one| one["user"] == user) {
            let path = format!("/tokens/{}", token["id"].as_str().unwrap());
            let gone = self.request(Method::DELETE, &path).send().await.unwrap();
            assert_eq!(gone.status(), 204);
        }
    }

    /// A live stream, opened with a token.
    pub(super) async fn live_as(&self, token: &str, path: &str) -> Response {
        let request = self.bare(Method::GET, &format!("/v1/workspaces/default{path}"));
        let request = request.bearer_auth(token);
        let request = request.header("accept", "text/event-stream");
        request.send().await.unwrap()
    }

    /// Makes a user with these roles.
    pub(super) async fn user(&self, name: &str, roles: &[&str]) {
        let body = json!({"name": name, "roles": roles});
        assert_eq!(self.post("/users", body).await.status(), 201);
    }

    /// The same request with another token.
    pub(super) async fn as_whom(&self, token: &str, method: Method, path: &str) -> Response {
        let request = self.bare(method, &format!("/v1/workspaces/default{path}"));
        request.bearer_auth(token).send().await.unwrap()
    }

    /// Whom the gateway vouched for as the caller of a command that was asked.
    pub(super) fn vouched(&self, asked: &Value) -> Claims {
        let assertion = asked["assertion"].as_str().unwrap();
        self.played.lock().unwrap().vouched[assertion]
            .clone()
            .unwrap()
    }

    /// Verbs that were asked, in order.
    pub(super) fn verbs(&self) -> Vec<String> {
        let played = self.played.lock().unwrap();
        played.asked.iter().map(|(verb, _)| verb.clone()).collect()
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

    /// Adds one item to the history and nudges its readers.
    pub(super) async fn happens(&self, run: RunId, kind: EventType) {
        let seq = {
            let mut played = self.played.lock().unwrap();
            let seq = played.history.len() as u64 + 1;
            if kind == EventType::RunCompleted {
                played.run_status = Some(RunStatus::Completed);
            }
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

async fn gateway(dir: &TempDir, bus: &Bus, clock: &Clock, secrets: &Secrets) -> crate::Gateway {
    let lacks = dir.path().join(LACKS);
    let deps = Deps {
        bus: bus.clone(),
        clock: clock.clone(),
        store: Location::Sqlite(dir.path().join("gateway.db")),
        signer: Arc::new(secrets.signer().unwrap()),
        keys: secrets.keys().unwrap(),
        mails: None,
        not_ready: Some(Arc::new(move || {
            Vec::from_iter(std::fs::read_to_string(&lacks).ok())
        })),
    };
    let http = SocketAddr::from(([127, 0, 0, 1], 0));
    crate::start(deps, Config { http }).await.unwrap()
}

async fn play(bus: Bus, played: Arc<Mutex<Played>>, service: &str) {
    let client = bus.client().clone();
    let asks = client
        .subscribe(subject::asks_filter(service))
        .await
        .unwrap();
    let queries = client
        .subscribe(subject::queries_filter(service))
        .await
        .unwrap();
    client.flush().await.unwrap();
    tokio::spawn(async move {
        let mut requests = futures_util::stream::select(asks, queries);
        while let Some(request) = requests.next().await {
            let parts = subject::parse(&request.subject).unwrap();
            let mut body: Value = serde_json::from_slice(&request.payload).unwrap();
            if let Some(assertion) = body["assertion"].as_str() {
                let mut played = played.lock().unwrap();
                let claims = played.claims(&parts, &body, &request.payload);
                played.vouched.insert(assertion.to_owned(), claims);
            }
            let awaits = |it: &HeaderMap| it.get(subject::AWAIT_EFFECT_HEADER).is_some();
            let awaits_effect = request.headers.as_ref().is_some_and(awaits);
            played.lock().unwrap().asked_for_effect += u32::from(awaits_effect);
            let workspace = parts.workspace.to_string();
            let reply = if parts.service == "handoff" {
                super::handoff::answer(&parts.verb, &workspace, &body, &mut played.lock().unwrap())
            } else {
                answer(&parts.verb, body.take(), &mut played.lock().unwrap())
            };
            let payload = serde_json::to_vec(&reply).unwrap();
            let sent = client.publish(request.reply.unwrap(), payload.into());
            sent.await.unwrap();
        }
    });
}

fn answer(verb: &str, body: Value, played: &mut Played) -> Value {
    let reply = match verb {
        "agents" | "contacts" | "activities" | "runs" | "nodes" | "claims" => {
            json!({"ok": {"items": [], "next_cursor": null}})
        }
        "tools" => {
            let put = played.asked.iter().filter(|(verb, _)| verb == "put_tool");
            let items: Vec<_> = put.map(|(_, body)| tool_view(body)).collect();
            json!({"ok": {"items": items, "next_cursor": null}})
        }
        "history" => history(&body, played),
        "notification_feed" | "unread" | "notifications" | "read_notification"
        | "read_notifications" => super::notifications::answer(verb, &body, played),
        "preferences" | "put_preferences" | "webhooks" | "webhook" | "add_webhook"
        | "change_webhook" | "remove_webhook" => super::settings::answer(verb, &body),
        "watch_run_ends" => json!({"ok": [{"ok": {}}]}),
        "watch" => watch(&body, played),
        "plan_agent" => problem(422, "invalid_agent"),
        "check_edited_plan" => problem(422, "invalid_plan"),
        "apply_agent" => json!({"ok": {
            "agent": body["command"]["agent"], "version": 1, "status": "active",
            "description": null, "updated_at": at(), "changed": true,
        }}),
        "notification" => json!({"ok": {
            "id": body["id"], "type": "agent_handoff", "title": "t", "message": "m",
            "priority": "normal", "action_url": "/", "link": "/", "run": null,
            "request": super::handoff::REQUEST, "at": at(), "read_at": null, "decided": null,
        }}),
        "put_contact" | "contact" | "patch_contact" | "add_activity" | "erase_contact"
        | "erasure" | "delete_contact" => super::people::contact(verb, &body),
        "run" => {
            let mut view = run_view(&json!({"command": body}));
            view.waiting_on.clone_from(&played.waiting_on);
            let raw = (body["raw_errors"] == true).then(|| "raw of /srv/crm".to_owned());
            view.steps[0].raw_error = raw;
            view.status = played.run_status.unwrap_or(view.status);
            json!({ "ok": view })
        }
        "agent" if body["agent"] == "books" => json!({"ok": {
            "agent": "books", "version": 1, "status": "active", "updated_at": at(),
        }}),
        "agent" | "unwatch" => problem(404, "not_found"),
        "agent_stats" => problem(503, "unavailable"),
        "put_blob" | "blob" | "step_blob" => super::blobs::played(verb, &body),
        "delete_tool" | "snapshot" => json!({"ok": null}),
        "put_tool" => json!({ "ok": tool_view(&body) }),
        "pause_scope" | "resume_scope" | "delete_agent" => json!({"ok": {
            "agent": body["command"]["agent"], "status": "paused", "paused_by": null, "changed": true,
        }}),
        "start_run" if body["command"]["agent"] == "nobody" => problem(404, "not_found"),
        "start_run" => json!({"ok": run_view(&body)}),
        "request_input" => json!({"ok": {
            "notification_id": "note_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1",
            "request_id": super::handoff::REQUEST, "step": "step-01", "key": "k", "status": "open",
            "deadline": at(),
        }}),
        "pause_run" | "resume_run" | "cancel_run" | "retry_run" | "signal_run" | "suspend_run"
        | "patch_context" | "take_over_run" => {
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

fn watch(body: &Value, played: &Played) -> Value {
    let agent = &body["command"]["of"]["agent"];
    let watch = json!({ "id": "agent_outreach", "agent": agent, "since": at() });
    let new = played.asked.iter().all(|(verb, _)| verb != "watch");
    json!({"ok": { "watch": watch, "new": new }})
}

fn tool_view(body: &Value) -> Value {
    let mut tool = body["command"]["tool"].clone();
    tool["revision"] = 1.into();
    tool["changed"] = true.into();
    tool
}

pub(super) fn problem(status: u16, code: &str) -> Value {
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
        "run_final": played.run_status.is_some_and(RunStatus::is_final),
    }})
}

fn run_view(body: &Value) -> RunView {
    let command = &body["command"];
    let agent = command["agent"].as_str().unwrap_or("outreach");
    RunView {
        questions: Vec::new(),
        taken_over_by: None,
        taken_over_at: None,
        id: command["run"].as_str().unwrap().parse().unwrap(),
        agent: agent.parse().unwrap(),
        version: 1,
        status: RunStatus::Queued,
        resume_at: None,
        message: "Queued.".to_owned(),
        contact: command["contact"].as_str().map(|id| id.parse().unwrap()),
        parent: None,
        labels: serde_json::from_value(command["labels"].clone()).unwrap_or_default(),
        waiting_on: Vec::new(),
        paused_at: None,
        pause_reason: None,
        paused_by: Vec::new(),
        input: Some(json!({ "order": "A-17" })),
        steps: vec![step()],
        result: None,
        failure: None,
        clocks: Clocks::default(),
        spent: None,
        created_at: at(),
        ended_at: None,
    }
}

/// The one step of the run that everybody is shown, as it was dispatched the first time.
fn step() -> StepView {
    let step = json!({
        "id": "step-01", "kind": "tool", "status": StepStatus::InProgress, "tool": null,
        "action": "Call log", "request": null, "response": null, "error_code": null,
        "dispatch": 1, "attempts": 1, "claimed_by": null,
    });
    serde_json::from_value(step).unwrap()
}
