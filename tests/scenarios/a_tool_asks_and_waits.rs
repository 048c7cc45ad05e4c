//! A tool asks a person while its step runs, and blocks until the answer (S3-R2).

use std::time::Duration;

use holdpoint_testkit::{Answer, until};
use reqwest::Method;
use serde_json::{Value, json};

use crate::shop::Shop;
use crate::toolbox::Toolbox;
use crate::world::{PATIENCE, World, until_applied};

/// A shell tool, whose output is the result of the step.
const ASKS: &str = r#"
answer=$(holdpoint ask "Refund 120 EUR?" --option yes --option no --key refund --timeout 1h) || exit $?
printf '{"answer": "%s", "attempt": %s}' "$answer" "$HOLDPOINT_ATTEMPT"
"#;

/// A run whose tool waits for an answer.
async fn asked(world: &World, lease: &str) -> (String, String) {
    let step = json!({ "tool": "refund", "args": { "idempotent": true }, "claim_timeout": lease });
    world.agent("refunds", json!([step])).await;
    let run = world.start_run("refunds", json!({})).await;
    let shown = world.until_status(&run, "awaiting_input").await;
    assert_eq!(shown["questions"][0]["question"], "Refund 120 EUR?");
    let request = shown["questions"][0]["id"].as_str().unwrap().to_owned();
    until(PATIENCE, "it is in the inbox", async || {
        let (status, _) = world.up.get(&format!("/requests/{request}")).await.unwrap();
        (status == 200).then_some(())
    })
    .await
    .unwrap();
    until_granted(world).await;
    (run, request)
}

/// An idempotent tool starts early, and its worker asks for a grant after half a second.
async fn until_granted(world: &World) {
    let granted = until(PATIENCE, "the step is granted", async || {
        let (_, claims) = world.up.get("/claims").await.unwrap();
        claims["items"].get(0).cloned()
    });
    assert_eq!(
        granted.await.unwrap()["step"],
        "step-01",
        "it keeps its lease"
    );
}

async fn respond(world: &World, request: &str, answer: &str) -> Answer {
    let path = format!("/requests/{request}/respond");
    let body = json!({ "answer": answer });
    world.up.post(&path, &body).await.unwrap()
}

/// S3-R2, S3-R3, S3-R4, S3-R9
#[tokio::test]
async fn a_shell_tool_waits_for_the_answer_and_goes_on() {
    let world = World::with_real_time().await;
    let _node = Toolbox::of(&world.up, "refund", ASKS).await;
    let (run, request) = asked(&world, "3s").await;
    let (status, wrong) = respond(&world, &request, "perhaps").await;
    assert_eq!((status, &wrong["code"]), (422, &json!("invalid_answer")));
    let (status, decided) = respond(&world, &request, "yes").await;
    assert_eq!(status, 200, "{decided}");
    until_applied(&world.up, &decided).await;
    let shown = world.until_status(&run, "completed").await;
    let result = &shown["steps"][0]["response"]["data"];
    assert_eq!(*result, json!({ "answer": "yes", "attempt": 1 }), "{shown}");
    let kinds = world.history(&run).await;
    for kind in ["run.awaiting_input", "input.answered", "run.resumed"] {
        assert!(kinds.contains(&kind.to_owned()), "{kind} in {kinds:?}");
    }
}

/// S3-R6: the worker is killed while its tool waits. The next worker finds the same question and the answer that
/// came meanwhile.
#[tokio::test]
async fn a_killed_worker_loses_no_question() {
    let mut world = World::with_real_time().await;
    let node = Toolbox::of(&world.up, "refund", ASKS).await;
    let (run, request) = asked(&world, "3s").await;
    node.kill().await;
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    let (status, decided) = respond(&world, &request, "no").await;
    assert_eq!(status, 200, "{decided}");
    let _node = Toolbox::of(&world.up, "refund", ASKS).await;
    let shown = world.until_status(&run, "completed").await;
    let result = &shown["steps"][0]["response"]["data"];
    assert_eq!(result["answer"], "no", "{shown}");
    assert!(
        result["attempt"].as_u64() > Some(1),
        "by another try: {result}"
    );
    let (_, asked) = world.up.get(&format!("/requests?run={run}")).await.unwrap();
    assert_eq!(
        asked["items"].as_array().unwrap().len(),
        1,
        "asked once: {asked}"
    );
}

/// S3-R5, Races: without an answer the question times out, and a later answer is kept as late.
#[tokio::test]
async fn a_timeout_fails_the_run_and_a_late_answer_is_kept() {
    let world = World::with_test_clock().await;
    let _node = Toolbox::of(&world.up, "refund", ASKS).await;
    let (run, request) = asked(&world, "30m").await;
    world.up.clock_advance("2h").await.unwrap();
    let shown = world.until_status(&run, "failed").await;
    assert_eq!(shown["failure"]["class"], "human_timeout", "{shown}");
    assert_eq!(
        shown["failure"]["message"],
        "step-01: the workspace's owners did not answer within 1 hour: Refund 120 EUR?"
    );
    let (status, late) = respond(&world, &request, "yes").await;
    assert_eq!(
        (status, &late["code"]),
        (409, &json!("already_decided")),
        "{late}"
    );
    let (_, shown) = world.up.get(&format!("/requests/{request}")).await.unwrap();
    assert_eq!(
        shown["late"][0]["data"]["data"], "yes",
        "kept, and shown as late: {shown}"
    );
}

