//! A step whose tool no node offers says so (S2-R6, issue Gate, part 1).

use serde_json::json;

use crate::shop::Shop;
use crate::world::World;

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
