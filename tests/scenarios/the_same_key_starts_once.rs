//! Idempotency keys.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::world::{World, log};

async fn start_with_key(world: &World, key: &str, body: &Value) -> (u16, Value) {
    let url = format!(
        "{}/v1/workspaces/{}/agents/quick/runs",
        world.up.url, world.up.workspace
    );
    let answer = reqwest::Client::new()
        .post(url)
        .bearer_auth(&world.up.token)
        .header("Idempotency-Key", key)
        .json(body)
        .send()
        .await
        .unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// "Races": one key and body start one run, and another body under that key is refused.
#[tokio::test]
async fn one_key_starts_one_run() {
    let world = World::with_test_clock().await;
    world.agent("quick", json!([log("hello")])).await;
    let body = json!({ "input": { "n": 1 } });
    let answers = join_all((0..20).map(|_| start_with_key(&world, "k-1", &body))).await;
    let first = &answers[0].1["id"];
    for (status, run) in &answers {
        assert_eq!((*status, &run["id"]), (201, first), "{run}");
    }
    let (status, problem) = start_with_key(&world, "k-1", &json!({ "input": { "n": 2 } })).await;
    assert_eq!(
        (status, &problem["code"]),
        (422, &json!("idempotency_key_reused"))
    );
    world.settle().await;
    let (_, page) = world.up.get("/runs").await.unwrap();
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
}
