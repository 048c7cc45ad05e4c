//! The recipient of a request has one notification of it, which answers it (M-5, S0-T4). A repeated event adds none.

use holdpoint_bus::Bus;
use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::message::{Envelope, Reply};
use holdpoint_contracts::notification::{
    EventRecorded, RecordRequestEvents, RequestEvent, RequestEventKind,
};
use holdpoint_ids::NotificationId;
use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::world::{PATIENCE, World, until_applied};

/// Reports again that a request was opened.
async fn record_again(world: &World, id: &str) -> Vec<Reply<EventRecorded>> {
    let (_, request) = world.up.get(&format!("/requests/{id}")).await.unwrap();
    let request: RequestView = serde_json::from_value(request).unwrap();
    let event = RequestEvent {
        id: request.id,
        rev: request.version,
        kind: RequestEventKind::Opened,
        by: request.decided_by.clone(),
        at: request.decided_at.unwrap_or(request.created_at),
        to: request.to.clone(),
        request: Box::new(request),
    };
    let facts = RecordRequestEvents { facts: vec![event] };
    let bus = Bus::connect(&world.up.nats_url, "test").await.unwrap();
    let workspace = world.up.workspace.parse().unwrap();
    let command = Envelope::of_service("handoff", facts);
    bus.ask(&workspace, &command).await.unwrap()
}

async fn notifications(world: &World, query: &str) -> Vec<Value> {
    let path = format!("/notifications{query}");
    let (status, page) = world.up.get(&path).await.unwrap();
    assert_eq!(status, 200, "{page}");
    page["items"].as_array().unwrap().clone()
}

/// M-5, S0-T4: a notification comes once, is read, answers its request, and shows the decision.
#[tokio::test]
async fn a_question_is_answered_from_its_notification() {
    let mut world = World::with_test_clock().await;
    let body = json!({ "kind": "input", "question": "Ship it?", "options": ["yes", "no"] });
    let (_, hold) = world.up.post("/holds", &body).await.unwrap();
    let id = hold["id"].as_str().unwrap().to_owned();
    let notification = until(PATIENCE, "the owner is notified", async || {
        notifications(&world, "?unread=true").await.pop()
    })
    .await
    .unwrap();
    let known = NotificationId::opened(id.parse().unwrap()).to_string();
    assert_eq!(notification["id"], known);
    assert_eq!(notification["type"], "input_requested");
    assert_eq!(notification["message"], "Ship it?");
    assert_eq!(notification["request"], id);

    // It survives a kill, and a repeated event adds no notification.
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    let again = record_again(&world, &id).await;
    assert_eq!(again, [Reply::Ok(EventRecorded::Known)]);
    assert_eq!(notifications(&world, "").await.len(), 1);

    let path = format!("/notifications/{known}");
    let (status, read) = world
        .up
        .post(&format!("{path}/read"), &json!({}))
        .await
        .unwrap();
    assert_eq!(status, 200, "{read}");
    assert!(read["read_at"].is_string(), "{read}");
    assert!(notifications(&world, "?unread=true").await.is_empty());

    let answer = json!({ "response": "maybe" });
    let respond = format!("{path}/respond");
    let (status, refused) = world.up.post(&respond, &answer).await.unwrap();
    assert_eq!((status, &refused["code"]), (422, &json!("invalid_answer")));
    let answer = json!({ "response": "yes" });
    let (status, decided) = world.up.post(&respond, &answer).await.unwrap();
    assert_eq!(status, 200, "{decided}");
    until_applied(&world.up, &decided).await;
    let ended = until(PATIENCE, "the copy says how it ended", async || {
        let (_, ended) = world.up.get(&path).await.unwrap();
        ended["decided"].is_object().then_some(ended)
    })
    .await
    .unwrap();
    assert_eq!(ended["decided"]["by"], "owner", "{ended}");
    assert_eq!(ended["decided"]["outcome"], "answered", "{ended}");
}

/// People, "Must", bad input: an unknown notification is not found.
#[tokio::test]
async fn notifications_of_others_are_not_found() {
    let world = World::with_test_clock().await;
    let unknown = "note_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1";
    for (path, status) in [
        (format!("/notifications/{unknown}"), 404),
        ("/notifications/nonsense".to_owned(), 404),
        ("/notifications?unread=perhaps".to_owned(), 400),
        ("/notifications?cursor=nonsense".to_owned(), 400),
        ("/notifications?person=ada".to_owned(), 400),
    ] {
        assert_eq!(world.up.get(&path).await.unwrap().0, status, "{path}");
    }
    for verb in ["read", "respond"] {
        let path = format!("/notifications/{unknown}/{verb}");
        let body = json!({ "response": "yes" });
        assert_eq!(world.up.post(&path, &body).await.unwrap().0, 404, "{verb}");
    }
}
