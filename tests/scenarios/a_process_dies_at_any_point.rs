//! The table of crash points: service × point of the kernel × message. In each case a real process with all services
//! aborts there and is restarted. Single services die in `a_service_dies_at_any_point.rs`.
//!
//! Each case counts effects at the tool (by the key of the run), applied results (history), decisions of the hold
//! and its notifications. No message is left unsent, unacknowledged or in the dead letters.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use futures_util::{StreamExt as _, stream};
use holdpoint_testkit::{Up, UpOptions, until};
use serde_json::{Value, json};

use crate::shop::Shop;
use crate::world::{PATIENCE, at_rest, log, tables_of};

/// Crash points of the kernel.
const POINTS: [&str; 6] = [
    "fetched",
    "decided",
    "committed",
    "published",
    "replied",
    "acked",
];

/// The messages of the workload: service, verb, and whether the message comes through the stream. A core request is
/// never acked.
pub(crate) const MESSAGES: [(&str, &str, bool); 5] = [
    ("executor", "start_run", false),
    ("executor", "start_steps", false),
    ("executor", "step_results", false),
    ("executor", "timers_fired", true),
    ("scheduler", "set_timers", true),
];

/// Processes at the same time.
const AT_ONCE: usize = 3;

/// The progress of the workload, which survives the death of the process.
#[derive(Default)]
struct Progress {
    run: Option<String>,
    hold: Option<String>,
    is_approved: bool,
}

