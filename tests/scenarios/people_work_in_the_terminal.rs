//! Users ask, answer, reject and hand over with the commands of the binary.

use std::process::{Output, Stdio};

use holdpoint_testkit::{Person, holdpoint_binary, until};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::shop::Shop;
use crate::world::{PATIENCE, World, log};

fn command(world: &World, args: &[&str]) -> Command {
    let mut command = Command::new(holdpoint_binary().unwrap());
    command
        .args(args)
        .arg("--data")
        .arg(world.up.data_dir())
        .env_remove("HOLDPOINT_URL")
        .env_remove("HOLDPOINT_TOKEN")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// A script that asks and waits.
fn script(world: &World, args: &[&str]) -> Child {
    command(world, args).spawn().unwrap()
}

/// Runs a command that ends at once. Returns its code and its output.
async fn run_command(world: &World, args: &[&str]) -> (Option<i32>, String) {
    ended(command(world, args).output().await.unwrap())
}

async fn end(script: Child) -> (Option<i32>, String) {
    ended(script.wait_with_output().await.unwrap())
}

fn ended(output: Output) -> (Option<i32>, String) {
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output.status.code(), text)
}

/// The id of the only request of a kind in the JSON inbox.
async fn waiting(world: &World, kind: &str) -> String {
    until(PATIENCE, "the inbox shows it", async || {
        let (code, text) = run_command(world, &["inbox", "--kind", kind, "--json"]).await;
        assert_eq!(code, Some(0), "{text}");
        let page: Value = serde_json::from_str(&text).unwrap();
        let id = page["items"].get(0)?["id"].as_str()?;
        Some(id.to_owned())
    })
    .await
    .unwrap()
}

/// M-6, S3-R1: `ask --wait` ends with an answer, a timeout or an error, and the exit code says which.
#[tokio::test]
async fn a_question_is_asked_and_answered_in_terminals() {
    let world = World::with_test_clock().await;
    let ask = ["ask", "Which region?", "--option", "eu", "--option", "us"];
    let waits = [&ask[..], &["--wait", "--timeout", "1h"]].concat();
    let asking = script(&world, &waits);
    let id = waiting(&world, "input").await;
    let (_, inbox) = run_command(&world, &["inbox"]).await;
    for words in [&id, "Which region?", "eu | us", "owners"] {
        assert!(inbox.contains(words), "{words}: {inbox}");
    }
    let (code, shown) = run_command(&world, &["request", "show", &id[..16]]).await;
    assert_eq!(code, Some(0), "a prefix is enough: {shown}");
    assert!(shown.contains(&id), "{shown}");
    let (code, refused) = run_command(&world, &["respond", &id, "mars"]).await;
    assert_eq!(code, Some(4), "{refused}");
    let (code, said) = run_command(&world, &["respond", &id, "eu"]).await;
    assert_eq!(code, Some(0), "{said}");
    let (code, output) = end(asking).await;
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("answered by owner: eu"), "{output}");
    let (code, late) = run_command(&world, &["respond", &id, "us"]).await;
    assert_eq!(code, Some(6), "{late}");
    let (_, inbox) = run_command(&world, &["inbox"]).await;
    assert!(!inbox.contains(&id), "{inbox}");

    let asking = script(&world, &waits);
    waiting(&world, "input").await;
    world.advance("1h").await;
    let (code, output) = end(asking).await;
    assert_eq!(code, Some(5), "{output}");

    let asking = script(&world, &waits);
    let id = waiting(&world, "input").await;
    let (status, gone) = world.up.delete(&format!("/holds/{id}")).await.unwrap();
    assert_eq!(status, 200, "{gone}");
    let (code, output) = end(asking).await;
    assert_eq!(code, Some(1), "{output}");
}

/// M-6: a rejection and its reason reach the waiting script.
#[tokio::test]
async fn a_rejection_in_the_terminal_stops_the_script() {
    let world = World::with_test_clock().await;
    let asking = script(&world, &["approve", "Deploy 4.2?", "--wait"]);
    let id = waiting(&world, "approval").await;
    let (code, usage) = run_command(&world, &["reject", &id]).await;
    assert_eq!(code, Some(2), "a rejection needs a reason: {usage}");
    let (code, said) = run_command(&world, &["reject", &id, "--reason", "not on a Friday"]).await;
    assert_eq!(code, Some(0), "{said}");
    let (code, output) = end(asking).await;
    assert_eq!(code, Some(4), "{output}");
    assert!(output.contains("rejected by owner"), "{output}");
    assert!(output.contains("not on a Friday"), "{output}");
}

