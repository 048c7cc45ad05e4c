//! One mail a day lists open requests that were not mailed on their own (People, deliverable 7).

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_testkit::{Person, until};
use serde_json::{Value, json};

use crate::world::{PATIENCE, World};

async fn ask(world: &World, title: &str, priority: &str) -> String {
    let body = json!({
        "kind": "approval", "title": title, "question": title, "to": "@user.ada",
        "priority": priority, "timeout": "30d", "ladder": [{ "after": "29 days", "do": "notify" }],
    });
    let (status, hold) = world.up.post("/holds", &body).await.unwrap();
    assert_eq!(status, 201, "{hold}");
    hold["id"].as_str().unwrap().to_owned()
}

async fn mails(world: &World, ada: &Person) -> Vec<Value> {
    let (status, page) = ada.get(&world.up, "/mails").await.unwrap();
    assert_eq!(status, 200, "{page}");
    page["items"].as_array().unwrap().clone()
}

async fn until_mailed(world: &World, ada: &Person, count: usize) -> Value {
    until(PATIENCE, "ada is mailed", async || {
        let all = mails(world, ada).await;
        (all.len() == count).then(|| all.last().cloned()).flatten()
    })
    .await
    .unwrap()
}

/// More notifications than a digest names. They are newer than the request.
async fn new_leads(world: &World, ada: &Person) {
    for number in 0..25 {
        let path = format!("/contacts/lead-{number}");
        let (status, put) = world
            .up
            .put(&path, &json!({ "owner": "ada" }))
            .await
            .unwrap();
        assert_eq!(status, 200, "{put}");
    }
    let shown = until(PATIENCE, "ada is notified", async || {
        let (_, page) = ada.get(&world.up, "/notifications").await.ok()?;
        let items = page["items"].as_array()?.iter();
        let leads = items.filter(|one| one["type"] == "new_lead");
        (leads.count() == 25).then_some(())
    });
    shown.await.unwrap();
}

/// It comes once a day, also across a kill. It omits requests that are decided or were mailed before, and no mail
/// comes without an open request.
#[tokio::test]
async fn a_digest_lists_open_requests() {
    let mut world = World::with_test_clock().await;
    let ada = Person::join(&world.up, "ada", &["member"]).await.unwrap();
    let path = "/v1/clock";
    let (_, clock) = world
        .up
        .call(reqwest::Method::GET, path, None)
        .await
        .unwrap();
    let now: DateTime<Utc> = clock["now"].as_str().unwrap().parse().unwrap();
    let in_two_hours = (now + TimeDelta::hours(2)).format("%H:%M").to_string();
    let said = json!({
        "channels": { "email": { "from": "high" } },
        "digest": { "at": in_two_hours },
    });
    let (status, put) = ada.put(&world.up, "/preferences", &said).await.unwrap();
    assert_eq!(status, 200, "{put}");

    let open = ask(&world, "Paint <b>it</b> blue?", "normal").await;
    let decided = ask(&world, "Decided?", "low").await;
    ask(&world, "Pressing?", "high").await;
    let first = until_mailed(&world, &ada, 1).await;
    assert_eq!(first["subject"], "Pressing?");
    let approve = format!("/requests/{decided}/approve");
    let (status, done) = ada.post(&world.up, &approve, &json!({})).await.unwrap();
    assert_eq!(status, 200, "{done}");

    new_leads(&world, &ada).await;
    world.advance("2h").await;
    let digest = until_mailed(&world, &ada, 2).await;
    let subject = "1 request waits for you; 25 notifications are new";
    assert_eq!(digest["subject"], subject, "{digest}");
    let body = digest["body"].as_str().unwrap();
    let newer = body.find("New lead").unwrap();
    let request = body.find("Paint <b>it</b> blue?");
    assert!(request.is_some_and(|place| place < newer), "{body}");
    assert!(body.contains(&format!("/requests/{open}")), "{body}");
    assert!(
        !body.contains("Decided?") && !body.contains("Pressing?"),
        "{body}"
    );

    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    world.advance("12h").await;
    assert_eq!(mails(&world, &ada).await.len(), 2, "once a day");
    world.advance("12h").await;
    until_mailed(&world, &ada, 3).await;

    let approve = format!("/requests/{open}/approve");
    let (status, done) = ada.post(&world.up, &approve, &json!({})).await.unwrap();
    assert_eq!(status, 200, "{done}");
    world.advance("24h").await;
    ask(&world, "Anything?", "high").await;
    until_mailed(&world, &ada, 4).await;
    let subjects = mails(&world, &ada).await;
    let digests = subjects.iter().filter(|mail| {
        let subject = mail["subject"].as_str().unwrap();
        subject.contains("for you")
    });
    assert_eq!(digests.count(), 2, "no digest without open requests");
}
