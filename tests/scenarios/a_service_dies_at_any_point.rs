//! The table of crash points with separate processes. Only one service dies; its callers, the bus and the other
//! services live on and notice only a delay.
//!
//! Each case counts effects (calls of the tool, callbacks by id), applied results (history, end of a request) and
//! notifications. At the end of a row no message is unsent, unacknowledged or in the dead letters.

mod commands;
mod gated_steps;
mod sweeps;
mod workloads;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures_util::future::join_all;
use holdpoint_testkit::{TestPostgres, postgres, until};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use self::gated_steps::GATED_STEPS;
use crate::fleet::{Api, Ground, Served};
use crate::shop::Shop;
use crate::world::{PATIENCE, at_rest};

/// Rows that are played at the same time by all tests of this file, each with separate processes. They mostly wait
/// for a redelivery, and each starts containers, of which Docker starts only some at a time.
static AT_ONCE: Semaphore = Semaphore::const_new(8);

/// Duration of a call of the tool. The node renews its lease in this time.
const AT_WORK: Duration = Duration::from_millis(600);

/// The commands that are sent while a service dies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Workload {
    /// Two runs of a watched agent ask. One is paused, answered and resumed; the other is cancelled.
    RunRequests,
    /// A run fails at a call, and an operator retries it.
    Retries,
    Signals,
    /// A run waits for a reply of its contact, which comes.
    Replies,
    /// A user with an open request is disabled.
    Leaving,
    /// A run starts three child runs, and cancels two of them.
    ChildRuns,
    /// A run is suspended and resumed.
    Suspensions,
    /// An operation acts on all runs of an agent, and is cancelled.
    ManyRuns,
    /// Two standalone holds call back. A person decides one, and time ends the other.
    StandaloneHolds,
    /// A node works and deregisters, and another node works.
    NodeSteps,
    /// Agents, tools and contacts are created, changed and deleted.
    Definitions,
    /// A contact with a run and an open request is erased.
    Erasure,
    /// Users and policies are created and deleted.
    Administration,
    /// Preferences, webhooks and watches are set, and notifications are read.
    Subscriptions,
    /// A run is handed over, paused with its agent, taken over and ended with it.
    Operations,
    /// Gated calls of a run are approved, edited, rejected, sent back and approved in advance.
    GatedSteps,
    /// Requests are acknowledged, decided in a batch, withdrawn and asked again.
    Decisions,
}

/// Service, verb, whether the message comes through the stream, and the workload. A core request is never acked. The
/// inputs of a sweep have its name as the verb, and other inputs of a service itself have that of the service.
struct Row(&'static str, &'static str, bool, Workload);

const ROWS: [Row; 15] = [
    Row(
        "notification",
        "notification",
        false,
        Workload::StandaloneHolds,
    ),
    Row("executor", "pause_run", false, Workload::RunRequests),
    Row("executor", "cancel_run", false, Workload::RunRequests),
    Row("executor", "holds_closed", true, Workload::RunRequests),
    Row("executor", "watch_run_ends", false, Workload::RunRequests),
    Row("executor", "patch_context", false, Workload::Signals),
    Row("executor", "heartbeat", false, Workload::NodeSteps),
    Row("executor", "deregister", false, Workload::NodeSteps),
    Row("handoff", "set_holds", true, Workload::RunRequests),
    Row("handoff", "open_hold", false, Workload::StandaloneHolds),
    Row(
        "handoff",
        "decide_request",
        false,
        Workload::StandaloneHolds,
    ),
    Row("handoff", "timers_fired", true, Workload::StandaloneHolds),
    Row(
        "notification",
        "record_request_events",
        true,
        Workload::StandaloneHolds,
    ),
    Row(
        "notification",
        "record_run_ends",
        true,
        Workload::RunRequests,
    ),
    Row(
        "notification",
        "record_contact_events",
        true,
        Workload::Definitions,
    ),
];

/// Crash points that CI plays for commands.
const POINTS_IN_CI: [&str; 2] = ["committed", "published"];

