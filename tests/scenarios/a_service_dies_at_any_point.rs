//! The table of crash points where each service is a process of its own, and only the one with the
//! point dies: its caller, the bus and its neighbours live on and must notice nothing but a delay.
//!
//! Counted in every case: effects (calls at the tool, callbacks by their id), results applied (history,
//! how a request ended), and messages: what people are told of each request. At the end of each row:
//! nothing is unsent, unconfirmed, unacked or buried.

mod commands;
mod workloads;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures_util::{StreamExt as _, future::join_all, stream};
use holdpoint_testkit::{TestPostgres, postgres, until};
use serde_json::{Value, json};

use crate::fleet::{Api, Ground, Served};
use crate::shop::Shop;
use crate::world::{PATIENCE, at_rest};

/// Rows at the same time, each with processes of its own: mostly they wait for the bus to deliver again.
const AT_ONCE: usize = 8;

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
    Row("executor", "watch_run_ends", false, Story::Asking),
    Row("executor", "heartbeat", false, Story::Working),
    Row("executor", "deregister", false, Story::Working),
    Row("handoff", "set_holds", true, Story::Asking),
    Row("handoff", "open_hold", false, Story::Alone),
    Row("handoff", "decide_request", false, Story::Alone),
    Row("handoff", "timers_fired", true, Story::Alone),
    Row("notification", "record_request_events", true, Story::Alone),
    Row("notification", "record_run_ends", true, Story::Asking),
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
    play_all(&ROWS, &POINTS, None).await;
}

/// Mend C-17, B-13: the same for every command of people and programs.
#[tokio::test]
async fn no_command_is_lost_or_done_twice() {
    let points = match std::env::var_os(EXHAUSTIVE) {
        Some(_) => &POINTS[..],
        None => &POINTS_IN_CI,
    };
    play_all(&commands::COMMANDS, points, None).await;
}

/// Mend C-17: all of it on Postgres; the notification service's own points take minutes, and are played on
/// SQLite.
#[tokio::test]
async fn nothing_is_lost_or_done_twice_on_postgres() {
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    let rows = ROWS.iter().filter(|row| row.0 != row.1);
    let rows = rows.chain(&commands::COMMANDS);
    play_all(rows, &POINTS_IN_CI, Some(&postgres)).await;
}

async fn play_all(
    rows: impl IntoIterator<Item = &Row>,
    points: &[&str],
    postgres: Option<&TestPostgres>,
) {
    let failed: Vec<String> = stream::iter(rows)
        .map(|row| async move { Box::pin(row.play(points, postgres)).await })
        .buffer_unordered(AT_ONCE)
        .filter_map(|failed| async move { failed.err() })
        .map(|error| format!("{error:#}"))
        .collect()
        .await;
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

impl Row {
    /// All cases of one message, one after the other on the same system.
    async fn play(&self, points: &[&str], postgres: Option<&TestPostgres>) -> anyhow::Result<()> {
        let Self(service, verb, is_stored, story) = *self;
        let ground = match postgres {
            Some(postgres) => Ground::on_postgres(postgres.another().await?).await,
            None => Ground::on_sqlite().await,
        };
        let mut fleet = Fleet::start(ground).await;
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
    async fn start(ground: Ground) -> Self {
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
        at_rest(&self.ground.database, &self.ground.nats.url).await?;
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
}

fn id_of(body: &Value) -> anyhow::Result<String> {
    let id = body["id"].as_str().with_context(|| body.to_string())?;
    Ok(id.to_owned())
}
