//! A wait of ninety days is exact to the millisecond.

use serde_json::json;

use crate::world::{World, log};

/// S0-AC8, S0-T5: no 32-bit number overflows.
#[tokio::test]
async fn waits_end_at_their_millisecond() {
    let world = World::with_test_clock().await;
    // 2^31 and 2^32 milliseconds are 24.8 and 49.7 days.
    for (name, ms) in [
        ("days-24-8", 2_147_483_648_u64),
        ("days-49-7", 4_294_967_296),
        ("days-90", 7_776_000_000),
    ] {
        let wait = json!([{ "wait": format!("{ms}ms") }, log("after")]);
        world.agent(name, wait).await;
        let id = world.start_run(name, json!({})).await;
        world.advance(&format!("{}ms", ms - 1)).await;
        assert_eq!(world.run(&id).await["status"], "waiting", "{name}");
        world.advance("1ms").await;
        assert_eq!(world.run(&id).await["status"], "completed", "{name}");
    }
    let longer = json!({ "agent": "longer", "steps": [{ "wait": "7776000001ms" }] });
    let (status, refused) = world.up.post("/agents", &longer).await.unwrap();
    assert_eq!((status, &refused["code"]), (422, &json!("invalid_agent")));
}
