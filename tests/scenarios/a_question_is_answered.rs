//! An agent asks a person and continues with the answer (S3-R1, S3-R3, S3-R9).

use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::world::{PATIENCE, World, until_applied};

/// A run that waits for an answer, and its request in the inbox.
async fn asked(world: &mut World, ask: Value) -> (String, Value) {
    let steps = json!([
        { "id": "q", "ask": ask },
        { "tool": "log", "args": { "message": "{{ $q.answer }}" } },
    ]);
    world.agent("asks", steps).await;
    let id = world.start_run("asks", json!({})).await;
    let run = world.until_status(&id, "awaiting_input").await;
    assert_eq!(run["questions"][0]["question"], "Tell the customer?");
    let request = run["waiting_on"][0]["id"].as_str().unwrap().to_owned();
    let request = until(PATIENCE, "the request is there", async || {
        let path = format!("/requests/{request}");
        let (status, body) = world.up.get(&path).await.unwrap();
        (status == 200).then_some(body)
    })
    .await
    .unwrap();
    (id, request)
}

async fn respond(world: &World, request: &Value, answer: Value) -> (u16, Value) {
    let id = request["id"].as_str().unwrap();
    let path = format!("/requests/{id}/respond");
    let body = json!({ "answer": answer });
    world.up.post(&path, &body).await.unwrap()
}

/// S3-R3, S3-R4, S3-R9
#[tokio::test]
async fn the_run_continues_with_the_answer() {
    let mut world = World::with_real_time().await;
    let ask =
        json!({ "to": "@user.owner", "question": "Tell the customer?", "options": ["yes", "no"] });
    let (id, request) = asked(&mut world, ask).await;
    assert_eq!(request["options"], json!(["yes", "no"]));
    let (status, wrong) = respond(&world, &request, json!("perhaps")).await;
    assert_eq!((status, &wrong["code"]), (422, &json!("invalid_answer")));
    let (status, decided) = respond(&world, &request, json!("yes")).await;
    assert_eq!(status, 200, "{decided}");
    until_applied(&world.up, &decided).await;
    let run = world.until_status(&id, "completed").await;
    let result = &run["steps"][0]["response"]["data"];
    assert_eq!(result["answer"], "yes");
    assert_eq!(result["continuation"], "User responded: yes");
    assert_eq!(run["steps"][1]["request"]["message"], "yes");
    let kinds = world.history(&id).await;
    assert!(kinds.contains(&"input.answered".to_owned()), "{kinds:?}");
}

/// S2-R12: a run asks for missing inputs before its first step. `confirm` stores them, and the run continues.
#[tokio::test]
async fn a_run_asks_for_the_inputs_that_it_lacks() {
    let world = World::with_real_time().await;
    let agent = json!({
        "agent": "lacks",
        "inputs": {
            "type": "object",
            "properties": {
                "customer": { "type": "string" },
                "region": { "type": "string", "enum": ["north", "south"] },
            },
            "required": ["customer", "region"],
        },
        "steps": [{ "tool": "log", "args": { "message": "{{ input.customer }} {{ input.region }}" } }],
    });
    let (status, applied) = world.up.post("/agents", &agent).await.unwrap();
    assert_eq!(status, 201, "{applied}");
    let id = world
        .start_run("lacks", json!({ "input": { "customer": "ann" } }))
        .await;
    let run = world.until_status(&id, "awaiting_input").await;
    assert_eq!(run["questions"].as_array().unwrap().len(), 1, "{run}");
    let path = format!("/runs/{id}/confirm");
    let wrong = json!({ "answers": { "region": "west" } });
    let (status, refused) = world.up.post(&path, &wrong).await.unwrap();
    assert_eq!((status, &refused["code"]), (422, &json!("invalid_answer")));
    let right = json!({ "answers": { "region": "north" } });
    let (status, confirmed) = world.up.post(&path, &right).await.unwrap();
    assert_eq!(status, 200, "{confirmed}");
    let run = world.until_status(&id, "completed").await;
    assert_eq!(run["steps"][0]["request"]["message"], "ann north");
}

/// S0-AC4, S3-R6: an answer during a pause takes effect on resume, also across a restart.
#[tokio::test]
async fn an_answer_while_paused_outlives_a_restart() {
    let mut world = World::with_real_time().await;
    let ask = json!({ "to": "@user.owner", "question": "Tell the customer?" });
    let (id, request) = asked(&mut world, ask).await;
    world.act(&id, "pause", json!({})).await;
    let (status, decided) = respond(&world, &request, json!("of course")).await;
    assert_eq!(status, 200, "{decided}");
    assert_eq!(decided["effect"], "on_resume");
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    world.act(&id, "resume", json!({})).await;
    let run = world.until_status(&id, "completed").await;
    assert_eq!(run["steps"][0]["response"]["data"]["answer"], "of course");
}
