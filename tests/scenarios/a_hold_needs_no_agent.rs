//! A program requests an approval or a wait with one call (M-6).

use holdpoint_testkit::{holdpoint_binary, until};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::world::{PATIENCE, World, until_applied};

fn holdpoint(world: &World, args: &[&str]) -> Child {
    Command::new(holdpoint_binary().unwrap())
        .args(args)
        .arg("--data")
        .arg(world.up.data_dir())
        .env_remove("HOLDPOINT_URL")
        .env_remove("HOLDPOINT_TOKEN")
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn open_request(world: &World) -> Value {
    until(PATIENCE, "a request is open", async || {
        let (status, page) = world.up.get("/requests?status=open").await.unwrap();
        assert_eq!(status, 200, "{page}");
        page["items"].get(0).cloned()
    })
    .await
    .unwrap()
}

/// M-6: the exit code of `holdpoint approve "Deploy?" --wait` is the outcome.
#[tokio::test]
async fn a_script_waits_for_a_yes_or_a_no() {
    let world = World::with_test_clock().await;
    for (verb, body, code) in [
        ("approve", json!({ "comment": "go" }), 0),
        ("reject", json!({ "reason": "not on a Friday" }), 4),
    ] {
        let mut script = holdpoint(&world, &["approve", "Deploy 4.2?", "--wait"]);
        let request = open_request(&world).await;
        assert_eq!(request["question"], "Deploy 4.2?");
        let path = format!("/requests/{}/{verb}", request["id"].as_str().unwrap());
        let (status, decided) = world.up.post(&path, &body).await.unwrap();
        assert_eq!(status, 200, "{decided}");
        until_applied(&world.up, &decided).await;
        assert_eq!(script.wait().await.unwrap().code(), Some(code), "{verb}");
    }
}

/// M-6: options for a question are refused with an id, and the other way round. Nothing is opened, because a script
/// must not continue without an approval.
#[tokio::test]
async fn contradictory_arguments_of_a_script_are_refused() {
    let world = World::with_test_clock().await;
    let mut script = holdpoint(&world, &["approve", "Deploy 4.2?", "--wait"]);
    let request = open_request(&world).await;
    let id = request["id"].as_str().unwrap();
    for args in [
        &["approve", id, "--wait"][..],
        &["approve", id, "--to", "@role.ops"],
        &["approve", &id[..20], "--wait"],
        &["approve", "Deploy 4.3?", "--comment", "go"],
        &["approve", &id[5..20]],
    ] {
        let status = holdpoint(&world, args).wait().await.unwrap();
        assert_eq!(status.code(), Some(2), "{args:?}");
    }
    let (_, page) = world.up.get("/requests").await.unwrap();
    assert_eq!(page["items"].as_array().unwrap().len(), 1, "{page}");
    assert_eq!(page["items"][0]["status"], "open");
    let approve = holdpoint(&world, &["approve", id, "--comment", "go"]);
    assert_eq!(
        approve.wait_with_output().await.unwrap().status.code(),
        Some(0)
    );
    assert_eq!(script.wait().await.unwrap().code(), Some(0));
}

/// M-6, S3-R7: a wait without an agent, on the virtual clock, through a restart.
#[tokio::test]
async fn a_wait_ends_at_its_time() {
    let mut world = World::with_test_clock().await;
    let (status, hold) = world
        .up
        .post("/holds", &json!({ "kind": "timer", "wait": "90 days" }))
        .await
        .unwrap();
    assert_eq!((status, &hold["status"]), (201, &json!("open")), "{hold}");
    let path = format!("/holds/{}", hold["id"].as_str().unwrap());
    world.advance("45 days").await;
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    world.advance("44 days").await;
    assert_eq!(world.up.get(&path).await.unwrap().1["status"], "open");
    world.advance("1 day").await;
    let (_, fired) = world.up.get(&format!("{path}?wait=10s")).await.unwrap();
    assert_eq!(fired["outcome"], "fired", "{fired}");

    for wait in ["0s", "91 days", "soon"] {
        let body = json!({ "kind": "timer", "wait": wait });
        let (status, refused) = world.up.post("/holds", &body).await.unwrap();
        assert_eq!(status, 422, "{wait}: {refused}");
    }
}

/// M-6: an undecided request times out, and a request can be withdrawn.
#[tokio::test]
async fn a_hold_times_out_or_is_withdrawn() {
    let world = World::with_test_clock().await;
    let body =
        json!({ "kind": "approval", "question": "Ship?", "timeout": "1h", "on_timeout": "fail" });
    let (_, hold) = world.up.post("/holds", &body).await.unwrap();
    let (_, other) = world.up.post("/holds", &body).await.unwrap();
    let path = |hold: &Value| format!("/holds/{}", hold["id"].as_str().unwrap());
    let (status, _) = world.up.delete(&path(&other)).await.unwrap();
    assert_eq!(status, 200);
    world.advance("1h").await;
    let (_, expired) = world.up.get(&path(&hold)).await.unwrap();
    assert_eq!(
        (&expired["status"], &expired["outcome"]),
        (&json!("expired"), &json!("timeout"))
    );
    let (_, gone) = world.up.get(&path(&other)).await.unwrap();
    assert_eq!(gone["status"], "withdrawn");
}
