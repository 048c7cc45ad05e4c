//! A schedule starts runs of an agent by a cron expression: `/schedules` and `schedule`.

use anyhow::{Context as _, ensure};
use chrono::{DateTime, Utc};
use futures_util::{StreamExt as _, stream};
use holdpoint_testkit::{Up, UpOptions, holdpoint_binary, until};
use reqwest::Method;
use serde_json::{Value, json};

use crate::fleet::{Api, Ground};
use crate::world::{PATIENCE, World, at_rest, log, tables_of};

/// Each morning in Berlin.
fn daily(agent: &str) -> Value {
    json!({
        "name": "daily", "agent": agent, "cron": "30 9 * * *", "time_zone": "Europe/Berlin",
        "input": { "n": 1 },
    })
}

async fn put(world: &World, body: &Value) -> Value {
    let (status, view) = world.up.post("/schedules", body).await.unwrap();
    assert_eq!(status, 201, "{view}");
    view
}

async fn show(world: &World) -> Value {
    let (status, view) = world.up.get("/schedules/daily").await.unwrap();
    assert_eq!(status, 200, "{view}");
    view
}

/// Runs of the schedule, newest first.
async fn runs(up: &Up) -> Vec<Value> {
    let (status, page) = up.get("/runs?label=schedule=daily").await.unwrap();
    assert_eq!(status, 200, "{page}");
    page["items"].as_array().unwrap().clone()
}

/// Issue 17, schedules: each fire starts one run of the newest version, and the schedule shows it.
#[tokio::test]
async fn each_fire_starts_one_run() {
    let world = World::with_test_clock().await;
    world
        .agent("quick", json!([log("n = {{ input.n }}")]))
        .await;
    let created = put(&world, &daily("quick")).await;
    let (fire, none) = (created["next_fire"].as_str().unwrap(), Value::Null);
    assert!(fire.ends_with(":30:00.000Z"), "{created}");
    assert_eq!(
        (&created["last_fire"], &created["last_run"]),
        (&none, &none)
    );
    assert_eq!(
        put(&world, &daily("quick")).await,
        created,
        "nothing has changed"
    );

    world.advance("1d").await;
    let started = runs(&world.up).await;
    assert_eq!(started.len(), 1, "{started:?}");
    assert_eq!(started[0]["status"], "completed", "{started:?}");
    let run = world.run(started[0]["id"].as_str().unwrap()).await;
    assert_eq!(run["steps"][0]["request"]["message"], "n = 1", "{run}");
    let view = show(&world).await;
    assert_eq!(
        (&view["last_fire"], &view["last_outcome"], &view["last_run"]),
        (&created["next_fire"], &json!("started"), &started[0]["id"])
    );
    let items = world.items(started[0]["id"].as_str().unwrap()).await;
    let message = "Run of quick (version 1) started by schedule:daily.";
    assert_eq!(items[0]["message"], message, "{items:?}");

    world.agent("quick", json!([log("second")])).await;
    world.advance("3d").await;
    let started = runs(&world.up).await;
    assert_eq!(started.len(), 4);
    assert_eq!(started[0]["version"], 2, "the newest version: {started:?}");

    let (status, _) = world.up.delete("/schedules/daily").await.unwrap();
    assert_eq!(status, 204);
    world.advance("2d").await;
    assert_eq!(
        runs(&world.up).await.len(),
        4,
        "a deleted schedule starts nothing"
    );
    let (_, page) = world.up.get("/schedules").await.unwrap();
    assert_eq!(page["items"], json!([]));
    let (status, _) = world.up.delete("/schedules/daily").await.unwrap();
    assert_eq!(status, 404);
}

/// API, `when_paused`: a fire for a paused agent is skipped, or its run waits for the resume.
#[tokio::test]
async fn a_fire_for_a_paused_agent_is_skipped_or_queued() {
    let world = World::with_test_clock().await;
    world.agent("quick", json!([log("hello")])).await;
    let mut schedule = daily("quick");
    put(&world, &schedule).await;
    let agent = |verb: &str| format!("/agents/quick/{verb}");
    world.up.post(&agent("pause"), &json!({})).await.unwrap();
    world.advance("1d").await;
    assert_eq!(runs(&world.up).await, Vec::<Value>::new());
    let view = show(&world).await;
    assert_eq!(view["last_outcome"], "skipped", "{view}");
    assert_eq!(view["last_error"], "the agent or the workspace was paused");

    schedule["when_paused"] = json!("queue");
    put(&world, &schedule).await;
    world.advance("1d").await;
    let queued = runs(&world.up).await;
    assert_eq!(queued.len(), 1, "{queued:?}");
    assert_eq!(queued[0]["paused_by"][0]["scope"], "agent", "{queued:?}");
    world.up.post(&agent("resume"), &json!({})).await.unwrap();
    world.settle().await;
    assert_eq!(runs(&world.up).await[0]["status"], "completed");
}

