//! Limits of an agent: budgets that ask a person, places for runs, and starts that happen once.

use std::time::Duration;

use futures_util::future::join_all;
use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::shop::Shop;
use crate::world::{PATIENCE, World, at_rest, dead_letters, log, tables_of};

async fn apply(world: &World, name: &str, limits: Value, steps: Value) {
    let agent = json!({ "agent": name, "limits": limits, "steps": steps });
    let (status, body) = world.up.post("/agents", &agent).await.unwrap();
    assert!(status == 201 || status == 200, "{body}");
}

async fn start(world: &World, agent: &str, body: &Value) -> (u16, Value) {
    let path = format!("/agents/{agent}/runs");
    world.up.post(&path, body).await.unwrap()
}

async fn respond(world: &World, request: &Value, answer: &str) {
    let path = format!("/requests/{}/respond", request.as_str().unwrap());
    until(PATIENCE, "the answer is taken", async || {
        let body = json!({ "answer": answer });
        let (status, _) = world.up.post(&path, &body).await.unwrap();
        (status == 200).then_some(())
    })
    .await
    .unwrap();
}

/// What is used survives a kill. `continue` grants the budget again, and `stop` fails the run.
#[tokio::test]
async fn a_used_up_budget_asks_a_person() {
    let mut world = World::with_real_time().await;
    let limits = json!({ "budget": { "steps": 2, "cost": 100, "to": "@user.owner" } });
    let steps: Vec<_> = (0..5).map(|number| log(&format!("n{number}"))).collect();
    apply(&world, "spends", limits, json!(steps)).await;
    let id = world.start_run("spends", json!({})).await;
    let run = world.until_status(&id, "awaiting_input").await;
    assert_eq!(run["spent"]["steps"], 2, "{run}");
    let question = &run["questions"][0];
    let text = question["question"].as_str().unwrap();
    assert!(text.contains("2 of 2 calls"), "{text}");
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    assert_eq!(world.run(&id).await["spent"]["steps"], 2);
    respond(&world, &question["id"], "continue").await;
    let first = question["id"].clone();
    let run = until(PATIENCE, "it asks again", async || {
        let run = world.run(&id).await;
        let asks = run["questions"][0]["id"].is_string() && run["questions"][0]["id"] != first;
        asks.then_some(run)
    })
    .await
    .unwrap();
    let done = |run: &Value| {
        let steps = run["steps"].as_array().unwrap();
        let done = steps.iter().filter(|step| step["status"] == "completed");
        done.count()
    };
    assert_eq!(done(&run), 4, "{run}");
    respond(&world, &run["questions"][0]["id"], "stop").await;
    let run = world.until_status(&id, "failed").await;
    assert_eq!(run["failure"]["code"], "budget_exhausted", "{run}");
    assert_eq!(run["failure"]["class"], "policy");
    assert_eq!(done(&run), 4);
    at_rest(&tables_of(&world.up), &world.up.nats_url)
        .await
        .unwrap();
}

/// A tool says what a call has cost.
#[tokio::test]
async fn the_cost_of_http_tools_counts() {
    let shop = Shop::open().await;
    let world = World::with_real_time().await;
    let tool = json!({
        "name": "priced", "risk": "low", "idempotent": true,
        "http": { "method": "POST", "url": shop.url("/priced") },
    });
    let (status, body) = world.up.post("/tools", &tool).await.unwrap();
    assert_eq!(status, 201, "{body}");
    let steps: Vec<_> = (0..3).map(|_| json!({ "tool": "priced" })).collect();
    apply(
        &world,
        "buys",
        json!({ "budget": { "cost": 0.4 } }),
        json!(steps),
    )
    .await;
    let id = world.start_run("buys", json!({})).await;
    let run = world.until_status(&id, "awaiting_input").await;
    assert_eq!(run["spent"]["cost"], 0.5, "{run}");
    assert_eq!(shop.calls().len(), 2);
}

