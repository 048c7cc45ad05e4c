//! Quiet hours delay the mails of a user (S4-R15; People, deliverable 7).

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_testkit::{Person, until};
use serde_json::{Value, json};

use crate::world::{PATIENCE, World};

/// Asks ada; returns the request's id.
async fn ask(world: &World, question: &str, priority: &str) -> String {
    let hold = json!({
        "kind": "approval", "question": question, "to": "@user.ada", "priority": priority,
    });
    let (status, hold) = world.up.post("/holds", &hold).await.unwrap();
    assert_eq!(status, 201, "{hold}");
    hold["id"].as_str().unwrap().to_owned()
}

async fn deliveries(world: &World, request: &str) -> Vec<Value> {
    let path = format!("/requests/{request}/deliveries");
    let (status, page) = world.up.get(&path).await.unwrap();
    assert_eq!(status, 200, "{page}");
    page["items"].as_array().unwrap().clone()
}

/// The one mail of a request, once it is in a state.
async fn until_mail_is(world: &World, request: &str, state: &str) -> Value {
    until(PATIENCE, &format!("the mail is {state}"), async || {
        let mail = deliveries(world, request).await.pop()?;
        (mail["state"] == state).then_some(mail)
    })
    .await
    .unwrap()
}

/// The subjects of ada's mails.
async fn subjects(world: &World, ada: &Person) -> Vec<String> {
    let (status, page) = ada.get(&world.up, "/mails").await.unwrap();
    assert_eq!(status, 200, "{page}");
    let mails = page["items"].as_array().unwrap().iter();
    mails
        .map(|mail| mail["subject"].as_str().unwrap().to_owned())
        .collect()
}

async fn now(world: &World) -> DateTime<Utc> {
    let path = "/v1/clock";
    let (_, clock) = world
        .up
        .call(reqwest::Method::GET, path, None)
        .await
        .unwrap();
    clock["now"].as_str().unwrap().parse().unwrap()
}

/// Quiet from an hour ago until two hours from now, by UTC; ends on a whole minute.
async fn quiet(world: &World) -> (Value, String) {
    let now = now(world).await;
    let end = now + TimeDelta::hours(2);
    let from = (now - TimeDelta::hours(1)).format("%H:%M").to_string();
    let said = json!({
        "time_zone": "UTC",
        "quiet_hours": { "from": from, "to": end.format("%H:%M").to_string() },
    });
    (said, end.format("%Y-%m-%dT%H:%M:00.000Z").to_string())
}

/// S4-R15: a mail waits for the end of the quiet hours and is dropped if its request is decided by then. An urgent mail
/// leaves at once.
#[tokio::test]
async fn quiet_hours_delay_mails() {
    let world = World::with_test_clock().await;
    let ada = Person::join(&world.up, "ada", &["member"]).await.unwrap();
    let (said, end) = quiet(&world).await;
    let (status, put) = ada.put(&world.up, "/preferences", &said).await.unwrap();
    assert_eq!(status, 200, "{put}");
    let (_, shown) = ada.get(&world.up, "/preferences").await.unwrap();
    assert_eq!(shown, put);
    assert_eq!(
        shown["channels"]["email"],
        json!({ "enabled": true, "from": "low" })
    );

    let later = ask(&world, "Later?", "high").await;
    let decided = ask(&world, "Decided?", "normal").await;
    let held = until_mail_is(&world, &later, "pending").await;
    assert_eq!(
        (&held["next_at"], &held["attempts"]),
        (&json!(end), &json!(0))
    );
    until_mail_is(&world, &decided, "pending").await;
    let urgent = ask(&world, "Now!", "urgent").await;
    until_mail_is(&world, &urgent, "sent").await;
    assert_eq!(subjects(&world, &ada).await, ["Now!"]);
    let (_, notifications) = ada.get(&world.up, "/notifications").await.unwrap();
    let notifications = notifications["items"].as_array().unwrap().len();
    assert_eq!(notifications, 3, "in the application at once");

    for request in [&urgent, &decided] {
        let approve = format!("/requests/{request}/approve");
        let (status, done) = ada.post(&world.up, &approve, &json!({})).await.unwrap();
        assert_eq!(status, 200, "{done}");
    }
    world.advance("1h").await;
    assert_eq!(subjects(&world, &ada).await, ["Now!"]);
    world.advance("1h").await;
    let sent = until_mail_is(&world, &later, "sent").await;
    assert!(sent["receipt"].is_string(), "{sent}");
    let never = until_mail_is(&world, &decided, "dropped").await;
    let why = "No action was needed any more.";
    assert_eq!(never["last_error"], why);
    let mailed = subjects(&world, &ada).await;
    assert!(mailed.contains(&"Later?".to_owned()), "{mailed:?}");
    assert!(mailed.iter().all(|about| about != "Decided?"), "{mailed:?}");
}

/// Changed preferences also apply to waiting mails, which leave at once or not at all.
#[tokio::test]
async fn changed_preferences_apply_to_waiting_mails() {
    let world = World::with_test_clock().await;
    let ada = Person::join(&world.up, "ada", &["member"]).await.unwrap();
    let (said, _) = quiet(&world).await;
    let say = async |said: &Value| {
        let (status, put) = ada.put(&world.up, "/preferences", said).await.unwrap();
        assert_eq!(status, 200, "{put}");
    };
    say(&said).await;
    let first = ask(&world, "First?", "high").await;
    until_mail_is(&world, &first, "pending").await;
    say(&json!({})).await;
    until_mail_is(&world, &first, "sent").await;

    say(&said).await;
    let second = ask(&world, "Second?", "normal").await;
    until_mail_is(&world, &second, "pending").await;
    say(&json!({ "channels": { "email": { "from": "high" } } })).await;
    until_mail_is(&world, &second, "dropped").await;
    let third = ask(&world, "Third?", "normal").await;
    let fourth = ask(&world, "Fourth?", "high").await;
    until_mail_is(&world, &fourth, "sent").await;
    assert!(deliveries(&world, &third).await.is_empty(), "not wanted");
    assert_eq!(subjects(&world, &ada).await, ["First?", "Fourth?"]);
}

/// Invalid preferences are refused with a pointer and the fix, and no other user sees them.
#[tokio::test]
async fn invalid_preferences_are_refused() {
    let world = World::with_test_clock().await;
    let ada = Person::join(&world.up, "ada", &["viewer"]).await.unwrap();
    for (said, pointer) in [
        (json!({ "time_zone": "Berlin/Europe" }), "/time_zone"),
        (
            json!({ "quiet_hours": { "from": "22", "to": "07:00" } }),
            "/quiet_hours/from",
        ),
        (
            json!({ "quiet_hours": { "from": "22:00", "to": "22:00" } }),
            "/quiet_hours/to",
        ),
        (
            json!({ "quiet_hours": { "from": "22:00", "to": "07:00", "days": ["someday"] } }),
            "/quiet_hours/days/0",
        ),
        (
            json!({ "channels": { "email": { "from": "loud" } } }),
            "/channels/email/from",
        ),
    ] {
        let (status, refused) = ada.put(&world.up, "/preferences", &said).await.unwrap();
        assert_eq!(
            (status, &refused["code"]),
            (422, &json!("invalid_body")),
            "{refused}"
        );
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
    }
    let mine = json!({ "time_zone": "Asia/Kolkata" });
    assert_eq!(
        ada.put(&world.up, "/preferences", &mine).await.unwrap().0,
        200
    );
    let (_, owners) = world.up.get("/preferences").await.unwrap();
    assert_eq!(owners["time_zone"], "UTC");
}
