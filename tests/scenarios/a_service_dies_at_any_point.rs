//! The table of crash points where each service is a process of its own, and only the one with the
//! point dies: its caller, the bus and its neighbours live on and must notice nothing but a delay.
//!
//! Counted in every case: effects (calls at the tool, callbacks by their id), results applied (history,
//! how a request ended), and messages: what people are told of each request. At the end of each row:
//! nothing is unsent, unconfirmed, unacked or buried.

mod commands;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures_util::{StreamExt as _, future::join_all, stream};
use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::fleet::{Api, Ground, Served};
use crate::shop::Shop;
use crate::world::{PATIENCE, at_rest, log};

/// Rows at the same time, each with processes of its own: mostly they wait for the bus to deliver again.
const AT_ONCE: usize = 6;

/// How long a call at the tool takes: the node beats for its lease meanwhile.
const AT_WORK: Duration = Duration::from_millis(600);

/// What happens around a death.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Story {
    /// Two runs of an agent that is followed ask: one is paused, answered and resumed, the other is
    /// cancelled.
    Asking,
    /// Two holds without a run: a person decides one, time ends the other; both call back.
    Alone,
    /// A node works, leaves, and another one works.
    Working,
    /// Agents, tools and contacts are made, changed and removed.
    Defining,
    /// Users and policies are made and removed.
    Administering,
    /// People and programs say how they are told.
    Subscribing,
    /// A run is handed over, held with its agent, taken over and ended with it.
    Operating,
    /// Requests are seen, decided together, withdrawn and asked again.
    Deciding,
}

/// One message, and whether it comes through the stream (a core request is never acked). Messages of a
/// service to itself have its name.
struct Row(&'static str, &'static str, bool, Story);

const ROWS: [Row; 13] = [
    Row("notification", "notification", false, Story::Alone),
    Row("executor", "pause_run", false, Story::Asking),
    Row("executor", "cancel_run", false, Story::Asking),
    Row("executor", "holds_closed", true, Story::Asking),
    Row("executor", "watch_ends", false, Story::Asking),
    Row("executor", "beat", false, Story::Working),
    Row("executor", "goodbye", false, Story::Working),
    Row("handoff", "set_holds", true, Story::Asking),
    Row("handoff", "open_hold", false, Story::Alone),
    Row("handoff", "decide_request", false, Story::Alone),
    Row("handoff", "timers_fired", true, Story::Alone),
    Row("notification", "note_requests", true, Story::Alone),
    Row("notification", "note_ends", true, Story::Asking),
];

/// What the commands' rows play in CI.
const POINTS_IN_CI: [&str; 2] = ["committed", "published"];

/// Set by `cargo xtask test --exhaustive`.
const EXHAUSTIVE: &str = "HOLDPOINT_TEST_EXHAUSTIVE";

const POINTS: [&str; 6] = [
    "fetched",
    "decided",
    "committed",
    "published",
    "replied",
    "acked",
];

/// What the notification service has for itself: the first is whom to tell. A delivery that was claimed
/// when it died comes again when the claim is over, after two minutes: the third, that a callback was
/// made, is lost once, and the callback is made again under its id.
const ITS_OWN: [&str; 3] = [
    "notification:fetched:1:notification",
    "notification:decided:1:notification",
    CLAIMED,
];
const CLAIMED: &str = "notification:fetched:3:notification";
const CLAIM_OVER: Duration = Duration::from_secs(180);

/// M-2, STYLE "crash points", "Races": a service that dies where it wants loses nothing and does nothing
/// twice, and the others go on.
#[tokio::test]
async fn the_others_go_on_and_nothing_is_lost_or_done_twice() {
    play_all(&ROWS, &POINTS).await;
}

/// Mend C-17, B-13: the same for every command of people and programs.
#[tokio::test]
async fn no_command_is_lost_or_done_twice() {
    let points = match std::env::var_os(EXHAUSTIVE) {
        Some(_) => &POINTS[..],
        None => &POINTS_IN_CI,
    };
    play_all(&commands::COMMANDS, points).await;
}

