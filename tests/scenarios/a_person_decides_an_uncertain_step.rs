//! A worker dies between the effect and the report of a step that is not idempotent.

use std::time::Duration;

use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::shop::Shop;
use crate::world::{PATIENCE, World, log, until_applied};

/// A run with one uncertain step, and the request about it.
async fn uncertain(shop: &Shop, calls: usize) -> (World, String, Value) {
    let mut world = World::with_real_time().await;
    let call = json!({ "method": "POST", "url": shop.url("/orders") });
    let steps = json!([{ "tool": "http_request", "args": call }, log("after")]);
    world.agent("pays", steps).await;
    let id = world.start_run("pays", json!({})).await;
    until(PATIENCE, "the call is under way", async || {
        (shop.calls().len() > calls).then_some(())
    })
    .await
    .unwrap();
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    let run = world.until_status(&id, "awaiting_input").await;
    assert_eq!(run["steps"][0]["status"], "uncertain");
    assert_eq!(run["waiting_on"][0]["kind"], "input");
    let request = run["waiting_on"][0]["id"].as_str().unwrap().to_owned();
    let request = until(PATIENCE, "the request is there", async || {
        let path = format!("/requests/{request}");
        let (status, body) = world.up.get(&path).await.unwrap();
        (status == 200).then_some(body)
    })
    .await
    .unwrap();
    assert_eq!(request["reason"], "uncertain");
    assert_eq!(
        request["options"],
        json!(["it_happened", "run_again", "give_up"])
    );
    assert_eq!(request["context"]["step"], "step-01");
    (world, id, request)
}

async fn respond(world: &World, request: &Value, answer: &str) -> (u16, Value) {
    let id = request["id"].as_str().unwrap();
    let path = format!("/requests/{id}/respond");
    let body = json!({ "answer": answer });
    world.up.post(&path, &body).await.unwrap()
}

/// "Races": a person decides, the decision never changes, and the effects at the tool are counted.
#[tokio::test]
async fn an_answer_that_it_happened_continues_without_a_second_call() {
    let shop = Shop::slow(Duration::from_secs(60)).await;
    let (world, id, request) = uncertain(&shop, 0).await;
    let (status, wrong) = respond(&world, &request, "perhaps").await;
    assert_eq!((status, &wrong["code"]), (422, &json!("invalid_answer")));
    let (status, decided) = respond(&world, &request, "it_happened").await;
    assert_eq!(status, 200, "{decided}");
    until_applied(&world.up, &decided).await;
    let run = world.until_status(&id, "completed").await;
    assert_eq!(run["steps"][0]["status"], "completed");
    assert_eq!(shop.calls().len(), 1, "it was not done again");
    let (status, again) = respond(&world, &request, "it_happened").await;
    assert_eq!(status, 200, "the same again is answered alike: {again}");
    let (status, late) = respond(&world, &request, "give_up").await;
    assert_eq!((status, &late["code"]), (409, &json!("already_decided")));
    let kinds = world.history(&id).await;
    assert!(kinds.contains(&"input.answered".to_owned()), "{kinds:?}");
}

/// "Races": only a person lets the step run again.
#[tokio::test]
async fn run_again_calls_once_more_and_give_up_fails() {
    let shop = Shop::slow(Duration::from_secs(8)).await;
    let (world, id, request) = uncertain(&shop, 0).await;
    let before = shop.calls().len();
    let (status, decided) = respond(&world, &request, "run_again").await;
    assert_eq!(status, 200, "{decided}");
    world.until_status(&id, "completed").await;
    assert_eq!(shop.calls().len(), before + 1);

    let shop = Shop::slow(Duration::from_secs(60)).await;
    let (world, id, request) = uncertain(&shop, 0).await;
    respond(&world, &request, "give_up").await;
    let run = world.until_status(&id, "failed").await;
    assert_eq!(run["failure"]["code"], "given_up", "{run}");
}

/// S0-AC4: an answer during a pause takes effect on resume, and its reply says so.
#[tokio::test]
async fn an_answer_while_paused_takes_effect_on_resume() {
    let shop = Shop::slow(Duration::from_secs(60)).await;
    let (world, id, request) = uncertain(&shop, 0).await;
    world.act(&id, "pause", json!({})).await;
    let (status, decided) = respond(&world, &request, "it_happened").await;
    assert_eq!(status, 200, "{decided}");
    assert_eq!(decided["effect"], "on_resume");
    assert_eq!(world.run(&id).await["status"], "awaiting_input");
    world.act(&id, "resume", json!({})).await;
    world.until_status(&id, "completed").await;
}
