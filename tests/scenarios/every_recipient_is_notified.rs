//! Recipients are notified by name and by role, the owners when no one acts, and all of them of the decision (M-5).

use holdpoint_testkit::{Person, until};
use serde_json::{Value, json};

use crate::world::{PATIENCE, World};

/// Waits for a user's newest notification of a type.
async fn until_notified(world: &World, who: &Person, kind: &str) -> Value {
    until(
        PATIENCE,
        &format!("{} is notified of {kind}", who.name),
        async || {
            let (status, page) = who.get(&world.up, "/notifications").await.unwrap();
            assert_eq!(status, 200, "{page}");
            let items = page["items"].as_array().unwrap();
            items.iter().find(|one| one["type"] == kind).cloned()
        },
    )
    .await
    .unwrap()
}

async fn hold(world: &World, body: Value) -> Value {
    let (status, hold) = world.up.post("/holds", &body).await.unwrap();
    assert_eq!(status, 201, "{hold}");
    hold
}

/// M-5, S0-T4: each member of a role has a separate inbox entry under one id.
#[tokio::test]
async fn each_member_of_a_role_is_notified_once() {
    let world = World::with_test_clock().await;
    let ada = Person::join(&world.up, "ada", &["member", "ops"])
        .await
        .unwrap();
    let bob = Person::join(&world.up, "bob", &["member", "ops"])
        .await
        .unwrap();
    let eve = Person::join(&world.up, "eve", &["member"]).await.unwrap();
    let body = json!({
        "kind": "approval", "question": "Deploy <b>4.2</b>?", "to": "@role.ops",
        "priority": "urgent", "timeout": "1d",
    });
    let hold = hold(&world, body).await;
    let ones = until_notified(&world, &ada, "approval_requested").await;
    let others = until_notified(&world, &bob, "approval_requested").await;
    assert_eq!(ones["id"], others["id"], "all copies share one id");
    assert_eq!(ones["message"], "Deploy <b>4.2</b>?");
    assert_eq!(ones["priority"], "urgent");
    assert_eq!(ones["request"], hold["id"]);
    let (_, none) = eve.get(&world.up, "/notifications").await.unwrap();
    assert_eq!(none["items"], json!([]), "only recipients are notified");

    let read = format!("/notifications/{}/read", ones["id"].as_str().unwrap());
    let (status, copy) = ada.post(&world.up, &read, &json!({})).await.unwrap();
    assert_eq!(status, 200, "{copy}");
    assert!(copy["read_at"].is_string());
    let (status, _) = eve.post(&world.up, &read, &json!({})).await.unwrap();
    assert_eq!(status, 404, "not her notification");

    let path = format!("/requests/{}/approve", hold["id"].as_str().unwrap());
    let (status, decided) = bob.post(&world.up, &path, &json!({})).await.unwrap();
    assert_eq!(status, 200, "{decided}");
    until(PATIENCE, "ada sees who was first", async || {
        let one = until_notified(&world, &ada, "approval_requested").await;
        (one["decided"]["by"] == "bob").then_some(())
    })
    .await
    .unwrap();
}

/// S4-R15: without an action within the hour the owners are notified, and the request stays open.
#[tokio::test]
async fn after_an_hour_the_owners_are_notified_and_the_request_stays_open() {
    let world = World::with_test_clock().await;
    Person::join(&world.up, "omar", &["member", "ops"])
        .await
        .unwrap();
    let boss = Person::join(&world.up, "boss", &["owner"]).await.unwrap();
    let body = json!({
        "kind": "approval", "question": "Deploy?", "to": "@user.omar",
        "timeout": "1h", "on_timeout": "escalate",
    });
    let hold = hold(&world, body).await;
    world.advance("1h").await;
    let escalation = until_notified(&world, &boss, "escalation").await;
    assert_eq!(escalation["request"], hold["id"], "{escalation}");
    let path = format!("/requests/{}", hold["id"].as_str().unwrap());
    let (_, shown) = world.up.get(&path).await.unwrap();
    assert_eq!(
        shown["status"], "open",
        "a timeout does not reject: {shown}"
    );
    let (status, decided) = boss
        .post(&world.up, &format!("{path}/approve"), &json!({}))
        .await
        .unwrap();
    assert_eq!(status, 200, "an answer still counts: {decided}");
}

/// S0-T4, S0-R2: a handoff has a type, a title and a link to its task.
#[tokio::test]
async fn a_handoff_links_to_its_task() {
    let world = World::with_test_clock().await;
    let nina = Person::join(&world.up, "nina", &["member"]).await.unwrap();
    let steps = json!([{ "handoff": { "to": "@user.nina", "message": "call him" } }]);
    world.agent("hands", steps).await;
    let contact = json!({ "id": "c-al", "name": "Al" });
    world
        .start_run("hands", json!({ "contact": contact }))
        .await;
    let one = until_notified(&world, &nina, "agent_handoff").await;
    assert_eq!(one["title"], "Agent handoff: Al", "{one}");
    assert_eq!(one["message"], "Agent hands needs your attention for Al");
    let url = one["action_url"].as_str().unwrap();
    assert!(
        url.starts_with("/tasks/") && url.ends_with("?action=handoff"),
        "{url}"
    );
}