async fn play_all(rows: &[Row], points: &[&str]) {
    let failed: Vec<String> = stream::iter(rows)
        .map(|row| async move { Box::pin(row.play(points)).await })
        .buffer_unordered(AT_ONCE)
        .filter_map(|failed| async move { failed.err() })
        .map(|error| format!("{error:#}"))
        .collect()
        .await;
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

impl Row {
    /// All cases of one message, one after the other on the same system.
    async fn play(&self, points: &[&str]) -> anyhow::Result<()> {
        let Self(service, verb, is_stored, story) = *self;
        let mut fleet = Fleet::start().await;
        let points = points.iter().filter(|one| is_stored || **one != "acked");
        let cases: Vec<_> = match service == verb {
            true => ITS_OWN.map(str::to_owned).to_vec(),
            false => points
                .map(|point| format!("{service}:{point}:1:{verb}"))
                .collect(),
        };
        for case in cases {
            let played = fleet.case(service, &case, story).await;
            played.with_context(|| format!("{case}\n{}", fleet.log(service)))?;
        }
        fleet
            .is_at_rest()
            .await
            .with_context(|| format!("after all cases of {verb}"))
    }
}

/// All services, a process each.
struct Fleet {
    ground: Ground,
    services: Vec<(&'static str, Served)>,
    worker: Option<Served>,
    gateway: Served,
    api: Api,
    shop: Shop,
}

impl Fleet {
    async fn start() -> Self {
        let ground = Ground::on_sqlite().await;
        let names = ["executor", "scheduler", "handoff", "notification"];
        let served = join_all(names.iter().map(|name| ground.serve(name, &[]))).await;
        let args = ["--http", "127.0.0.1:0", "--owner-token"];
        let gateway = ground.serve("gateway", &args).await;
        Self {
            services: names.into_iter().zip(served).collect(),
            worker: None,
            api: Api::of(&gateway),
            gateway,
            shop: Shop::slow(AT_WORK).await,
            ground,
        }
    }

    fn log(&self, service: &str) -> String {
        let served = self.services.iter().find(|(name, _)| *name == service);
        let log = served.map(|(_, served)| served.log()).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(30).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// One death; the story goes on all the while.
    async fn case(
        &mut self,
        service: &'static str,
        case: &str,
        story: Story,
    ) -> anyhow::Result<()> {
        let place = self.services.iter().position(|(name, _)| *name == service);
        let (_, served) = self.services.remove(place.context("a service")?);
        served.terminate().await;
        let mut doomed = self.ground.serve_doomed(service, case).await;
        let worker = &mut self.worker;
        let scene = Scene {
            ground: &self.ground,
            api: &self.api,
            shop: &self.shop,
            case,
            patience: match case {
                CLAIMED => CLAIM_OVER,
                _ => PATIENCE,
            },
        };
        let revived = async {
            ensure!(doomed.dies(PATIENCE).await, "it never got there");
            Ok(scene.ground.serve(service, &[]).await)
        };
        let played = async {
            match story {
                Story::Asking => scene.asking().await,
                Story::Alone => scene.alone(service == "notification").await,
                Story::Working => scene.working(worker).await,
                Story::Defining => scene.defining().await,
                Story::Administering => scene.administering().await,
                Story::Subscribing => scene.subscribing().await,
                Story::Operating => scene.operating().await,
                Story::Deciding => scene.deciding().await,
            }
        };
        let (revived, played) = tokio::join!(revived, played);
        match (revived, played) {
            (Ok(revived), played) => {
                self.services.push((service, revived));
                played
            }
            (Err(error), played) => Err(error).with_context(|| {
                let told = played.err().map(|error| format!("{error:#}"));
                format!("{}; the story: {told:?}", doomed.log())
            }),
        }
    }

    /// Nothing is under way any more, and nobody has stumbled.
    async fn is_at_rest(&self) -> anyhow::Result<()> {
        at_rest(&self.ground.tables(), &self.ground.nats.url).await?;
        let logs = self.services.iter().map(|(_, served)| served);
        for served in logs.chain([&self.gateway]) {
            ensure!(!served.log().contains("panicked"), "{}", served.log());
        }
        Ok(())
    }
}

/// One case: everything is named after it.
struct Scene<'a> {
    ground: &'a Ground,
    api: &'a Api,
    shop: &'a Shop,
    case: &'a str,
    patience: Duration,
}

impl Scene<'_> {
    /// Until it is done: under one key, however often it is sent.
    async fn post(&self, what: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let key = format!("{}-{what}", self.case);
        let mut last = None;
        let done = until(PATIENCE, what, async || {
            let (status, body) = self.api.post_under(&key, path, body).await;
            last = Some(format!("{status} {body}"));
            match status {
                200 | 201 => Some(Ok(body)),
                400..=499 => Some(Err(anyhow::anyhow!("{status} {body}"))),
                _ => None,
            }
        });
        done.await.with_context(|| format!("{last:?}"))?
    }

    /// Until it is as it should be.
    async fn sees(
        &self,
        what: &str,
        path: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let mut last = Value::Null;
        let seen = until(self.patience, what, async || {
            let (status, body) = self.api.call(reqwest::Method::GET, path, &last).await;
            last = body;
            (status == 200 && is_so(&last)).then(|| last.clone())
        });
        let seen = seen.await;
        seen.with_context(|| format!("{path}: {last}"))
    }

    async fn start_run(&self, name: &str) -> anyhow::Result<String> {
        let path = format!("/agents/{name}/runs");
        let what = format!("run-{}", self.shop.calls().len());
        id_of(&self.post(&what, &path, &json!({})).await?)
    }

    async fn asking(&self) -> anyhow::Result<()> {
        let ask = json!({ "ask": { "to": "@user.owner", "question": "Ship?", "timeout": "1h" } });
        let agent = json!({ "agent": "asks", "steps": [ask, log("after")] });
        self.post("agent", "/agents", &agent).await?;
        self.post("follow", "/watches", &json!({ "agent": "asks" }))
            .await?;
        let (answered, dropped) = ("answered", "dropped");
        let mut asked = Vec::new();
        for one in [answered, dropped] {
            let run = id_of(&self.post(one, "/agents/asks/runs", &json!({})).await?)?;
            let path = format!("/runs/{run}");
            let waits = |run: &Value| run["status"] == "awaiting_input";
            let shown = self.sees("it asks", &path, waits).await?;
            let request = id_of(&shown["waiting_on"][0])?;
            let request = format!("/requests/{request}");
            self.sees("a request", &request, |one| one["status"] == "open")
                .await?;
            asked.push((path, request));
        }
        let [(run, request), (other, others)] = &asked[..] else {
            anyhow::bail!("two runs ask")
        };
        let none = json!({});
        self.post("pause", &format!("{run}/pause"), &none).await?;
        let answer = json!({ "answer": "yes" });
        self.post("answer", &format!("{request}/respond"), &answer)
            .await?;
        self.post("cancel", &format!("{other}/cancel"), &none)
            .await?;
        self.post("resume", &format!("{run}/resume"), &none).await?;

        self.sees("the end", run, |run| run["status"] == "completed")
            .await?;
        let ended = self
            .sees("its end", request, |one| one["effect"] != "pending")
            .await?;
        ensure!(ended["outcome"] == "answered", "{ended}");
        self.sees("it is gone", others, |one| one["status"] == "withdrawn")
            .await?;
        let stopped = self.sees("the other run", other, |_| true).await?;
        ensure!(stopped["status"] == "cancelled", "{stopped}");
        // By whoever resumed it, and by the answer.
        let all = [
            ("run.paused", 1),
            ("run.resumed", 2),
            ("input.answered", 1),
            ("step.succeeded", 1),
            ("run.completed", 1),
        ];
        self.history(run, &all).await?;
        let all = [("run.cancelled", 1), ("step.succeeded", 0)];
        self.history(other, &all).await?;
        self.is_told(request, &["input_requested"]).await?;
        // Not how it ended: the owner cancelled it, and knows (C-6).
        self.is_told(others, &["input_requested"]).await?;
        self.end_is_told_once(run).await
    }

    /// Whoever follows is told of the end of a run, once (S0-T4).
    async fn end_is_told_once(&self, run: &str) -> anyhow::Result<()> {
        let id = run.rsplit('/').next().context("an id")?;
        let ends = |page: &Value| {
            let items = page["items"].as_array().into_iter().flatten();
            let is_it = |one: &&Value| one["type"] == "workflow_complete" && one["run"] == id;
            items.filter(is_it).count()
        };
        let path = "/notifications?limit=500";
        let page = self
            .sees("the end is told", path, |page| ends(page) > 0)
            .await?;
        ensure!(ends(&page) == 1, "{page}");
        Ok(())
    }

    /// Each of these so often, and numbers without gaps.
    async fn history(&self, run: &str, all: &[(&str, usize)]) -> anyhow::Result<()> {
        let path = format!("{run}/events?limit=500");
        let page = self.sees("a history", &path, |_| true).await?;
        let items = page["items"].as_array().context("items")?;
        for (kind, times) in all {
            let count = items.iter().filter(|item| item["type"] == *kind).count();
            ensure!(count == *times, "{count} {kind}: {items:?}");
        }
        let numbers = items.iter().map(|item| item["seq"].as_u64().unwrap_or(0));
        ensure!(numbers.eq(1..=items.len() as u64), "gaps: {items:?}");
        Ok(())
    }

    /// The owner is told of a request by these, each once, and each says that it has ended.
    async fn is_told(&self, request: &str, kinds: &[&str]) -> anyhow::Result<()> {
        let id = request.rsplit('/').next().context("an id")?;
        let told = |page: &Value| -> Vec<Value> {
            let items = page["items"].as_array().into_iter().flatten();
            items.filter(|one| one["request"] == id).cloned().collect()
        };
        let is_marked = |page: &Value| {
            let told = told(page);
            told.len() >= kinds.len() && told.iter().all(|one| one["decided"].is_object())
        };
        let path = "/notifications?limit=500";
        let page = self.sees("the owner is told", path, is_marked).await?;
        let told = told(&page);
        let mut types: Vec<_> = told.iter().filter_map(|one| one["type"].as_str()).collect();
        types.sort_unstable();
        ensure!(types == kinds, "{told:?}");
        Ok(())
    }

    async fn alone(&self, is_caller_killed: bool) -> anyhow::Result<()> {
        let before = self.shop.calls().len();
        let callback = self.shop.url("/called");
        let timer = json!({ "kind": "timer", "wait": "1s", "callback": callback });
        let timer = id_of(&self.post("timer", "/holds", &timer).await?)?;
        let body = json!({ "kind": "approval", "question": "Ship?", "callback": callback });
        let hold = id_of(&self.post("hold", "/holds", &body).await?)?;
        let request = format!("/requests/{hold}");
        let comment = json!({ "comment": "yes" });
        self.post("approve", &format!("{request}/approve"), &comment)
            .await?;
        let ended = self
            .sees("its end", &request, |one| one["outcome"] == "approved")
            .await?;
        let says = |action| {
            ended["history"]
                .as_array()
                .map(|all| all.iter().filter(|one| one["action"] == action).count())
        };
        ensure!(says("approved") == Some(1), "{ended}");
        let fired = format!("/requests/{timer}");
        self.sees("its time", &fired, |one| one["outcome"] == "fired")
            .await?;
        self.is_told(&request, &["approval_requested"]).await?;
        for (id, outcome) in [(&hold, "approved"), (&timer, "fired")] {
            self.is_called_back(before, id, outcome, is_caller_killed)
                .await?;
        }
        Ok(())
    }

    /// Once; again under the same id only where the caller was killed with the call in its hands.
    async fn is_called_back(
        &self,
        before: usize,
        hold: &str,
        outcome: &str,
        is_caller_killed: bool,
    ) -> anyhow::Result<()> {
        let sent = |page: &Value| {
            let items = page["items"].as_array().into_iter().flatten();
            let mut ours = items.filter(|one| one["channel"] == "callback");
            ours.any(|one| one["state"] == "sent")
        };
        let path = format!("/requests/{hold}/deliveries");
        self.sees("the callback is through", &path, sent).await?;
        let mut ids = Vec::new();
        for call in self.shop.calls().iter().skip(before) {
            let body: Value = serde_json::from_str(&call.body)?;
            if body["id"] == hold {
                ensure!(body["outcome"] == outcome, "{body}");
                ids.push(call.header("webhook-id").to_owned());
            }
        }
        let calls = ids.len();
        ids.dedup();
        let most = if is_caller_killed { 2 } else { 1 };
        ensure!(
            ids.len() == 1 && calls <= most,
            "{calls} calls under {ids:?}"
        );
        Ok(())
    }

    async fn working(&self, worker: &mut Option<Served>) -> anyhow::Result<()> {
        let call = json!({ "method": "POST", "url": self.shop.url("/orders") });
        let steps = json!([{ "tool": "http_request", "args": call, "claim_timeout": "10s" }]);
        let agent = json!({ "agent": "works", "steps": steps });
        self.post("agent", "/agents", &agent).await?;
        for _ in 0..2 {
            let before = self.shop.calls().len();
            if worker.is_none() {
                *worker = Some(self.ground.worker().await);
            }
            let run = format!("/runs/{}", self.start_run("works").await?);
            let ended = self
                .sees("its end", &run, |run| run["status"] == "completed")
                .await?;
            let effects = self.shop.calls().len() - before;
            ensure!(effects == 1, "{effects} effects at the tool: {ended}");
            ensure!(ended["steps"][0]["inline"] != true, "by the node: {ended}");
            let all = [("step.succeeded", 1), ("run.completed", 1)];
            self.history(&run, &all).await?;
            if let Some(worker) = worker.take() {
                worker.terminate().await;
            }
        }
        Ok(())
    }
}

fn id_of(body: &Value) -> anyhow::Result<String> {
    let id = body["id"].as_str().with_context(|| body.to_string())?;
    Ok(id.to_owned())
}
