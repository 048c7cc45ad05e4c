//! `POST /runs:bulk`: one action on all runs that match a filter, its progress and the result of each run.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use holdpoint_testkit::{Person, holdpoint_binary, until};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fleet::{Api, Ground};
use crate::world::{PATIENCE, World, at_rest, log, tables_of};

async fn bulk(world: &World, body: Value) -> (u16, Value) {
    world.up.post("/runs:bulk", &body).await.unwrap()
}

/// Begins an operation and waits for its end. Returns it.
async fn operate(world: &World, body: Value) -> Value {
    let (status, begun) = bulk(world, body).await;
    assert_eq!(status, 202, "{begun}");
    ended(world, begun["id"].as_str().unwrap()).await
}

async fn ended(world: &World, id: &str) -> Value {
    let path = format!("/operations/{id}");
    until(PATIENCE, "the operation has ended", async || {
        let (status, operation) = world.up.get(&path).await.unwrap();
        assert_eq!(status, 200, "{operation}");
        (operation["state"] != "running").then_some(operation)
    })
    .await
    .unwrap()
}

async fn results(world: &World, operation: &Value, query: &str) -> Vec<Value> {
    let id = operation["id"].as_str().unwrap();
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/operations/{id}/results?limit=7{query}{cursor}");
        let (status, page) = world.up.get(&path).await.unwrap();
        assert_eq!(status, 200, "{page}");
        all.extend(page["items"].as_array().unwrap().clone());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

fn counts(changed: u64, unchanged: u64, refused: u64) -> Value {
    json!({ "changed": changed, "unchanged": unchanged, "refused": refused })
}

/// Runs that wait, and one that has completed.
async fn runs(world: &World, count: usize) -> Vec<String> {
    world
        .agent("waits", json!([{ "wait_for": "go" }, log("after")]))
        .await;
    let mut runs = Vec::new();
    for number in 0..count {
        let labels = json!({ "labels": { "half": (number % 2).to_string() } });
        runs.push(world.start_run("waits", labels).await);
    }
    for run in &runs {
        world.until_status(run, "waiting").await;
    }
    runs
}

#[tokio::test]
async fn each_action_has_a_result_for_each_run() {
    let world = World::with_test_clock().await;
    let all = runs(&world, 20).await;
    let of_agent = json!({ "agent": "waits" });
    let dry = json!({ "action": "cancel", "filter": of_agent, "dry_run": true });
    let (status, counted) = bulk(&world, dry).await;
    assert_eq!(
        (status, &counted),
        (200, &json!({ "dry_run": true, "matched": 20 }))
    );
    let none = operate(
        &world,
        json!({ "action": "pause", "filter": { "agent": "other" } }),
    )
    .await;
    assert_eq!(
        (&none["matched"], &none["counts"]),
        (&json!(0), &counts(0, 0, 0))
    );

    let pause = json!({ "action": "pause", "filter": of_agent });
    let paused = operate(&world, pause.clone()).await;
    assert_eq!(
        (&paused["state"], &paused["counts"]),
        (&json!("completed"), &counts(20, 0, 0))
    );
    assert_eq!(paused["created_by"], "owner");
    let listed = results(&world, &paused, "").await;
    let listed: BTreeSet<_> = listed
        .iter()
        .map(|it| it["run"].as_str().unwrap())
        .collect();
    assert_eq!(listed, all.iter().map(String::as_str).collect());
    assert_eq!(world.run(&all[3]).await["paused_by"][0]["by"], "owner");
    let again = operate(&world, pause).await;
    assert_eq!(again["counts"], counts(0, 20, 0));
    let resume = json!({ "action": "resume", "filter": { "status": "waiting" } });
    assert_eq!(operate(&world, resume).await["counts"], counts(20, 0, 0));

    let half = json!({ "label": "half=1", "hold": "signal" });
    let suspend = json!({ "action": "suspend", "filter": half, "reason": "odd" });
    assert_eq!(operate(&world, suspend).await["counts"], counts(10, 0, 0));
    let resume = json!({ "action": "resume", "filter": { "status": "paused_for_intervention" } });
    assert_eq!(operate(&world, resume).await["counts"], counts(10, 0, 0));

    let signal = json!({ "action": "signal", "filter": half, "name": "go", "data": { "n": 1 } });
    assert_eq!(operate(&world, signal).await["counts"], counts(10, 0, 0));
    for run in all.iter().skip(1).step_by(2) {
        world.until_status(run, "completed").await;
    }
    let unknown = json!({ "action": "signal", "filter": of_agent, "name": "gone" });
    assert_eq!(operate(&world, unknown).await["counts"], counts(0, 0, 10));
    let final_runs = json!({ "action": "cancel", "filter": { "status": "completed" } });
    let refused = operate(&world, final_runs).await;
    assert_eq!(refused["counts"], counts(0, 0, 10));
    let listed = results(&world, &refused, "&result=refused").await;
    assert!(
        listed.len() == 10 && listed.iter().all(|it| it["code"] == "run_final"),
        "{listed:?}"
    );
    let over = json!({ "action": "cancel", "filter": of_agent, "reason": "over" });
    assert_eq!(operate(&world, over).await["counts"], counts(10, 0, 0));
    let retry = json!({ "action": "retry", "filter": of_agent });
    assert_eq!(
        operate(&world, retry).await["matched"],
        0,
        "failed runs only"
    );
    at_rest(&tables_of(&world.up), &world.up.nats_url)
        .await
        .unwrap();
}

#[tokio::test]
async fn bad_requests_and_other_callers_change_nothing() {
    let world = World::with_test_clock().await;
    let all = runs(&world, 1).await;
    let cancel = |more: Value| {
        let mut body = json!({ "action": "cancel", "filter": {} });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    for (body, code) in [
        (json!({ "action": "cancel" }), "invalid_body"),
        (json!({ "action": "delete", "filter": {} }), "invalid_body"),
        (cancel(json!({ "mode": "now" })), "invalid_body"),
        (
            cancel(json!({ "filter": { "state": "waiting" } })),
            "invalid_body",
        ),
        (
            cancel(json!({ "filter": { "label": "x" } })),
            "invalid_body",
        ),
        (
            cancel(json!({ "reason": "x".repeat(2_001) })),
            "invalid_body",
        ),
        (
            cancel(json!({ "reason": "x".repeat(1_000_000) })),
            "invalid_body",
        ),
        (json!({ "action": "signal", "filter": {} }), "invalid_body"),
    ] {
        let (status, problem) = bulk(&world, body).await;
        assert_eq!(
            (status, problem["code"].as_str()),
            (422, Some(code)),
            "{problem}"
        );
    }
    let member = Person::join(&world.up, "ada", &["member"]).await.unwrap();
    let (status, _) = member
        .post(&world.up, "/runs:bulk", &cancel(json!({})))
        .await
        .unwrap();
    assert_eq!(status, 403);
    let (_, page) = world.up.get("/operations").await.unwrap();
    assert_eq!(page["items"], json!([]), "nothing was begun");
    assert_eq!(world.run(&all[0]).await["status"], "waiting");

    let pause = json!({ "action": "pause", "filter": {} });
    let paused = operate(&world, pause).await;
    let path = format!("/operations/{}", paused["id"].as_str().unwrap());
    let (status, seen) = member.get(&world.up, &path).await.unwrap();
    assert_eq!((status, &seen["counts"]), (200, &counts(1, 0, 0)));
    let (status, late) = world.up.delete(&path).await.unwrap();
    assert_eq!(
        (status, &late["state"]),
        (200, &json!("completed")),
        "it had ended"
    );
    let absent = "/operations/op_00000000000000000000000000000000";
    assert_eq!(world.up.get(absent).await.unwrap().0, 404);
    assert_eq!(world.up.get("/operations/x").await.unwrap().0, 404);
}

/// Kill -9 in the middle: the operation continues, and each run has one effect.
#[tokio::test]
async fn an_operation_survives_a_kill() {
    let mut world = World::with_real_time().await;
    let steps = json!([{ "wait_for": "go" }, { "wait_for": "go" }, log("after")]);
    world.agent("waits", steps).await;
    let lines = "{}\n".repeat(1_000);
    for _ in 0..2 {
        let url = format!(
            "{}/v1/workspaces/default/agents/waits/runs:batch",
            world.up.url
        );
        let started = reqwest::Client::new()
            .post(url)
            .bearer_auth(&world.up.token);
        let started = started.body(lines.clone()).send().await.unwrap();
        assert_eq!(started.status().as_u16(), 200);
    }
    let signal = json!({ "action": "signal", "filter": { "agent": "waits" }, "name": "go" });
    let (status, begun) = bulk(&world, signal).await;
    assert_eq!((status, &begun["matched"]), (202, &json!(2_000)), "{begun}");
    let id = begun["id"].as_str().unwrap();
    let path = format!("/operations/{id}");
    let at_kill = until(PATIENCE, "some runs have a result", async || {
        let (_, seen) = world.up.get(&path).await.unwrap();
        let changed = seen["counts"]["changed"].as_u64().unwrap();
        (changed > 0).then_some(changed)
    })
    .await
    .unwrap();
    world.up.kill9().await.unwrap();
    assert!(at_kill < 2_000, "the kill came after the end");
    world.up.restart().await.unwrap();
    let operation = ended(&world, id).await;
    assert_eq!(operation["counts"], counts(2_000, 0, 0), "{operation}");
    let listed = results(&world, &operation, "").await;
    assert_eq!(listed.len(), 2_000);
    for result in listed.iter().step_by(19) {
        let history = world.history(result["run"].as_str().unwrap()).await;
        let signals = history.iter().filter(|kind| *kind == "signal.received");
        assert_eq!(signals.count(), 1, "{history:?}");
    }
}

/// Two replicas sweep the same operation, and one is stopped for a while: each run has one effect.
#[tokio::test]
async fn two_replicas_act_on_each_run_once() {
    let Some(ground) = Ground::new().await else {
        return;
    };
    let executors = [
        ground.serve("executor", &[]).await,
        ground.serve("executor", &[]).await,
    ];
    let _scheduler = ground.serve("scheduler", &[]).await;
    let _handoff = ground.serve("handoff", &[]).await;
    let args = ["--http", "127.0.0.1:0", "--owner-token"];
    let gateway = ground.serve("gateway", &args).await;
    let api = Api::of(&gateway);
    let wait = json!({ "wait_for": "go" });
    let agent = json!({ "agent": "waits", "steps": [wait, wait, wait] });
    assert_eq!(api.post("/agents", &agent).await.0, 201);
    let none = json!({});
    let starts = (0..600).map(|_| api.post("/agents/waits/runs", &none));
    for (status, run) in join_all(starts).await {
        assert_eq!(status, 201, "{run}");
    }
    let signal = json!({ "action": "signal", "filter": { "agent": "waits" }, "name": "go" });
    let (status, begun) = api.post("/runs:bulk", &signal).await;
    assert_eq!(status, 202, "{begun}");
    executors[0].signal(Signal::STOP);
    let path = format!("/operations/{}", begun["id"].as_str().unwrap());
    let operation = until(PATIENCE, "the operation has ended", async || {
        let (status, seen) = api.call(Method::GET, &path, &none).await;
        if status != 200 {
            executors[0].signal(Signal::CONT);
        }
        (status == 200 && seen["state"] == "completed").then_some(seen)
    })
    .await
    .unwrap();
    executors[0].signal(Signal::CONT);
    assert_eq!(operation["counts"], counts(600, 0, 0));
    let runs = api.get("/runs?limit=500").await;
    for run in runs["items"].as_array().unwrap().iter().step_by(50) {
        let path = format!("/runs/{}/events", run["id"].as_str().unwrap());
        let items = api.get(&path).await["items"].clone();
        let items = items.as_array().unwrap().clone();
        let signals = items.iter().filter(|it| it["type"] == "signal.received");
        assert_eq!(signals.count(), 1, "{items:?}");
    }
}

#[tokio::test]
async fn the_command_line_acts_on_the_runs_of_a_filter() {
    let world = World::with_test_clock().await;
    let all = runs(&world, 4).await;
    let holdpoint = async |args: &[&str]| {
        let output = tokio::process::Command::new(holdpoint_binary().unwrap())
            .args(args)
            .arg("--data")
            .arg(world.up.data_dir())
            .env_remove("HOLDPOINT_URL")
            .env_remove("HOLDPOINT_TOKEN")
            .output();
        let output = output.await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        (output.status.code(), text)
    };
    let (code, said) = holdpoint(&["run", "cancel", "--label", "half=1", "--dry-run"]).await;
    assert_eq!(
        (code, said.trim()),
        (Some(0), "2 runs match; nothing was changed")
    );
    let (code, said) = holdpoint(&["run", "cancel", "--label", "half=1"]).await;
    assert_eq!(
        (code, said.matches("  cancelled  ").count()),
        (Some(0), 2),
        "{said}"
    );
    let (code, said) = holdpoint(&["run", "pause", "--status", "cancelled"]).await;
    assert_eq!(
        (code, said.matches("refused  run_final").count()),
        (Some(6), 2),
        "{said}"
    );
    let (_, said) = holdpoint(&["operation", "list"]).await;
    assert!(
        said.contains("cancel") && said.contains("completed"),
        "{said}"
    );
    let (_, page) = world.up.get("/operations?limit=1").await.unwrap();
    let id = page["items"][0]["id"].as_str().unwrap();
    let (_, said) = holdpoint(&["operation", "show", id]).await;
    assert!(said.contains("0 changed, 0 unchanged, 2 refused"), "{said}");
    let (_, said) = holdpoint(&["operation", "results", id, "--result", "refused"]).await;
    assert!(said.contains(&all[1]) && !said.contains(&all[0]), "{said}");
    assert_eq!(world.run(&all[0]).await["status"], "waiting");
}