/// M-6, S0-T3: a handoff is reassigned, taken over and completed.
#[tokio::test]
async fn a_handoff_goes_from_terminal_to_terminal() {
    let world = World::with_test_clock().await;
    Person::join(&world.up, "nina", &["member"]).await.unwrap();
    let asking = script(
        &world,
        &["hand-off", "Call Zoe", "--to", "@user.nina", "--wait"],
    );
    let id = waiting(&world, "handoff").await;
    let (code, given) = run_command(&world, &["reassign", &id, "--to", "@user.owner"]).await;
    assert_eq!(code, Some(0), "{given}");
    assert!(given.contains("reassigned  owner"), "{given}");
    let (code, taken) = run_command(&world, &["take-over", &id]).await;
    assert_eq!(code, Some(0), "{taken}");
    assert!(taken.contains("taken_over  owner"), "{taken}");
    let complete = [
        "complete",
        &id,
        "--notes",
        "Called her.",
        "--then",
        "finish",
    ];
    let (code, done) = run_command(&world, &complete).await;
    assert_eq!(code, Some(0), "{done}");
    let (code, output) = end(asking).await;
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("by owner"), "{output}");
    assert!(output.contains("Called her."), "{output}");
    let (code, again) = run_command(&world, &["reject", &id, "--reason", "late"]).await;
    assert!(matches!(code, Some(4 | 6)), "{code:?} {again}");
}

/// A run that waits a day, and then logs the notes of the person who took it over.
async fn waiting_run(world: &World) -> String {
    let step = log("{{ run.intervention.by }}: {{ run.intervention.notes }}");
    let steps = json!([{ "wait": "1 day" }, step]);
    world.agent("waits", steps).await;
    let run = world.start_run("waits", json!({})).await;
    world.until_status(&run, "waiting").await;
    run
}

/// Take-over (issue 4, Deliver 4): a live run is taken over by its id. Its later steps read the notes of the person.
#[tokio::test]
async fn a_live_run_is_taken_over_and_returned_in_a_terminal() {
    let world = World::with_test_clock().await;
    let run = waiting_run(&world).await;
    let (code, taken) = run_command(&world, &["take-over", &run]).await;
    assert_eq!(code, Some(0), "{taken}");
    assert!(
        taken.contains("taken over by owner; give it back:"),
        "{taken}"
    );
    let id = waiting(&world, "handoff").await;
    assert!(
        taken.contains(&format!("holdpoint complete {id} ")),
        "{taken}"
    );
    let back = [
        "complete",
        &id,
        "--then",
        "return_to_agent",
        "--notes",
        "Asked her myself.",
    ];
    let (code, done) = run_command(&world, &back).await;
    assert_eq!(code, Some(0), "{done}");
    world.advance("1 day").await;
    let shown = world.until_status(&run, "completed").await;
    let message = &shown["steps"][1]["request"]["message"];
    assert_eq!(message, "owner: Asked her myself.", "{shown}");
    let (code, late) = run_command(&world, &["take-over", &run]).await;
    assert_eq!(code, Some(6), "an ended run cannot be taken over: {late}");
}

/// Issue 4, ask again: an unanswered request is asked again with other recipients, and its script continues.
#[tokio::test]
async fn an_unanswered_request_is_asked_again_in_the_terminal() {
    let world = World::with_test_clock().await;
    Person::join(&world.up, "nina", &["member"]).await.unwrap();
    let asking = script(
        &world,
        &["approve", "Deploy 4.2?", "--wait", "--timeout", "1h"],
    );
    let old = waiting(&world, "approval").await;
    let (code, refused) = run_command(&world, &["ask-again", &old]).await;
    assert_eq!(code, Some(6), "it is still open: {refused}");
    world.advance("1h").await;
    assert_eq!(end(asking).await.0, Some(5));
    let again = [
        "ask-again",
        &old,
        "--to",
        "@user.nina",
        "--timeout",
        "2h",
        "--wait",
    ];
    let asking = script(&world, &again);
    let id = waiting(&world, "approval").await;
    let (_, shown) = world.up.get(&format!("/requests/{id}")).await.unwrap();
    assert_eq!(shown["asks_again"], old.as_str(), "{shown}");
    assert_eq!(shown["to"], json!(["@user.nina"]));
    assert_eq!(run_command(&world, &["approve", &id]).await.0, Some(0));
    let (code, output) = end(asking).await;
    assert_eq!(code, Some(0), "{output}");
    let (code, refused) = run_command(&world, &["ask-again", &id]).await;
    assert_eq!(code, Some(6), "a decision is final: {refused}");
    assert!(refused.contains("approved by owner"), "{refused}");
    assert!(refused.contains("a decision is final"), "{refused}");

    let run = waiting_run(&world).await;
    run_command(&world, &["take-over", &run]).await;
    let id = waiting(&world, "handoff").await;
    let (code, refused) = run_command(&world, &["ask-again", &id]).await;
    assert_eq!(code, Some(6), "{refused}");
    assert!(refused.contains("belongs to a run"), "{refused}");
}