/// On Postgres a row costs three times as much. CI plays this point of every third row there.
const POINT_ON_POSTGRES_IN_CI: [&str; 1] = ["committed"];
const EVERY_ROW_ON_POSTGRES_IN_CI: usize = 3;

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

/// The inputs of the notification service itself. The last one reports a callback. If the service dies during a callback, it
/// is repeated under its id after its lease of two minutes.
const ITS_OWN: [&str; 3] = [
    "notification:fetched:1:fan_out",
    "notification:decided:1:fan_out",
    "notification:fetched:1:notification",
];
const CLAIM_OVER: Duration = Duration::from_secs(180);

/// M-2, "Races": a service that dies at any point loses nothing and handles nothing twice, and the others continue.
#[tokio::test]
async fn no_message_is_lost_or_handled_twice() {
    play_all(&ROWS, &POINTS, None).await;
}

/// Mend C-17, B-13, Words: the same for every command of people and programs, and for the sweeps of the services.
#[tokio::test]
async fn no_command_is_lost_or_done_twice() {
    let points = match is_exhaustive() {
        true => &POINTS[..],
        false => &POINTS_IN_CI,
    };
    let rows = commands::COMMANDS.iter().chain(&sweeps::SWEEPS);
    play_all(rows, points, None).await;
}

/// Mend C-17: the same on Postgres. The inputs of the notification service itself take minutes and are played on
/// SQLite only.
#[tokio::test]
async fn nothing_is_lost_or_done_twice_on_postgres() {
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    let rows = ROWS.iter().filter(|row| row.0 != row.1);
    let rows = rows.chain(&commands::COMMANDS).chain(&sweeps::SWEEPS);
    let migrated = Migrated::on(postgres).await.unwrap();
    let (every, points) = match is_exhaustive() {
        true => (1, &POINTS_IN_CI[..]),
        false => (EVERY_ROW_ON_POSTGRES_IN_CI, &POINT_ON_POSTGRES_IN_CI[..]),
    };
    play_all(rows.step_by(every), points, Some(&migrated)).await;
}

/// Gate (Must): what people have approved is done once, wherever a service dies on the way.
#[tokio::test]
async fn a_gated_call_is_made_once() {
    play_all(&GATED_STEPS, &POINTS, None).await;
}

/// The same on Postgres.
#[tokio::test]
async fn a_gated_call_is_made_once_on_postgres() {
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    let migrated = Migrated::on(postgres).await.unwrap();
    let points = match is_exhaustive() {
        true => &POINTS_IN_CI[..],
        false => &POINT_ON_POSTGRES_IN_CI,
    };
    play_all(&GATED_STEPS, points, Some(&migrated)).await;
}

fn is_exhaustive() -> bool {
    std::env::var_os(EXHAUSTIVE).is_some()
}

/// A Postgres with one database that has all tables. Copying it costs less than migrating the database of each row.
struct Migrated {
    server: TestPostgres,
    database: String,
}

impl Migrated {
    async fn on(server: TestPostgres) -> anyhow::Result<Self> {
        let database = server.another().await?;
        let ground = Ground::on_postgres(database.clone()).await;
        let (code, stderr) = ground.ends(&["migrate"]).await;
        ensure!(code == 0, "{stderr}");
        Ok(Self { server, database })
    }

    async fn copy(&self) -> anyhow::Result<String> {
        self.server.copy_of(&self.database).await
    }
}

