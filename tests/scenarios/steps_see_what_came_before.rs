//! Placeholders, conditions, step rows and history of steps.

use std::sync::Arc;

use serde_json::json;

use crate::shop;
use crate::world::{World, log};

/// S2-R1, S2-R6, S2-R8, S2-R10, S2-R11, S2-R15, S0-R5
#[tokio::test]
async fn a_result_is_an_argument_of_a_later_step() {
    let shop = shop::Shop::open().await;
    let world = World::with_test_clock().await;
    world
        .agent(
            "refund",
            json!([
                { "tool": "http_request", "args": {
                    "method": "POST", "url": shop.url("/orders"), "body": { "customer": "{{ input.customer }}" } } },
                { "tool": "log", "when": "$step-01.body.total > 10",
                  "args": { "message": "{{ input.customer }} spent {{ $step-01.body.total }}" } },
                { "tool": "http_request", "args": {
                    "method": "POST", "url": shop.url("/refunds"), "body": { "order": "$step-01.body" } } },
            ]),
        )
        .await;
    let id = world
        .start_run("refund", json!({ "input": { "customer": "c-7" } }))
        .await;
    world.settle().await;
    let run = world.run(&id).await;
    assert_eq!(run["status"], "completed", "{run}");
    let steps = run["steps"].as_array().unwrap();
    assert_eq!(steps[1]["request"]["message"], "c-7 spent 12.5");
    assert_eq!(
        steps[2]["request"]["body"]["order"],
        json!({ "id": "o-1", "total": 12.5 })
    );
    assert_eq!(steps[2]["tool"], "http_request");
    assert_eq!(steps[2]["attempts"], 1);
    assert_eq!(steps[2]["response"]["success"], true);
    assert!(steps[2]["response"]["duration_ms"].is_u64());
    assert!(
        steps[2]["claimed_by"].is_string(),
        "not idempotent, so it was granted"
    );

    let calls = shop.calls();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[1].header("holdpoint-run"), id);
    assert_eq!(calls[1].header("holdpoint-step"), "step-03");
    assert_eq!(calls[1].header("holdpoint-attempt"), "1");
    assert_eq!(calls[1].header("idempotency-key"), format!("{id}/step-03"));
    let items = world.items(&id).await;
    for (number, item) in items.iter().enumerate() {
        assert_eq!(item["seq"], number + 1, "numbered without gaps");
    }
    let called = items.iter().filter(|item| item["type"] == "step.called");
    let called: Vec<_> = called.map(|item| item["step"].as_str().unwrap()).collect();
    assert_eq!(called, ["step-01", "step-02", "step-03"]);
}

/// S2-R8
#[tokio::test]
async fn an_unresolvable_placeholder_fails_the_step_with_its_path() {
    let shop = shop::Shop::open().await;
    let world = World::with_test_clock().await;
    world
        .agent(
            "refund",
            json!([
                { "tool": "http_request", "args": { "method": "POST", "url": shop.url("/orders"), "body": {} } },
                { "tool": "log", "args": { "message": "$step-01.body.currency" } },
            ]),
        )
        .await;
    let id = world.start_run("refund", json!({})).await;
    world.settle().await;
    let run = world.run(&id).await;
    assert_eq!(run["status"], "failed");
    assert_eq!(run["steps"][1]["error_code"], "unresolved_placeholder");
    let message = run["failure"]["message"].as_str().unwrap();
    assert!(message.contains("step-01.body.currency"), "{message}");
}

/// S0-R5, S2-R11: a tool that fails fails its step and the run, with a clean text.
#[tokio::test]
async fn a_failed_tool_fails_the_run() {
    let shop = Arc::new(shop::Shop::open().await);
    let world = World::with_test_clock().await;
    world
        .agent(
            "broken",
            json!([
                { "tool": "http_request", "args": { "method": "GET", "url": shop.url("/broken") } },
                log("never"),
            ]),
        )
        .await;
    let id = world.start_run("broken", json!({})).await;
    world.settle().await;
    let run = world.run(&id).await;
    assert_eq!(run["status"], "failed", "{run}");
    assert_eq!(run["failure"]["class"], "agent");
    assert_eq!(run["steps"][0]["error_code"], "http_status");
    assert_eq!(run["steps"][0]["response"]["success"], false);
    assert_eq!(run["steps"][1]["status"], "cancelled");
    assert!(world.history(&id).await.contains(&"step.failed".to_owned()));
}