/// At most so many runs of a key are in progress, in the order of their starts, also after a kill.
#[tokio::test]
async fn runs_above_the_limit_wait_for_a_place() {
    let shop = Shop::slow(Duration::from_secs(1)).await;
    let mut world = World::with_real_time().await;
    let limits = json!({ "concurrency": { "runs": 2, "key": "$input.customer" } });
    let args = json!({
        "method": "POST", "url": shop.url("/orders"), "body": "$input", "idempotent": true,
    });
    let steps = json!([{ "tool": "http_request", "args": args }]);
    apply(&world, "serial", limits, steps).await;
    let mut runs = Vec::new();
    for number in 0..24 {
        let body = json!({ "input": { "customer": number % 2, "number": number } });
        runs.push(world.start_run("serial", body).await);
    }
    let (_, page) = world.up.get("/runs?status=queued").await.unwrap();
    let queued = page["items"].as_array().unwrap();
    assert!(queued.len() >= 6, "{}", queued.len());
    let message = queued[0]["message"].as_str().unwrap();
    assert!(message.contains("at most 2"), "{message}");
    // A cancelled run gives its place in the queue up, and a paused one lets others pass.
    let (cancelled, paused) = (&runs[22], &runs[20]);
    world.act(cancelled, "cancel", json!({})).await;
    world.act(paused, "pause", json!({})).await;
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    for (number, id) in runs
        .iter()
        .enumerate()
        .filter(|(number, _)| ![20, 22].contains(number))
    {
        let run = world.until_status(id, "completed").await;
        assert!(run["ended_at"].is_string(), "{number}");
    }
    world.act(paused, "resume", json!({})).await;
    world.until_status(paused, "completed").await;
    assert_eq!(world.run(cancelled).await["status"], "cancelled");
    let most = most_at_once(&world, &runs).await;
    assert!(most <= 4, "2 for each of 2 keys, and not {most}");
    assert_eq!(dead_letters(&world.up.data_dir()).await.unwrap(), 0);
    at_rest(&tables_of(&world.up), &world.up.nats_url)
        .await
        .unwrap();
}

/// From the history: how many runs were between their first call and their end at the same time.
async fn most_at_once(world: &World, runs: &[String]) -> i32 {
    let mut changes = Vec::new();
    for id in runs {
        let items = world.items(id).await;
        let at = |kind: &str| {
            let item = items.iter().find(|item| item["type"] == kind);
            item.map(|item| item["at"].as_str().unwrap().to_owned())
        };
        if let (Some(from), Some(to)) = (at("step.called"), at("run.completed")) {
            changes.push((to, -1));
            changes.push((from, 1));
        }
    }
    changes.sort();
    let mut now = 0;
    changes
        .into_iter()
        .map(|(_, change)| {
            now += change;
            now
        })
        .max()
        .unwrap_or_default()
}

/// A deleted agent fails its queued runs, and a new version brings its own limit.
#[tokio::test]
async fn queued_runs_follow_their_agent() {
    let world = World::with_test_clock().await;
    let wait = json!([{ "wait": "1 day" }, log("after")]);
    let one = json!({ "concurrency": { "runs": 1 } });
    apply(&world, "waits", one, wait.clone()).await;
    let first = world.start_run("waits", json!({})).await;
    let second = world.start_run("waits", json!({})).await;
    world.settle().await;
    assert_eq!(world.run(&first).await["status"], "waiting");
    assert_eq!(world.run(&second).await["status"], "queued");

    let two = json!({ "concurrency": { "runs": 2 } });
    apply(&world, "waits", two, wait).await;
    let third = world.start_run("waits", json!({})).await;
    world.settle().await;
    assert_eq!(
        world.run(&second).await["status"],
        "queued",
        "it has the limit of its version"
    );
    assert_eq!(
        world.run(&third).await["status"],
        "queued",
        "the second run is first"
    );

    world.act(&first, "cancel", json!({})).await;
    world.settle().await;
    assert_eq!(world.run(&second).await["status"], "waiting");
    assert_eq!(world.run(&third).await["status"], "waiting");
    let fourth = world.start_run("waits", json!({})).await;
    world.settle().await;
    assert_eq!(world.run(&fourth).await["status"], "queued");
    let (status, body) = world.up.delete("/agents/waits").await.unwrap();
    assert_eq!(status, 200, "{body}");
    world.settle().await;
    let run = world.run(&fourth).await;
    assert_eq!(run["failure"]["code"], "agent_deleted", "{run}");
}

