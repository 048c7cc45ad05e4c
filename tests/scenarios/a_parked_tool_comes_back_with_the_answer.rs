//! A tool asks a person and parks. Its step has no lease, and the tool is called again with the answer (S3-R2,
//! S4-R17).

use std::sync::Arc;

use holdpoint_bus::Bus;
use holdpoint_testkit::until;
use holdpoint_worker::tool::{Risk, ToolCall, ToolSuccess, tool_fn};
use holdpoint_worker::worker::{Worker, WorkerOptions};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::toolbox::Toolbox;
use crate::world::{PATIENCE, World};

const PARKS: &str = r#"
answer=$(holdpoint ask "Ship it?" --option yes --option no --key ship --timeout 10d --park) || exit $?
printf '{"answer": "%s", "given": %s, "attempt": %s}' "$answer" "$HOLDPOINT_ANSWERS" "$HOLDPOINT_ATTEMPT"
"#;

/// The run once its step is parked.
async fn until_parked(world: &World, run: &str) -> Value {
    until(PATIENCE, "the step is parked", async || {
        let shown = world.run(run).await;
        (shown["steps"][0]["status"] == "waiting").then_some(shown)
    })
    .await
    .unwrap()
}

async fn respond(world: &World, shown: &Value, answer: &str) {
    let request = shown["questions"][0]["id"].as_str().unwrap();
    let path = format!("/requests/{request}/respond");
    let decided = until(PATIENCE, "it is in the inbox", async || {
        let body = json!({ "answer": answer });
        let (status, decided) = world.up.post(&path, &body).await.unwrap();
        (status != 404).then_some((status, decided))
    });
    let (status, decided) = decided.await.unwrap();
    assert_eq!(status, 200, "{decided}");
}

/// S3-R2, S3-R6, S4-R17: the question and its answer survive days and the death of all processes.
#[tokio::test]
async fn a_parked_tool_gets_the_answer_after_days() {
    let mut world = World::with_test_clock().await;
    let node = Toolbox::of(&world.up, "ship", PARKS).await;
    let step = json!({ "tool": "ship", "args": {}, "claim_timeout": "1s" });
    world.agent("ships", json!([step])).await;
    let run = world.start_run("ships", json!({})).await;
    let shown = until_parked(&world, &run).await;
    assert_eq!(shown["status"], "awaiting_input", "{shown}");
    let (_, claims) = world.up.get("/claims").await.unwrap();
    assert_eq!(
        claims["items"],
        json!([]),
        "waiting on a person releases the claim"
    );
    node.kill().await;
    world.up.clock_advance("3d").await.unwrap();
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    let still = world.run(&run).await;
    assert_eq!(still["status"], "awaiting_input", "{still}");
    assert_eq!(still["questions"][0]["id"], shown["questions"][0]["id"]);
    respond(&world, &shown, "yes").await;
    let _node = Toolbox::of(&world.up, "ship", PARKS).await;
    let done = world.until_status(&run, "completed").await;
    let step = &done["steps"][0];
    let result = &step["response"]["data"];
    assert_eq!(
        (&result["answer"], &result["attempt"]),
        (&json!("yes"), &json!(2)),
        "{done}"
    );
    let given = &result["given"]["ship"];
    assert_eq!(given["continuation"], "User responded: yes", "S3-R4");
    assert_eq!(given["question_id"], shown["questions"][0]["id"], "S3-R4");
    assert_eq!(step["dispatch"], 2);
    let actions = step["handoff_history"].as_array().unwrap().iter();
    let actions: Vec<_> = actions.map(|entry| entry["action"].clone()).collect();
    assert_eq!(actions, ["claimed", "released", "claimed"], "{step}");
    let hours = done["clocks"]["human_ms"].as_u64().unwrap() / 3_600_000;
    assert_eq!(hours, 72, "a person's time: {}", done["clocks"]);
}

/// S3-R2 with the worker SDK: one tool parks and then blocks, and asks each question once.
#[tokio::test]
async fn the_sdk_parks_and_blocks() {
    let world = World::with_real_time().await;
    let tool = tool_fn("order", Risk::Low, |call: ToolCall| async move {
        let size = call.ask("Which size?").options(["S", "L"]).park().await?;
        let form = json!({ "type": "object", "required": ["street"],
            "properties": { "street": { "type": "string" } } });
        let place = call
            .ask("Where to?")
            .schema(form)
            .key("place")
            .block()
            .await?;
        Ok(ToolSuccess {
            description: "Ordered".to_owned(),
            data: json!({ "size": size.answer, "place": place.answer, "calls": call.dispatch.attempt }),
        })
    });
    let bus = Bus::connect(&world.up.nats_url, "order").await.unwrap();
    let options = WorkerOptions::new("order-node-1".parse().unwrap());
    let stop = CancellationToken::new();
    let worker = Worker::new(bus, options).tool(Arc::new(tool));
    let working = tokio::spawn(worker.run(stop.clone()));
    world
        .agent("orders", json!([{ "tool": "order", "args": {} }]))
        .await;
    let run = world.start_run("orders", json!({})).await;
    let shown = until_parked(&world, &run).await;
    assert_eq!(shown["questions"][0]["question"], "Which size?");
    respond(&world, &shown, "L").await;
    let shown = until(PATIENCE, "the second question", async || {
        let shown = world.run(&run).await;
        (shown["questions"][0]["question"] == "Where to?").then_some(shown)
    })
    .await
    .unwrap();
    assert_eq!(
        shown["steps"][0]["status"], "in_progress",
        "it blocks: {shown}"
    );
    let request = shown["questions"][0]["id"].as_str().unwrap();
    let path = format!("/requests/{request}/respond");
    until(PATIENCE, "it is in the inbox", async || {
        let body = json!({ "answer": { "street": "Elm 1" } });
        let (status, _) = world.up.post(&path, &body).await.unwrap();
        (status == 200).then_some(())
    })
    .await
    .unwrap();
    let done = world.until_status(&run, "completed").await;
    assert_eq!(
        done["steps"][0]["response"]["data"],
        json!({ "size": "L", "place": { "street": "Elm 1" }, "calls": 2 }),
        "{done}"
    );
    stop.cancel();
    working.await.unwrap().unwrap();
}
