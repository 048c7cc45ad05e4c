//! An operator retries a failed run: `POST /runs/{run}/retry` and `run retry` (S2-R15).

use holdpoint_testkit::{holdpoint_binary, until};
use serde_json::{Value, json};

use crate::shop::Shop;
use crate::world::{PATIENCE, World, log};

/// A run that asked a person, and whose payment was refused.
async fn failed(world: &World, shop: &Shop) -> String {
    let ask = json!({ "id": "go", "ask": { "to": "@user.owner", "question": "Pay?" } });
    // Idempotent, so that a call that a kill interrupts is made again and not asked about.
    let url = shop.url("/repaired-later");
    let args = json!({ "method": "POST", "url": url, "idempotent": true });
    let pay = json!({ "id": "pay", "tool": "http_request", "args": args, "retry": "none" });
    world.agent("pays", json!([ask, pay, log("after")])).await;
    let id = world.start_run("pays", json!({})).await;
    let run = world.until_status(&id, "awaiting_input").await;
    let request = run["waiting_on"][0]["id"].as_str().unwrap();
    let path = format!("/requests/{request}/respond");
    until(PATIENCE, "the answer is taken", async || {
        let (status, _) = world
            .up
            .post(&path, &json!({ "answer": "yes" }))
            .await
            .unwrap();
        (status == 200).then_some(())
    })
    .await
    .unwrap();
    let run = world.until_status(&id, "failed").await;
    assert_eq!(run["steps"][1]["status"], "failed", "{run}");
    id
}

async fn retry(world: &World, id: &str, body: Value) -> (u16, Value) {
    let path = format!("/runs/{id}/retry");
    world.up.post(&path, &body).await.unwrap()
}

/// Kill -9 right after the reply: the call is made again with the same key, and the question is not asked again.
#[tokio::test]
async fn a_retried_run_survives_a_kill_and_keeps_its_answers() {
    retry_over_a_kill(&mut World::with_real_time().await).await;
}

/// The same on any system, such as one on Postgres.
pub(crate) async fn retry_over_a_kill(world: &mut World) {
    let shop = Shop::open().await;
    let id = failed(world, &shop).await;
    assert_eq!(shop.calls().len(), 1);
    let (status, run) = retry(world, &id, json!({ "from_step": "pay" })).await;
    assert_eq!((status, &run["changed"]), (200, &json!(true)), "{run}");
    assert_eq!(run["failure"], Value::Null);
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();

    let run = world.until_status(&id, "completed").await;
    let steps = run["steps"].as_array().unwrap();
    assert!(
        steps.iter().all(|step| step["status"] == "completed"),
        "{run}"
    );
    assert!(run["ended_at"].is_string(), "{run}");
    let keys = shop.calls();
    let keys: Vec<_> = keys
        .iter()
        .map(|call| call.header("idempotency-key"))
        .collect();
    let key = format!("{id}/pay");
    assert!(
        keys.len() >= 2 && keys.iter().all(|one| *one == key),
        "{keys:?}"
    );
    let kinds = world.history(&id).await;
    let count = |kind: &str| kinds.iter().filter(|one| *one == kind).count();
    for (kind, times) in [
        ("run.awaiting_input", 1),
        ("run.failed", 1),
        ("run.retried", 1),
        ("run.completed", 1),
    ] {
        assert_eq!(count(kind), times, "{kind}: {kinds:?}");
    }
    let items = world.items(&id).await;
    let retried = items
        .iter()
        .find(|item| item["type"] == "run.retried")
        .unwrap();
    assert_eq!(retried["message"], "Retried by owner from pay.");
    assert_eq!(retried["data"]["failure"]["class"], "agent", "{retried}");
    world.rests().await;

    let (status, problem) = retry(world, &id, json!({})).await;
    assert_eq!((status, &problem["code"]), (409, &json!("run_not_failed")));
}

/// Bad input gets a clear error, and changes nothing.
#[tokio::test]
async fn a_retry_of_a_wrong_step_is_refused() {
    let shop = Shop::open().await;
    let world = World::with_real_time().await;
    let id = failed(&world, &shop).await;
    for (body, status, code) in [
        (json!({ "from_step": "pya" }), 404, "not_found"),
        (json!({ "from_step": "step-03" }), 409, "step_not_reached"),
        (json!({ "from": "pay" }), 422, "invalid_body"),
        (json!({ "from_step": 3 }), 422, "invalid_body"),
        (
            json!({ "from_step": "x".repeat(100_000) }),
            404,
            "not_found",
        ),
    ] {
        let (got, problem) = retry(&world, &id, body.clone()).await;
        assert_eq!(
            (got, &problem["code"]),
            (status, &json!(code)),
            "{body}: {problem}"
        );
        assert!(problem["detail"].as_str().unwrap().len() < 500, "{problem}");
    }
    assert_eq!(world.run(&id).await["status"], "failed");
    assert_eq!(shop.calls().len(), 1);
}

/// The command line retries all failed runs of an agent, and the history shows both ends.
#[tokio::test]
async fn the_command_line_retries_the_failed_runs_of_an_agent() {
    let shop = Shop::open().await;
    let world = World::with_real_time().await;
    let id = failed(&world, &shop).await;
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
    let (code, watched) = holdpoint(&["run", "watch", &id]).await;
    assert_eq!(code, Some(1), "{watched}");
    let (code, retried) = holdpoint(&["run", "retry", "--agent", "pays"]).await;
    assert_eq!(code, Some(0), "{retried}");
    assert!(retried.contains(&format!("{id}  retried  ")), "{retried}");
    let (code, watched) = holdpoint(&["run", "watch", &id]).await;
    assert_eq!(code, Some(0), "{watched}");
    for kind in ["run.failed", "run.retried", "run.completed"] {
        assert_eq!(watched.matches(kind).count(), 1, "{kind}: {watched}");
    }
    let (_, none) = holdpoint(&["run", "retry", "--agent", "pays"]).await;
    assert_eq!(none, "", "a completed run is not selected");
}
