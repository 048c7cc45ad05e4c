//! A step whose tool no node offers says so (S2-R6, issue Gate, part 1).

use std::time::Duration;

use holdpoint_testkit::until;
use serde_json::json;

use crate::shop::Shop;
use crate::world::{PATIENCE, World};

/// Sixteen passes of a sweep that runs every 20 seconds, and a machine that is busy.
const MISSING_AFTER: Duration = Duration::from_mins(8);

#[tokio::test]
async fn the_run_names_the_tool_that_no_node_offers() {
    let shop = Shop::open().await;
    let world = World::with_real_time().await;
    let find = json!({ "id": "find", "tool": "crm.fnid", "args": {} });
    world.agent("finds", json!([find])).await;
    let id = world.start_run("finds", json!({})).await;
    let run = world.run(&id).await;
    let message = run["message"].as_str().unwrap();
    let since = run["steps"][0]["started_at"].as_str().unwrap();
    let expected = format!(
        "find waits since {since} for a worker that offers crm.fnid. No live node offers it."
    );
    assert_eq!(message, expected);
    // A registered tool is offered by the built-in node.
    let http = json!({ "method": "POST", "url": shop.url("/find") });
    let tool = json!({ "name": "crm.fnid", "version": "1", "risk": "low", "idempotent": true, "http": http });
    assert_eq!(world.up.post("/tools", &tool).await.unwrap().0, 201);
    assert_eq!(world.run(&id).await["message"], "find waits for a worker.");
    world.act(&id, "pause", json!({})).await;
    assert_eq!(world.run(&id).await["message"], "Paused by owner.");
}

/// Gate 1: after five minutes without a node, people are asked and notified. Their answer decides, and a kill loses
/// neither. This takes five minutes of real time.
#[tokio::test]
async fn people_are_asked_about_a_tool_that_stays_missing() {
    let mut world = World::with_real_time().await;
    let find = json!({ "id": "find", "tool": "crm.fnid", "args": {} });
    world.agent("finds", json!([find])).await;
    let mut runs = Vec::new();
    for _ in 0..2 {
        runs.push(world.start_run("finds", json!({})).await);
    }
    let asked = async |world: &World| {
        let mut asked = Vec::new();
        for id in &runs {
            let run = world.run(id).await;
            if run["status"] == "awaiting_input" {
                asked.push(run);
            }
        }
        asked
    };
    let found = until(MISSING_AFTER, "a run asks about its tool", async || {
        asked(&world).await.pop()
    });
    let run = found.await.unwrap();
    assert_eq!(asked(&world).await.len(), 1, "one question is for all runs");
    let request = run["waiting_on"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/requests/{request}");
    let shown = until(PATIENCE, "the request is there", async || {
        let (status, shown) = world.up.get(&path).await.unwrap();
        (status == 200).then_some(shown)
    });
    let shown = shown.await.unwrap();
    assert!(
        shown["question"].as_str().unwrap().contains("crm.fnid"),
        "{shown}"
    );
    let notified = until(PATIENCE, "the owner is notified", async || {
        let (_, list) = world.up.get("/notifications").await.unwrap();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items
            .into_iter()
            .find(|it| it["request"] == request.as_str())
    });
    let notified = notified.await.unwrap();
    assert_eq!(notified["type"], "input_requested", "{notified}");

    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    let options = shown["options"].as_array().unwrap().clone();
    let answer = json!({ "answer": options.last().unwrap() });
    let answered = world.up.post(&format!("{path}/respond"), &answer).await;
    assert_eq!(answered.as_ref().unwrap().0, 200, "{answered:?}");
    let id = run["id"].as_str().unwrap();
    let failed = world.until_status(id, "failed").await;
    assert_eq!(failed["failure"]["code"], "tool_missing", "{failed}");
}