/// A tool that is an HTTP service asks with the step token of its call.
async fn called(world: &World, shop: &Shop) -> (String, String) {
    let tool = json!({ "name": "orders.make", "version": "1", "risk": "low", "idempotent": true,
        "http": { "method": "POST", "url": shop.url("/orders") } });
    let (status, response) = world.up.post("/tools", &tool).await.unwrap();
    assert_eq!(status, 201, "{response}");
    world
        .agent("buys", json!([{ "tool": "orders.make", "args": {} }]))
        .await;
    let run = world.start_run("buys", json!({})).await;
    let call = until(PATIENCE, "the tool is called", async || shop.calls().pop()).await;
    (run, call.unwrap().header("holdpoint-token").to_owned())
}

async fn as_step(world: &World, token: &str, path: &str, body: Option<&Value>) -> Answer {
    let method = match body {
        Some(_) => Method::POST,
        None => Method::GET,
    };
    let path = format!("/v1/workspaces/{}{path}", world.up.workspace);
    world
        .up
        .call_with(token, method, &path, body)
        .await
        .unwrap()
}

/// A-H6: a running step reads only its run and the contact of it.
#[tokio::test]
async fn a_step_token_opens_only_what_its_step_needs() {
    let world = World::with_real_time().await;
    let shop = Shop::slow(Duration::from_secs(20)).await;
    let (run, token) = called(&world, &shop).await;
    let other = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";
    let fields = json!({ "name": "Other" });
    let put = world.up.put("/contacts/c-other", &fields);
    assert_eq!(put.await.unwrap().0, 200);
    for (path, status) in [
        (format!("/runs/{run}"), 200),
        (format!("/runs/{run}/events"), 200),
        (format!("/runs/{other}"), 404),
        ("/contacts/c-other".to_owned(), 404),
        ("/contacts/c-other/activities".to_owned(), 404),
    ] {
        assert_eq!(
            as_step(&world, &token, &path, None).await.0,
            status,
            "{path}"
        );
    }
    let (_, contacts) = as_step(&world, &token, "/contacts", None).await;
    assert_eq!(contacts["items"], json!([]), "its run has no contact");
}

/// S3-R2, S3-R7, S0-AC4: a tool asks over HTTP with the step token. An answer during a pause counts on resume.
#[tokio::test]
async fn a_step_token_asks_and_reads_its_own_answer() {
    let world = World::with_real_time().await;
    let shop = Shop::slow(Duration::from_secs(20)).await;
    let (run, token) = called(&world, &shop).await;
    let path = format!("/runs/{run}/request-input");
    let question = json!({ "question": "Which colour?", "key": "colour", "timeout_ms": 600_000 });
    let mut forever = question.clone();
    forever["timeout_ms"] = 0.into();
    let (status, refused) = as_step(&world, &token, &path, Some(&forever)).await;
    assert_eq!(
        (status, &refused["errors"][0]["pointer"]),
        (422, &json!("/timeout_ms")),
        "{refused}"
    );
    let (status, asked) = as_step(&world, &token, &path, Some(&question)).await;
    assert_eq!((status, &asked["status"]), (202, &json!("open")), "{asked}");
    let request = asked["request_id"].as_str().unwrap();
    let (status, again) = as_step(&world, &token, &path, Some(&question)).await;
    assert_eq!(
        (status, &again["request_id"]),
        (202, &asked["request_id"]),
        "the first one"
    );
    let own = format!("/requests/{request}");
    let (status, shown) = as_step(&world, &token, &own, None).await;
    assert_eq!((status, &shown["status"]), (200, &json!("open")), "{shown}");
    let respond_path = format!("{own}/respond");
    let (status, _) = as_step(
        &world,
        &token,
        &respond_path,
        Some(&json!({ "answer": "red" })),
    )
    .await;
    assert_eq!(status, 403, "a step asks, and never decides");
    let note = asked["notification_id"].as_str().unwrap();
    until(PATIENCE, "people are notified", async || {
        let (_, notes) = world.up.get("/notifications").await.unwrap();
        notes.to_string().contains(note).then_some(())
    })
    .await
    .unwrap();

    until_granted(&world).await;
    world.act(&run, "pause", json!({})).await;
    let (_, decided) = respond(&world, request, "red").await;
    assert_eq!(decided["effect"], "on_resume", "{decided}");
    let (_, shown) = as_step(&world, &token, &own, None).await;
    assert_eq!(
        (&shown["status"], &shown["response"]),
        (&json!("open"), &Value::Null),
        "{shown}"
    );
    world.act(&run, "resume", json!({})).await;
    let (_, shown) = as_step(&world, &token, &format!("{own}?wait=30s"), None).await;
    assert_eq!(
        (&shown["status"], &shown["response"]),
        (&json!("decided"), &json!("red")),
        "{shown}"
    );
    let (_, response) = as_step(&world, &token, &path, Some(&question)).await;
    assert_eq!(
        response["continuation"], "User responded: red",
        "S3-R4: {response}"
    );
    world.act(&run, "cancel", json!({})).await;
    let (status, over) = as_step(&world, &token, &path, Some(&question)).await;
    assert_eq!(
        (status, &over["code"]),
        (409, &json!("no_step_running")),
        "{over}"
    );
}