/// Thirty starts for one contact at the same time, alone and in a batch, make one run.
#[tokio::test]
async fn an_agent_starts_once_for_a_contact() {
    let world = World::with_real_time().await;
    apply(
        &world,
        "greets",
        json!({ "once": "contact" }),
        json!([log("hello")]),
    )
    .await;
    let ada = json!({ "contact": { "id": "ada", "email": "ada@x.example" } });
    let (status, first) = start(&world, "greets", &ada).await;
    assert_eq!((status, &first["changed"]), (201, &Value::Null), "{first}");
    let known = json!({ "contact": "ada" });
    let again = join_all((0..30).map(|_| start(&world, "greets", &known))).await;
    for (status, run) in again {
        assert_eq!((status, &run["id"]), (200, &first["id"]), "{run}");
        assert_eq!(run["changed"], false);
    }
    world
        .until_status(first["id"].as_str().unwrap(), "completed")
        .await;
    let (status, run) = start(&world, "greets", &known).await;
    assert_eq!(
        (status, &run["status"]),
        (200, &json!("completed")),
        "{run}"
    );
    let (status, problem) = start(&world, "greets", &json!({})).await;
    assert_eq!(
        (status, &problem["code"]),
        (422, &json!("contact_required"))
    );

    let orders = json!({ "once": { "key": "$input.order" } });
    apply(&world, "orders", orders, json!([log("order")])).await;
    let large = "x".repeat(64 * 1024);
    let inputs = [
        json!(1),
        json!("1"),
        json!(large),
        json!({ "b": 2, "a": 1 }),
        json!({ "a": 1, "b": 2 }),
    ];
    let mut ids = Vec::new();
    for order in inputs.iter().chain(&inputs) {
        let (status, run) = start(&world, "orders", &json!({ "input": { "order": order } })).await;
        assert!(status == 201 || status == 200, "{run}");
        ids.push(run["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids[..5], ids[5..]);
    assert_eq!(ids[3], ids[4], "the order of fields makes no difference");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    let (status, problem) = start(&world, "orders", &json!({ "input": {} })).await;
    assert_eq!(
        (status, &problem["code"]),
        (422, &json!("invalid_input")),
        "{problem}"
    );
}

/// Starts above the rate are accepted and start later, at their time.
#[tokio::test]
async fn starts_above_the_rate_wait_for_their_turn() {
    let mut world = World::with_test_clock().await;
    let rate = json!({ "rate": { "starts": 2, "per": "1h" } });
    apply(&world, "hourly", rate, json!([log("hello")])).await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(world.start_run("hourly", json!({})).await);
    }
    let completed = async |world: &World| {
        let (_, page) = world.up.get("/runs?status=completed").await.unwrap();
        page["items"].as_array().unwrap().len()
    };
    world.settle().await;
    assert_eq!(completed(&world).await, 2);
    let run = world.run(&runs[4]).await;
    assert_eq!(run["status"], "queued", "{run}");
    assert!(run["resume_at"].is_string(), "{run}");
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    world.advance("59m").await;
    assert_eq!(completed(&world).await, 2);
    world.advance("2m").await;
    assert_eq!(completed(&world).await, 4);
    world.advance("1h").await;
    world.until_status(&runs[4], "completed").await;
}

/// A pause of the agent keeps the queue and its order. A thousand queued runs delay no start.
#[tokio::test]
async fn a_long_queue_survives_a_pause_and_delays_no_start() {
    let world = World::with_test_clock().await;
    let wait = json!([{ "wait": "1 day" }, log("after")]);
    apply(
        &world,
        "waits",
        json!({ "concurrency": { "runs": 1 } }),
        wait,
    )
    .await;
    let first = world.start_run("waits", json!({})).await;
    let second = world.start_run("waits", json!({})).await;
    let lines = "{}\n".repeat(1_000);
    let batch = reqwest::Client::new()
        .post(format!(
            "{}/v1/workspaces/{}/agents/waits/runs:batch",
            world.up.url, world.up.workspace
        ))
        .bearer_auth(&world.up.token)
        .body(lines)
        .send()
        .await
        .unwrap();
    let batch: Value = batch.json().await.unwrap();
    let items = batch["items"].as_array().unwrap();
    assert!(items.iter().all(|item| item["status"] == 201), "{batch}");
    let third = items[0]["run"]["id"].as_str().unwrap();

    let pause = json!({});
    assert_eq!(
        world
            .up
            .post("/agents/waits/pause", &pause)
            .await
            .unwrap()
            .0,
        200
    );
    world.act(&first, "cancel", json!({})).await;
    world.settle().await;
    assert_eq!(world.run(&second).await["status"], "queued");
    assert_eq!(
        world
            .up
            .post("/agents/waits/resume", &pause)
            .await
            .unwrap()
            .0,
        200
    );
    world.settle().await;
    assert_eq!(world.run(&second).await["status"], "waiting");
    let begun = std::time::Instant::now();
    world.act(&second, "cancel", json!({})).await;
    world.until_status(third, "waiting").await;
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    let (_, page) = world.up.get("/runs?status=waiting").await.unwrap();
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
}
