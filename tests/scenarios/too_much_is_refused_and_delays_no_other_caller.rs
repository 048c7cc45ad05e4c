//! A value above its limit is refused with that limit, and other runs continue.

use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::shop::Shop;
use crate::world::{PATIENCE, World, dead_letters, log, until_applied};

const MIB: usize = 1 << 20;

fn assert_refused(answer: &(u16, Value), status: u16, code: &str, limit: &str) {
    let (got, body) = answer;
    assert_eq!((*got, &body["code"]), (status, &json!(code)), "{body}");
    let detail = body.to_string();
    assert!(detail.contains(limit), "`{limit}` is missing: {detail}");
}

/// Another run, which must not be affected.
async fn goes_on(world: &World) {
    let id = world.start_run("neighbour", json!({})).await;
    world.until_status(&id, "completed").await;
}

async fn world() -> World {
    let world = World::with_real_time().await;
    world.agent("neighbour", json!([log("x")])).await;
    world
}

/// Ground, 8: a body above the limit, and one within it whose command is larger than a message.
#[tokio::test]
async fn a_request_that_is_too_large_is_413_with_the_limit() {
    let world = world().await;
    let path = "/agents/neighbour/runs";
    let over = json!({ "input": { "text": "x".repeat(MIB) } });
    let refused = world.up.post(path, &over).await.unwrap();
    assert_refused(&refused, 413, "too_large", &MIB.to_string());
    // The body fits. With the caller and its assertion it is larger than a message.
    let tight = json!({ "input": { "text": "x".repeat(MIB - 60) } });
    let refused = world.up.post(path, &tight).await.unwrap();
    assert_refused(&refused, 413, "too_large", &MIB.to_string());
    let (_, runs) = world.up.get("/runs").await.unwrap();
    assert_eq!(runs["items"], json!([]), "nothing was started");
    goes_on(&world).await;
    assert_eq!(dead_letters(&world.up.data_dir()).await.unwrap(), 0);
}

/// S3-R3, People "Must": an answer of 1 MB is refused and the question stays open. The largest allowed answer counts.
#[tokio::test]
async fn an_answer_of_a_megabyte_is_refused_and_the_question_stays() {
    let world = world().await;
    let ask = json!({ "to": "@user.owner", "question": "What?", "timeout": "1h" });
    world
        .agent("asks", json!([{ "ask": ask }, log("after")]))
        .await;
    let run = world.start_run("asks", json!({})).await;
    let waiting = world.until_status(&run, "awaiting_input").await;
    let request = format!(
        "/requests/{}",
        waiting["waiting_on"][0]["id"].as_str().unwrap()
    );
    until(PATIENCE, "the request is there", async || {
        (world.up.get(&request).await.unwrap().0 == 200).then_some(())
    })
    .await
    .unwrap();
    let respond = format!("{request}/respond");
    let most = 256 * 1024;
    for (bytes, status, code, limit) in [
        (1_000_000, 422, "invalid_answer", "262144"),
        (most, 422, "invalid_answer", "262144"),
        (MIB, 413, "too_large", "1048576"),
    ] {
        let answer = json!({ "answer": "x".repeat(bytes) });
        let refused = world.up.post(&respond, &answer).await.unwrap();
        assert_refused(&refused, status, code, limit);
    }
    let (_, open) = world.up.get(&request).await.unwrap();
    assert_eq!(open["status"], "open");
    goes_on(&world).await;
    // With its quotes it has the largest allowed size, and it arrives complete.
    let answer = json!({ "answer": "x".repeat(most - 2) });
    let (status, decided) = world.up.post(&respond, &answer).await.unwrap();
    assert_eq!(status, 200, "{decided}");
    until_applied(&world.up, &decided).await;
    let ended = world.until_status(&run, "completed").await;
    let kept = ended["steps"][0]["response"]["data"]["answer"].as_str();
    assert_eq!(kept.map(str::len), Some(most - 2), "{ended}");
    assert_eq!(dead_letters(&world.up.data_dir()).await.unwrap(), 0);
}

/// `arguments_too_large`: the arguments of a step are larger than a dispatch may be.
#[tokio::test]
async fn arguments_that_are_too_large_fail_the_step_with_the_limit() {
    let world = world().await;
    let args = json!({ "message": "{{ input.text }}" });
    world
        .agent("large", json!([{ "tool": "log", "args": args }]))
        .await;
    let text = "x".repeat(256 * 1024);
    let body = json!({ "input": { "text": text } });
    let run = world.start_run("large", body).await;
    let failed = world.until_status(&run, "failed").await;
    assert_eq!(failed["failure"]["code"], "arguments_too_large", "{failed}");
    let message = failed["failure"]["message"].as_str().unwrap();
    assert!(message.contains("262144"), "{message}");
    let fits = json!({ "input": { "text": "x".repeat(250 * 1024) } });
    let fits = world.start_run("large", fits).await;
    world.until_status(&fits, "completed").await;
    goes_on(&world).await;
}

/// A run that is larger than a message is still shown. Its view says which results it omits and how large they are.
#[tokio::test]
async fn a_run_that_is_too_large_names_its_omitted_results() {
    let world = world().await;
    let shop = Shop::open().await;
    // Five results of 250 KiB are together larger than a message.
    let call = json!({ "method": "GET", "url": shop.url("/large"), "idempotent": true });
    let step = json!({ "tool": "http_request", "args": call });
    world.agent("much", json!(vec![step; 5])).await;
    let run = world.start_run("much", json!({})).await;
    let shown = world.until_status(&run, "completed").await;
    let steps = shown["steps"].as_array().unwrap();
    let is_left_out = |step: &&Value| {
        let data = &step["response"]["data"];
        data["omitted"] == true && data["bytes"].as_u64() > Some(250 * 1024)
    };
    let left_out = steps.iter().filter(is_left_out).count();
    assert!((1..5).contains(&left_out), "{left_out} of five results");
    assert!(steps.iter().all(|step| step["status"] == "completed"));

    let kinds = world.history(&run).await;
    let succeeded = kinds.iter().filter(|kind| *kind == "step.succeeded");
    assert_eq!(succeeded.count(), 5, "{kinds:?}");
    let pause = format!("/runs/{run}/pause");
    let (status, refused) = world.up.post(&pause, &json!({})).await.unwrap();
    assert_eq!((status, &refused["code"]), (409, &json!("run_final")));
    goes_on(&world).await;
    assert_eq!(dead_letters(&world.up.data_dir()).await.unwrap(), 0);
}