/// Issue 4, "version on every decision": every action takes the version that the user has seen.
#[tokio::test]
async fn several_requests_are_decided_at_the_version_that_was_seen() {
    let world = World::with_test_clock().await;
    Person::join(&world.up, "nina", &["member", "sales"])
        .await
        .unwrap();
    let mut ids = Vec::new();
    for text in ["One?", "Two?", "Three?"] {
        let ask = [
            "approve",
            text,
            "--to",
            "@role.sales",
            "--assign",
            "least-loaded",
            "--title",
            text,
            "--priority",
            "high",
            "--json",
        ];
        let (code, opened) = run_command(&world, &ask).await;
        assert_eq!(code, Some(0), "{opened}");
        let opened: Value = serde_json::from_str(&opened).unwrap();
        ids.push(opened["id"].as_str().unwrap().to_owned());
    }
    let (_, shown) = world
        .up
        .get(&format!("/requests/{}", ids[0]))
        .await
        .unwrap();
    assert_eq!(
        (&shown["assignee"], &shown["title"]),
        (&json!("nina"), &json!("One?"))
    );
    assert_eq!(
        (&shown["priority"], &shown["version"]),
        (&json!("high"), &json!(1))
    );
    for acted in [
        &["delegate", &ids[0], "--to", "@user.owner"][..],
        &["acknowledge", &ids[0]],
        &["snooze", &ids[0], "--for", "2h"],
    ] {
        let (code, said) = run_command(&world, acted).await;
        assert_eq!(code, Some(0), "{acted:?} {said}");
    }
    let (code, refused) = run_command(&world, &["approve", &ids[0], "--version", "1"]).await;
    assert_eq!(code, Some(6), "{refused}");
    assert!(
        refused.contains("not 1; read the request again"),
        "{refused}"
    );
    let seen = ["--version", "1", "--version", "1"];
    let pair = [&["approve", &ids[0], &ids[1]], &seen[..]].concat();
    let (code, refused) = run_command(&world, &[&pair[..], &["--all-or-none"]].concat()).await;
    assert_eq!(code, Some(6), "{refused}");
    let (code, output) = run_command(&world, &pair).await;
    assert_eq!(code, Some(6), "each is decided alone: {output}");
    assert!(
        output.contains(&format!("{}  recorded", ids[1])),
        "{output}"
    );
    let (code, output) = run_command(&world, &["reject", &ids[0], &ids[2], "--reason", "no"]).await;
    assert_eq!(code, Some(0), "{output}");
    let (code, usage) = run_command(&world, &["approve", &ids[0], "Deploy?"]).await;
    assert_eq!(code, Some(2), "{usage}");

    let (_, opened) = run_command(&world, &["ask", "When?", "--json"]).await;
    let opened: Value = serde_json::from_str(&opened).unwrap();
    let (code, gone) = run_command(&world, &["withdraw", opened["id"].as_str().unwrap()]).await;
    assert_eq!(code, Some(0), "{gone}");
    assert!(gone.contains("withdrawn"), "{gone}");
}

/// Gate, S2-R4: a person approves a call with other arguments. Those that do not fit the schema of the tool are refused with
/// their place, and the call has those that fit.
#[tokio::test]
async fn a_call_is_approved_with_edited_arguments_in_the_terminal() {
    let world = World::with_real_time().await;
    let shop = Shop::open().await;
    let schema = json!({ "type": "object", "required": ["order", "amount"],
        "properties": { "order": { "type": "string" }, "amount": { "type": "integer", "maximum": 250 } } });
    let tool = json!({ "name": "payments.refund", "version": "1", "risk": "high", "idempotent": true,
        "args_schema": schema, "http": { "method": "POST", "url": shop.url("/refunds") } });
    let (status, put) = world.up.post("/tools", &tool).await.unwrap();
    assert_eq!(status, 201, "{put}");
    let args = json!({ "order": "o-1", "amount": 250 });
    let step = json!({ "id": "pay", "tool": "payments.refund", "args": args });
    world.agent("refund", json!([step])).await;
    let run = world.start_run("refund", json!({})).await;
    let id = waiting(&world, "approval").await;

    let approve = async |args: &str| run_command(&world, &["approve", &id, "--args", args]).await;
    let (code, refused) = approve(r#"{"order":"o-1","amount":"all"}"#).await;
    assert_eq!(code, Some(4), "{refused}");
    assert!(refused.contains("/edited_args/amount"), "{refused}");
    let (code, refused) = approve(r#"{"order":"o-1","amount":251}"#).await;
    assert_eq!(code, Some(4), "{refused}");
    assert!(refused.contains("/edited_args/amount"), "{refused}");
    let (code, refused) = approve(r#"{"order":"o-1"}"#).await;
    assert_eq!(code, Some(4), "{refused}");
    assert!(refused.contains("amount"), "{refused}");
    let (code, usage) = approve(r#"{"amount":"#).await;
    assert_eq!(code, Some(2), "{usage}");
    assert_eq!(world.run(&run).await["status"], "awaiting_approval");
    assert!(shop.calls().is_empty(), "no call before the approval");

    let (code, said) = approve(r#"{"order":"o-1","amount":125}"#).await;
    assert_eq!(code, Some(0), "{said}");
    let ended = world.until_status(&run, "completed").await;
    let edited = json!({ "order": "o-1", "amount": 125 });
    let calls = shop.calls();
    assert_eq!(calls.len(), 1);
    let sent: Value = serde_json::from_str(&calls[0].body).unwrap();
    assert_eq!(sent, edited);
    assert_eq!(ended["steps"][0]["request"], edited, "{ended}");
}