/// API, `overlap`: with `skip`, nothing starts while the last run of the schedule is open.
#[tokio::test]
async fn a_fire_during_the_last_run_is_skipped() {
    let world = World::with_test_clock().await;
    world.agent("slow", json!([{ "wait": "36h" }])).await;
    let mut schedule = daily("slow");
    schedule["overlap"] = json!("skip");
    put(&world, &schedule).await;
    world.advance("2d").await;
    assert_eq!(runs(&world.up).await.len(), 1);
    let view = show(&world).await;
    assert_eq!(
        view["last_error"], "the last run of the schedule was open",
        "{view}"
    );
    world.advance("1d").await;
    assert_eq!(runs(&world.up).await.len(), 2, "the first has ended");
}

/// A start that the executor refuses is shown on the schedule, which fires on.
#[tokio::test]
async fn a_refused_start_is_shown() {
    let world = World::with_test_clock().await;
    world.agent("quick", json!([log("hello")])).await;
    put(&world, &daily("quick")).await;
    world.up.delete("/agents/quick").await.unwrap();
    world.advance("1d").await;
    let view = show(&world).await;
    assert_eq!(view["last_outcome"], "refused", "{view}");
    assert_eq!(
        view["last_error"],
        "agent `quick` not found in this workspace"
    );
    world.agent("quick", json!([log("hello")])).await;
    world.advance("1d").await;
    let view = show(&world).await;
    assert_eq!(
        (&view["last_outcome"], &view["last_error"]),
        (&json!("started"), &Value::Null)
    );
    at_rest(&tables_of(&world.up), &world.up.nats_url)
        .await
        .unwrap();
}

/// Issue 17, "Bad input": a cron that never fires; and all other wrong fields.
#[tokio::test]
async fn a_wrong_schedule_is_refused() {
    let world = World::with_test_clock().await;
    world.agent("quick", json!([log("hello")])).await;
    for (field, value, pointer, part) in [
        ("cron", json!("0 0 30 2 *"), "/cron", "never fires"),
        (
            "cron",
            json!("* * * * * *"),
            "/cron",
            "invalid cron expression",
        ),
        (
            "cron",
            json!("61 * * * *"),
            "/cron",
            "invalid cron expression",
        ),
        ("cron", json!(""), "/cron", "invalid cron expression"),
        ("time_zone", json!("Europe/Berln"), "/time_zone", "IANA"),
        ("agent", json!("quikc"), "/agent", "not found"),
        ("name", json!("a b"), "/name", "name"),
        ("when_paused", json!("later"), "/when_paused", "skip"),
        ("input", json!("x".repeat(70_000)), "/input", "65536"),
        ("crn", json!("* * * * *"), "/crn", "unknown field"),
    ] {
        let mut body = daily("quick");
        body[field] = value;
        let (status, problem) = world.up.post("/schedules", &body).await.unwrap();
        assert_eq!(
            (status, &problem["code"]),
            (422, &json!("invalid_body")),
            "{problem}"
        );
        let error = &problem["errors"][0];
        assert_eq!(error["pointer"], pointer, "{problem}");
        assert!(
            error["message"].as_str().unwrap().contains(part),
            "{problem}"
        );
        if field == "time_zone" {
            assert_eq!(error["nearest"], json!(["Europe/Berlin"]), "{problem}");
        }
    }
    let (_, page) = world.up.get("/schedules").await.unwrap();
    assert_eq!(page["items"], json!([]));
}

/// The command line adds, lists and removes a schedule.
#[tokio::test]
async fn the_command_line_manages_schedules() {
    let world = World::with_test_clock().await;
    world.agent("quick", json!([log("hello")])).await;
    let holdpoint = async |args: &[&str]| {
        let output = tokio::process::Command::new(holdpoint_binary().unwrap())
            .args(args)
            .arg("--data")
            .arg(world.up.data_dir())
            .env_remove("HOLDPOINT_URL")
            .env_remove("HOLDPOINT_TOKEN")
            .output();
        let output = output.await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text)
    };
    let add = [
        "schedule", "add", "daily", "--agent", "quick", "--cron", "@daily",
    ];
    let (code, text) = holdpoint(&add).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("daily  fires next at"), "{text}");
    world.advance("1d").await;
    let (_, text) = holdpoint(&["schedule", "list"]).await;
    assert!(
        text.contains("@daily") && text.contains("started"),
        "{text}"
    );
    let (code, _) = holdpoint(&["schedule", "remove", "daily"]).await;
    assert_eq!(code, Some(0));
    let (code, text) = holdpoint(&["schedule", "show", "daily"]).await;
    assert_eq!(code, Some(3), "{text}");
}

