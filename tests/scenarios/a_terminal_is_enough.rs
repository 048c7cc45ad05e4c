//! Asking, answering, refusing, handing over: by the commands of the binary alone.

use std::process::{Output, Stdio};

use holdpoint_testkit::{Person, holdpoint_binary, until};
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::world::{PATIENCE, World};

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

/// A command that ends at once: its code, and what it printed.
async fn typed(world: &World, args: &[&str]) -> (Option<i32>, String) {
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

/// The id of the one request of a kind, from the inbox as a script reads it.
async fn waiting(world: &World, kind: &str) -> String {
    until(PATIENCE, "the inbox shows it", async || {
        let (code, text) = typed(world, &["inbox", "--kind", kind, "--json"]).await;
        assert_eq!(code, Some(0), "{text}");
        let page: Value = serde_json::from_str(&text).unwrap();
        let id = page["items"].get(0)?["id"].as_str()?;
        Some(id.to_owned())
    })
    .await
    .unwrap()
}

/// M-6, S3-R1: `ask --wait` ends with the answer, or by time, or without one; the exit code says which.
#[tokio::test]
async fn a_question_is_asked_and_answered_in_terminals() {
    let world = World::with_test_clock().await;
    let ask = ["ask", "Which region?", "--option", "eu", "--option", "us"];
    let waits = [&ask[..], &["--wait", "--timeout", "1h"]].concat();
    let asking = script(&world, &waits);
    let id = waiting(&world, "input").await;
    let (_, inbox) = typed(&world, &["inbox"]).await;
    for words in [&id, "Which region?", "eu | us", "owners"] {
        assert!(inbox.contains(words), "{words}: {inbox}");
    }
    let (code, refused) = typed(&world, &["respond", &id, "mars"]).await;
    assert_eq!(code, Some(4), "{refused}");
    let (code, said) = typed(&world, &["respond", &id, "eu"]).await;
    assert_eq!(code, Some(0), "{said}");
    let (code, told) = end(asking).await;
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("answered by owner: eu"), "{told}");
    let (code, late) = typed(&world, &["respond", &id, "us"]).await;
    assert_eq!(code, Some(6), "{late}");
    let (_, inbox) = typed(&world, &["inbox"]).await;
    assert!(!inbox.contains(&id), "{inbox}");

    let asking = script(&world, &waits);
    waiting(&world, "input").await;
    world.advance("1h").await;
    let (code, told) = end(asking).await;
    assert_eq!(code, Some(5), "{told}");

    let asking = script(&world, &waits);
    let id = waiting(&world, "input").await;
    let (status, gone) = world.up.delete(&format!("/holds/{id}")).await.unwrap();
    assert_eq!(status, 200, "{gone}");
    let (code, told) = end(asking).await;
    assert_eq!(code, Some(1), "{told}");
}

/// M-6: a no, and why, reaches the script that waits for it.
#[tokio::test]
async fn a_no_in_a_terminal_stops_the_script() {
    let world = World::with_test_clock().await;
    let asking = script(&world, &["approve", "Deploy 4.2?", "--wait"]);
    let id = waiting(&world, "approval").await;
    let (code, usage) = typed(&world, &["reject", &id]).await;
    assert_eq!(code, Some(2), "a rejection needs a reason: {usage}");
    let (code, said) = typed(&world, &["reject", &id, "--reason", "not on a Friday"]).await;
    assert_eq!(code, Some(0), "{said}");
    let (code, told) = end(asking).await;
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("rejected by owner"), "{told}");
    assert!(told.contains("not on a Friday"), "{told}");
}

/// M-6, S0-T3: handed to one, given to another, taken over and completed.
#[tokio::test]
async fn a_handoff_goes_from_terminal_to_terminal() {
    let world = World::with_test_clock().await;
    Person::join(&world.up, "nina", &["member"]).await.unwrap();
    let asking = script(
        &world,
        &["hand-off", "Call Zoe", "--to", "@user.nina", "--wait"],
    );
    let id = waiting(&world, "handoff").await;
    let (code, given) = typed(&world, &["reassign", &id, "--to", "@user.owner"]).await;
    assert_eq!(code, Some(0), "{given}");
    assert!(given.contains("reassigned  owner"), "{given}");
    let (code, taken) = typed(&world, &["take-over", &id]).await;
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
    let (code, done) = typed(&world, &complete).await;
    assert_eq!(code, Some(0), "{done}");
    let (code, told) = end(asking).await;
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("by owner"), "{told}");
    assert!(told.contains("Called her."), "{told}");
    let (code, again) = typed(&world, &["reject", &id, "--reason", "late"]).await;
    assert!(matches!(code, Some(4 | 6)), "{code:?} {again}");
}