async fn play_all(
    rows: impl IntoIterator<Item = &Row>,
    points: &[&str],
    postgres: Option<&Migrated>,
) {
    let played = rows.into_iter().map(|row| async move {
        let _permit = AT_ONCE.acquire().await;
        Box::pin(row.play(points, postgres)).await
    });
    let failed = join_all(played).await.into_iter().filter_map(Result::err);
    let failed: Vec<_> = failed.map(|error| format!("{error:#}")).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

impl Row {
    /// Plays all cases of one message in sequence on one system.
    async fn play(&self, points: &[&str], postgres: Option<&Migrated>) -> anyhow::Result<()> {
        let Self(service, verb, is_stored, workload) = *self;
        let ground = match postgres {
            Some(postgres) => Ground::on_postgres(postgres.copy().await?).await,
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
            let played = fleet.case(service, &case, workload).await;
            played.with_context(|| format!("{case}\n{}", fleet.log(service)))?;
        }
        fleet
            .is_at_rest()
            .await
            .with_context(|| format!("after all cases of {verb}"))
    }
}

/// All services, each in a separate process.
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

    /// Plays one death. The workload continues meanwhile.
    async fn case(
        &mut self,
        service: &'static str,
        case: &str,
        workload: Workload,
    ) -> anyhow::Result<()> {
        let place = self.services.iter().position(|(name, _)| *name == service);
        let (_, served) = self.services.remove(place.context("a service")?);
        served.terminate().await;
        let mut doomed = self.ground.serve_doomed(service, case).await;
        let worker = &mut self.worker;
        let trial = Trial {
            ground: &self.ground,
            api: &self.api,
            shop: &self.shop,
            case,
            patience: if ITS_OWN.contains(&case) {
                CLAIM_OVER
            } else {
                PATIENCE
            },
        };
        let revived = async {
            ensure!(
                doomed.dies(PATIENCE).await,
                "the crash point was not reached"
            );
            Ok(trial.ground.serve(service, &[]).await)
        };
        let played = async {
            match workload {
                Workload::RunRequests => trial.ask_in_runs().await,
                Workload::Retries => trial.retry_run().await,
                Workload::Signals => trial.signal_run().await,
                Workload::Replies => trial.await_reply().await,
                Workload::Leaving => trial.disable_recipient().await,
                Workload::ChildRuns => trial.start_child_runs().await,
                Workload::Suspensions => trial.suspend_run().await,
                Workload::ManyRuns => trial.act_on_many_runs().await,
                Workload::StandaloneHolds => {
                    trial.open_standalone_holds(service == "notification").await
                }
                Workload::NodeSteps => trial.run_node_steps(worker).await,
                Workload::Definitions => trial.change_definitions().await,
                Workload::Erasure => trial.erase_contact().await,
                Workload::Administration => trial.administer_users().await,
                Workload::Subscriptions => trial.subscribe().await,
                Workload::Operations => trial.operate_run().await,
                Workload::GatedSteps => trial.decide_gated_steps(worker).await,
                Workload::Decisions => trial.decide_requests().await,
            }
        };
        let (revived, played) = tokio::join!(revived, played);
        match (revived, played) {
            (Ok(revived), played) => {
                self.services.push((service, revived));
                played
            }
            (Err(error), played) => Err(error).with_context(|| {
                let error = played.err().map(|error| format!("{error:#}"));
                format!("{}; the workload: {error:?}", doomed.log())
            }),
        }
    }

    /// Checks that no work is left and that no process panicked.
    async fn is_at_rest(&self) -> anyhow::Result<()> {
        at_rest(&self.ground.database, &self.ground.nats.url).await?;
        let logs = self.services.iter().map(|(_, served)| served);
        for served in logs.chain([&self.gateway]) {
            ensure!(!served.log().contains("panicked"), "{}", served.log());
        }
        Ok(())
    }
}

/// One case. Its name is part of all names that it creates.
struct Trial<'a> {
    ground: &'a Ground,
    api: &'a Api,
    shop: &'a Shop,
    case: &'a str,
    patience: Duration,
}

impl Trial<'_> {
    /// Sends a command under one key until it succeeds.
    async fn post(&self, what: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let key = format!("{}-{what}", self.case);
        let mut last = None;
        let done = until(PATIENCE, what, async || {
            let (status, body) = self.api.post_under(&key, path, body).await;
            last = Some(format!("{status} {body}"));
            match status {
                200..=202 if body["command_id"].is_null() => Some(Ok(body)),
                400..=499 => Some(Err(anyhow::anyhow!("{status} {body}"))),
                _ => None,
            }
        });
        done.await.with_context(|| format!("{last:?}"))?
    }

    /// Waits until the resource satisfies the condition.
    async fn until_seen(
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
