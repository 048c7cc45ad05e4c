//! A step with `run` starts runs of other agents: their results, and what passes down to them.

use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::shop::Shop;
use crate::world::{PATIENCE, World, log};

/// Calls nothing, and gives its input back.
async fn echo(world: &World) {
    let finish = json!({ "summary": "Echoed.", "output": { "n": "$input.n" } });
    world
        .agent("echo", json!([log("hi"), { "finish": finish }]))
        .await;
}

async fn waits(world: &World) {
    world
        .agent("waits", json!([{ "wait": "5 days" }, log("after")]))
        .await;
}

/// The child runs of the first step, once they have started.
async fn children(world: &World, run: &str, count: usize) -> Vec<String> {
    until(PATIENCE, "the child runs have started", async || {
        let run = world.run(run).await;
        let children = run["steps"][0]["child_runs"].as_array().cloned();
        let started = children.into_iter().flatten();
        let started = started.filter(|child| child["status"].is_string());
        let ids = started.map(|child| child["run"].as_str().unwrap().to_owned());
        let ids: Vec<_> = ids.collect();
        (ids.len() == count).then_some(ids)
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn the_results_of_all_runs_come_in_their_order() {
    start_child_runs(&World::with_real_time().await).await;
}

/// The same on any system, such as one on Postgres.
pub(crate) async fn start_child_runs(world: &World) {
    echo(world).await;
    let run = |n: u32| json!({ "agent": "echo", "input": { "n": n } });
    let all = json!([run(1), run(2), run(3)]);
    let message = json!("{{ $all[0].output.n }}, {{ $all[1].output.n }}, {{ $all[2].output.n }}");
    let steps = json!([
        { "id": "all", "run": { "all": all } },
        { "finish": { "summary": message } },
    ]);
    world.agent("asks-all", steps).await;
    let id = world.start_run("asks-all", json!({})).await;
    let ended = world.until_status(&id, "completed").await;
    assert_eq!(ended["result"]["summary"], "1, 2, 3", "{ended}");
    let results = &ended["steps"][0]["response"]["data"];
    assert_eq!(results[1]["summary"], "Echoed.", "{results}");
    let child = results[2]["run"].as_str().unwrap();
    let child = world.run(child).await;
    assert_eq!(
        child["parent"],
        json!({ "run": id, "step": "all" }),
        "{child}"
    );
    assert_eq!(child["result"]["output"], json!({ "n": 3 }), "{child}");
    assert_eq!(ended["steps"][0]["child_runs"][0]["status"], "completed");
    world.rests().await;
}

#[tokio::test]
async fn the_first_run_that_completes_cancels_the_others() {
    let world = World::with_real_time().await;
    echo(&world).await;
    waits(&world).await;
    let first = json!(["waits", { "agent": "echo", "input": { "n": 7 } }]);
    world
        .agent("asks-first", json!([{ "run": { "first": first } }]))
        .await;
    let id = world.start_run("asks-first", json!({})).await;
    let ended = world.until_status(&id, "completed").await;
    assert_eq!(
        ended["steps"][0]["response"]["data"]["output"]["n"], 7,
        "{ended}"
    );
    let loser = ended["steps"][0]["child_runs"][0]["run"].as_str().unwrap();
    let loser = world.until_status(loser, "cancelled").await;
    assert_eq!(loser["failure"]["code"], "parent_ended", "{loser}");
    world.rests().await;
}

/// A cancel, a pause and a resume reach the runs below, two levels down.
#[tokio::test]
async fn a_cancel_and_a_pause_pass_down() {
    let world = World::with_real_time().await;
    waits(&world).await;
    world.agent("middle", json!([{ "run": "waits" }])).await;
    world
        .agent("top", json!([{ "run": { "all": ["middle", "waits"] } }]))
        .await;
    let top = world.start_run("top", json!({})).await;
    let below = children(&world, &top, 2).await;
    let lowest = children(&world, &below[0], 1).await.remove(0);
    let all = [below[0].clone(), below[1].clone(), lowest];
    // A person pauses one, which stays paused.
    world.act(&all[1], "pause", json!({})).await;
    world.act(&top, "pause", json!({})).await;
    let paused_by = async |id: &str| {
        let run = world.run(id).await;
        let pauses = run["paused_by"].as_array().unwrap().iter();
        let scopes: Vec<_> = pauses.map(|pause| pause["scope"].clone()).collect();
        json!(scopes)
    };
    let until_paused_by = async |id: &str, scopes: Value| {
        until(PATIENCE, "the pause has passed down", async || {
            (paused_by(id).await == scopes).then_some(())
        })
        .await
        .unwrap();
    };
    until_paused_by(&all[0], json!(["parent"])).await;
    until_paused_by(&all[1], json!(["run", "parent"])).await;
    until_paused_by(&all[2], json!(["parent"])).await;
    world.act(&top, "resume", json!({})).await;
    until_paused_by(&all[0], json!([])).await;
    until_paused_by(&all[1], json!(["run"])).await;
    until_paused_by(&all[2], json!([])).await;
    world.act(&top, "cancel", json!({})).await;
    for id in &all {
        world.until_status(id, "cancelled").await;
    }
    world.rests().await;
}

/// Each child run starts and calls its tool once, although the process dies in the middle.
#[tokio::test]
async fn a_kill_starts_each_child_run_once() {
    let shop = Shop::open().await;
    let mut world = World::with_real_time().await;
    let args = json!({
        "method": "POST", "url": shop.url("/orders"), "body": "$input", "idempotent": true,
    });
    let steps = json!([{ "wait": "1s" }, { "tool": "http_request", "args": args }]);
    world.agent("orders", steps).await;
    let run = |n: usize| json!({ "agent": "orders", "input": { "n": n } });
    let all: Vec<_> = (0..10).map(run).collect();
    world
        .agent("buys", json!([{ "run": { "all": all } }, log("after")]))
        .await;
    let mut runs = Vec::new();
    for round in 0..5 {
        runs.push(world.start_run("buys", json!({})).await);
        if round % 2 == 0 {
            world.up.kill9().await.unwrap();
            world.up.restart().await.unwrap();
        }
    }
    for run in &runs {
        let ended = world.until_status(run, "completed").await;
        let children = ended["steps"][0]["child_runs"].as_array().unwrap();
        assert_eq!(children.len(), 10);
        assert!(children.iter().all(|child| child["status"] == "completed"));
    }
    let (_, page) = world.up.get("/runs?agent=orders&limit=500").await.unwrap();
    assert_eq!(page["items"].as_array().unwrap().len(), 50);
    world.rests().await;
}

#[tokio::test]
async fn a_run_that_cannot_start_fails_its_step() {
    let world = World::with_real_time().await;
    echo(&world).await;
    let failed = async |agent: &str| {
        let id = world.start_run(agent, json!({})).await;
        let run = world.until_status(&id, "failed").await;
        run["failure"]["code"].as_str().unwrap().to_owned()
    };
    world.agent("unknown", json!([{ "run": "nothing" }])).await;
    assert_eq!(failed("unknown").await, "not_found");
    // Two agents run each other, so the second one below is refused.
    world.agent("ping", json!([{ "run": "pong" }])).await;
    world.agent("pong", json!([{ "run": "ping" }])).await;
    let id = world.start_run("ping", json!({})).await;
    let run = world.until_status(&id, "failed").await;
    assert_eq!(run["failure"]["code"], "child_failed", "{run}");
    let below = run["steps"][0]["child_runs"][0]["run"].as_str().unwrap();
    let below = world.until_status(below, "failed").await;
    assert_eq!(below["failure"]["code"], "child_cycle", "{below}");
    // Nine levels below the first run are one too many.
    world.agent("level-9", json!([log("deep")])).await;
    for level in (0..9).rev() {
        let next = format!("level-{}", level + 1);
        world
            .agent(&format!("level-{level}"), json!([{ "run": next }]))
            .await;
    }
    assert_eq!(failed("level-0").await, "child_failed");
    let (_, page) = world.up.get("/runs?agent=level-8").await.unwrap();
    assert_eq!(page["items"][0]["failure"]["code"], "child_depth", "{page}");
    let (_, page) = world.up.get("/runs?agent=level-9").await.unwrap();
    assert_eq!(page["items"], json!([]));
    let id = world.start_run("level-1", json!({})).await;
    world.until_status(&id, "completed").await;
    world.rests().await;
}

/// What the child runs use is used up for their parent, too.
#[tokio::test]
async fn a_budget_passes_down() {
    let world = World::with_real_time().await;
    let steps: Vec<_> = (0..3).map(|number| log(&format!("n{number}"))).collect();
    world.agent("spends", json!(steps)).await;
    let agent = json!({
        "agent": "bounded", "limits": { "budget": { "steps": 2, "to": "@user.owner" } },
        "steps": [{ "run": "spends" }, log("after")],
    });
    let (status, body) = world.up.post("/agents", &agent).await.unwrap();
    assert_eq!(status, 201, "{body}");
    let id = world.start_run("bounded", json!({})).await;
    let child = children(&world, &id, 1).await.remove(0);
    let asks = world.until_status(&child, "awaiting_input").await;
    let question = asks["questions"][0]["question"].as_str().unwrap();
    assert!(question.contains("2 of 2 calls"), "{question}");
    let path = format!(
        "/requests/{}/respond",
        asks["questions"][0]["id"].as_str().unwrap()
    );
    until(PATIENCE, "the answer is taken", async || {
        let body = json!({ "answer": "continue" });
        let (status, _) = world.up.post(&path, &body).await.unwrap();
        (status == 200).then_some(())
    })
    .await
    .unwrap();
    world.until_status(&child, "completed").await;
    // Three calls are more than two, so the parent asks before its next call.
    let asks = world.until_status(&id, "awaiting_input").await;
    assert_eq!(asks["spent"]["steps"], 3, "{asks}");
}