/// Issue 17: two replicas of the scheduler and of the executor, on Postgres, start one run for a fire. It waits for the
/// next minute.
#[tokio::test]
async fn two_replicas_start_one_run() {
    let Some(ground) = Ground::new().await else {
        return;
    };
    let mut services = Vec::new();
    for service in ["executor", "executor", "scheduler", "scheduler", "handoff"] {
        services.push(ground.serve(service, &[]).await);
    }
    let args = ["--http", "127.0.0.1:0", "--owner-token"];
    let gateway = ground.serve("gateway", &args).await;
    let api = Api::of(&gateway);
    let agent = json!({ "agent": "quick", "steps": [log("hello")] });
    assert_eq!(api.post("/agents", &agent).await.0, 201);
    let mut schedule = daily("quick");
    schedule["cron"] = json!("* * * * *");
    let (status, created) = api.post("/schedules", &schedule).await;
    assert_eq!(status, 201, "{created}");
    let view = until(PATIENCE * 2, "the schedule has fired", async || {
        let view = api.get("/schedules/daily").await;
        (view["last_outcome"] == "started").then_some(view)
    });
    let view = view.await.unwrap();
    let page = api.get("/runs?label=schedule=daily").await;
    let started = page["items"].as_array().unwrap();
    assert_eq!(started.len(), 1, "{page} {view}");
    assert_eq!(view["last_run"], started[0]["id"], "{page}");
}

/// Deaths of the process while a schedule fires: service, verb, and whether the message comes through the stream.
/// `scheduler` is the commit of the fire, and `acknowledged` the commit of the executor's answer.
pub(crate) const MESSAGES: [(&str, &str, bool); 3] = [
    ("scheduler", "scheduler", false),
    ("executor", "start_scheduled", true),
    ("scheduler", "acknowledged", false),
];

/// Issue 17: exactly one start for each fire, wherever the process dies.
#[tokio::test]
async fn a_kill_at_any_point_starts_one_run() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let cases = MESSAGES.iter().flat_map(|(service, verb, is_stored)| {
        let points: &[&str] = match (*verb, is_stored) {
            (_, true) => &[
                "fetched",
                "decided",
                "committed",
                "published",
                "replied",
                "acked",
            ],
            (_, false) => &["decided", "committed"],
        };
        points
            .iter()
            .map(move |point| format!("{service}:{point}:1:{verb}"))
    });
    let failed: Vec<String> = stream::iter(cases)
        .map(|case| async move {
            let result = Box::pin(fire_and_die(&case)).await;
            result.err().map(|error| format!("{case}: {error:#}"))
        })
        .buffer_unordered(3)
        .filter_map(|failed| async move { failed })
        .collect()
        .await;
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

async fn fire_and_die(case: &str) -> anyhow::Result<()> {
    let mut up = Up::start(UpOptions {
        test_clock: true,
        ..UpOptions::default()
    })
    .await?;
    let agent = json!({ "agent": "quick", "steps": [log("hello")] });
    up.post("/agents", &agent).await?;
    let (status, created) = up.post("/schedules", &daily("quick")).await?;
    ensure!(status == 201, "{created}");
    let instant = |value: &Value| value.as_str()?.parse::<DateTime<Utc>>().ok();
    let (_, clock) = up.call(Method::GET, "/v1/clock", None).await?;
    let fire = instant(&created["next_fire"]).context("a fire")?;
    let left = fire - instant(&clock["now"]).context("a time")?;
    // No other timer is due at the next millisecond, so the process dies at this fire.
    let before = left.num_milliseconds() - 1;
    up.clock_advance(&format!("{before}ms")).await?;
    up.options_mut().env = vec![("HOLDPOINT_CRASH".to_owned(), case.to_owned())];
    up.restart().await?;
    let moved = up.clock_advance("1ms").await;
    ensure!(moved.is_err(), "the process has not died: {moved:?}");
    up.options_mut().env.clear();
    up.restart().await?;
    let has_started = async || {
        let (_, view) = up.get("/schedules/daily").await.ok()?;
        let is_at = |fire: &Value| *fire == created["next_fire"];
        (is_at(&view["last_fire"]) && view["last_outcome"] == "started").then_some(view)
    };
    let view = until(PATIENCE, "the schedule has fired", has_started).await?;
    let started = runs(&up).await;
    ensure!(started.len() == 1, "{} runs of one fire", started.len());
    ensure!(view["last_run"] == started[0]["id"], "{view}");
    let id = started[0]["id"].as_str().context("an id")?;
    let (_, page) = up.get(&format!("/runs/{id}/events")).await?;
    let items = page["items"].as_array().context("items")?;
    let starts = items.iter().filter(|item| item["type"] == "run.started");
    ensure!(starts.count() == 1, "{items:?}");
    at_rest(&tables_of(&up), &up.nats_url).await
}