/// M-2, "Races": a process that dies at any point loses nothing and applies nothing twice.
#[tokio::test]
async fn nothing_is_lost_and_nothing_is_done_twice() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let cases = MESSAGES.iter().flat_map(|(service, verb, is_stored)| {
        let points = POINTS
            .iter()
            .filter(move |point| *is_stored || **point != "acked");
        points.map(move |point| format!("{service}:{point}:1:{verb}"))
    });
    let failed: Vec<String> = stream::iter(cases)
        .map(|case| async move {
            let result = Box::pin(survive(&case)).await;
            result.err().map(|error| format!("{case}: {error:#}"))
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(|failed| async move { failed })
        .collect()
        .await;
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

async fn survive(case: &str) -> anyhow::Result<()> {
    let shop = Shop::open().await;
    let mut up = Up::start(UpOptions::default()).await?;
    let mut progress = Progress::default();
    let mut deaths = 0;
    up.options_mut().env = vec![("HOLDPOINT_CRASH".to_owned(), case.to_owned())];
    if up.restart().await.is_err() {
        // The first message of this kind is handled at the start.
        restart(&mut up, &mut deaths).await?;
    }
    loop {
        let result = run_workload(&up, &shop, &mut progress).await;
        let Err(error) = result else {
            if deaths > 0 {
                break;
            }
            // The last message of the workload may be the one that kills.
            up.ended(PATIENCE)
                .await
                .context("the crash point was not reached")?;
            restart(&mut up, &mut deaths).await?;
            continue;
        };
        up.ended(Duration::from_secs(10))
            .await
            .with_context(|| format!("an error without a death: {error:#}"))?;
        ensure!(deaths == 0, "it died again: {error:#}{}", up.stderr_tail());
        restart(&mut up, &mut deaths).await?;
    }
    check(&up, &shop, &progress).await
}

async fn restart(up: &mut Up, deaths: &mut u32) -> anyhow::Result<()> {
    *deaths += 1;
    up.options_mut().env.clear();
    up.restart().await
}

/// Continues the workload. Every call can be sent twice. An error means that the process is gone.
async fn run_workload(up: &Up, shop: &Shop, progress: &mut Progress) -> anyhow::Result<()> {
    let call = json!({ "method": "POST", "url": shop.url("/orders") });
    let steps = json!([{ "tool": "http_request", "args": call }, { "wait": "1s" }, log("after")]);
    let agent = json!({ "agent": "workload", "steps": steps });
    done(up.post("/agents", &agent).await?)?;
    if progress.run.is_none() {
        let body = json!({});
        let run = up.post_under("workload-run", "/agents/workload/runs", &body);
        progress.run = Some(id_of(&done(run.await?)?)?);
    }
    if progress.hold.is_none() {
        let body = json!({ "kind": "approval", "question": "Ship?", "timeout": "1h" });
        let hold = up.post_under("workload-hold", "/holds", &body);
        progress.hold = Some(id_of(&done(hold.await?)?)?);
    }
    if let Some(hold) = progress.hold.as_ref().filter(|_| !progress.is_approved) {
        let path = format!("/requests/{hold}/approve");
        done(up.post(&path, &json!({ "comment": "yes" })).await?)?;
        progress.is_approved = true;
    }
    let run = progress.run.clone().context("a run")?;
    let ended = until(PATIENCE, "the run to end", async || {
        let answer = up.get(&format!("/runs/{run}")).await;
        match answer.and_then(done) {
            Ok(run) if run["status"] == "completed" => Some(Ok(())),
            Ok(run) if run["status"] == "awaiting_input" => Some(Ok(())),
            Ok(run) if run["status"] == "failed" => Some(Err(anyhow::anyhow!("{run}"))),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        }
    });
    ended.await??;
    answer_the_uncertain(up, shop, &run).await
}

/// Answers the request about an uncertain step by what the shop has seen.
async fn answer_the_uncertain(up: &Up, shop: &Shop, run: &str) -> anyhow::Result<()> {
    let now = done(up.get(&format!("/runs/{run}")).await?)?;
    if now["status"] != "awaiting_input" {
        return Ok(());
    }
    let request = now["waiting_on"][0]["id"].as_str().context("a request")?;
    let answer = if shop.calls().is_empty() {
        "run_again"
    } else {
        "it_happened"
    };
    let path = format!("/requests/{request}/respond");
    until(PATIENCE, "the request is there and answered", async || {
        let body = json!({ "answer": answer });
        let answer = up.post(&path, &body).await.ok()?;
        (answer.0 == 200).then_some(())
    })
    .await?;
    until(PATIENCE, "the run to end", async || {
        let run = done(up.get(&format!("/runs/{run}")).await.ok()?).ok()?;
        (run["status"] == "completed").then_some(())
    })
    .await
}

async fn check(up: &Up, shop: &Shop, progress: &Progress) -> anyhow::Result<()> {
    let run = progress.run.as_deref().context("a run")?;
    let now = done(up.get(&format!("/runs/{run}")).await?)?;
    ensure!(now["status"] == "completed", "{now}");
    let effects = shop.calls().len();
    ensure!(effects == 1, "{effects} effects at the tool: {now}");
    let page = done(up.get(&format!("/runs/{run}/events?limit=500")).await?)?;
    let items = page["items"].as_array().context("history")?;
    let numbers: Vec<_> = items
        .iter()
        .filter_map(|item| item["seq"].as_u64())
        .collect();
    ensure!(
        numbers == (1..=numbers.len() as u64).collect::<Vec<_>>(),
        "gaps: {numbers:?}"
    );
    let count = |kind: &str, step: &str| {
        let same = items
            .iter()
            .filter(|item| item["type"] == kind && item["step"] == step);
        same.count()
    };
    ensure!(
        count("step.succeeded", "step-03") == 1,
        "results: {items:?}"
    );
    ensure!(
        count("step.succeeded", "step-01") <= 1,
        "results: {items:?}"
    );
    let completed = items.iter().filter(|item| item["type"] == "run.completed");
    ensure!(completed.count() == 1, "ends: {items:?}");
    let hold = progress.hold.as_deref().context("a hold")?;
    let hold = done(up.get(&format!("/requests/{hold}")).await?)?;
    ensure!(hold["outcome"] == "approved", "{hold}");
    let runs = done(up.get("/runs").await?)?;
    ensure!(runs["items"].as_array().map(Vec::len) == Some(1), "{runs}");
    let notifications = until(PATIENCE, "the owner is notified", async || {
        let notifications = done(up.get("/notifications").await.ok()?).ok()?;
        let notifications = notifications["items"].as_array()?.clone();
        let is_of_it = |one: &&Value| one["type"] == "approval_requested";
        let times = notifications.iter().filter(is_of_it).count();
        (times > 0).then_some((times, notifications))
    });
    let (times, notifications) = notifications.await?;
    ensure!(times == 1, "notifications: {notifications:?}");
    at_rest(&tables_of(up), &up.nats_url).await
}

/// The body of a success. The workload repeats 5xx and 202, as a client does.
fn done((status, body): (u16, Value)) -> anyhow::Result<Value> {
    match status {
        200 | 201 => Ok(body),
        _ => bail!("{status} {body}"),
    }
}

fn id_of(body: &Value) -> anyhow::Result<String> {
    let id = body["id"].as_str().with_context(|| body.to_string())?;
    Ok(id.to_owned())
}
