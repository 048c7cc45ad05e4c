//! `create_task` creates a to-do for a person, and the run continues (API, Tools).

use holdpoint_testkit::Person;
use serde_json::{Value, json};

use crate::world::{World, until_applied};

/// The only task.
async fn task(world: &World) -> Value {
    let (status, page) = world.up.get("/requests").await.unwrap();
    assert_eq!(status, 200, "{page}");
    assert_eq!(page["items"].as_array().unwrap().len(), 1, "{page}");
    page["items"][0].clone()
}

/// API, Tools: the step ends with the id of the task and does not wait for it. The assignee gets a mail.
#[tokio::test]
async fn a_task_waits_for_a_person_and_the_run_continues() {
    let world = World::with_test_clock().await;
    let roles = ["member", "sales"];
    let nina = Person::join(&world.up, "nina", &roles).await.unwrap();
    let args = json!({
        "title": "Send Zoe the contract", "description": "She agreed by telephone.",
        "assignee": "@user.nina", "due": "2 days", "priority": "high", "tags": ["contract"],
    });
    let steps = json!([
        { "tool": "create_task", "args": args },
        { "tool": "log", "args": { "message": "{{ $step-01.task_id }}" } },
    ]);
    world.agent("closer", steps).await;
    let body = json!({ "contact": { "id": "zoe" } });
    let id = world.start_run("closer", body).await;
    world.settle().await;
    let run = world.until_status(&id, "completed").await;
    let task = task(&world).await;
    let made = &run["steps"][0]["response"]["data"];
    assert_eq!(made["task_id"], task["id"], "{run}");
    assert_eq!(run["steps"][1]["response"]["data"]["message"], task["id"]);
    assert_eq!(task["status"], "offered");
    assert_eq!(task["to"], json!(["@user.nina"]));
    assert_eq!(task["title"], "Send Zoe the contract");
    assert_eq!(task["question"], "She agreed by telephone.");
    assert_eq!(
        (&task["priority"], &task["agent"]),
        (&json!("high"), &json!("closer"))
    );
    assert_eq!(task["task"]["tags"], json!(["contract"]));
    assert_eq!(task["context"]["contact"]["id"], "zoe");
    assert_eq!(task["context"]["run"], json!(id));
    assert_eq!(made["due"], task["deadline"]);
    world.settle().await;
    let (_, page) = nina.get(&world.up, "/notifications").await.unwrap();
    let page = &page["items"][0];
    assert_eq!(
        (&page["type"], &page["title"]),
        (&json!("task_assigned"), &json!("Send Zoe the contract"))
    );
    let (_, mails) = nina.get(&world.up, "/mails").await.unwrap();
    let mail = &mails["items"][0];
    assert_eq!(mail["subject"], "Send Zoe the contract", "{mails}");
    let body = mail["body"].as_str().unwrap();
    for words in [
        "She agreed by telephone.",
        "Agent closer asks.",
        "Contact: id zoe",
    ] {
        assert!(body.contains(words), "{words}: {body}");
    }

    is_due(&world, &nina).await;
    let path = format!("/requests/{}/complete", task["id"].as_str().unwrap());
    let body = json!({ "notes": "Sent.", "disposition": "finish" });
    let (status, done) = world.up.post(&path, &body).await.unwrap();
    assert_eq!(status, 200, "{done}");
    until_applied(&world.up, &done).await;
}

/// Mend C-14: an overdue task stays open, and its assignee and the owners are notified.
async fn is_due(world: &World, nina: &Person) {
    world.advance("2 days").await;
    let (_, page) = world.up.get("/notifications").await.unwrap();
    let titles: Vec<_> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["title"])
        .collect();
    assert!(
        titles.contains(&&json!("Due: Send Zoe the contract")),
        "{page}"
    );
    let (_, page) = nina.get(&world.up, "/notifications").await.unwrap();
    let due = &page["items"][0];
    assert_eq!(
        (&due["type"], &due["title"]),
        (&json!("task_due"), &json!("Due: Send Zoe the contract")),
        "{page}"
    );
}

/// API, Tools: a task for an unknown user fails its step with an error.
#[tokio::test]
async fn a_task_without_an_assignee_fails_its_step() {
    let world = World::with_test_clock().await;
    let step = json!({ "tool": "create_task", "args": { "title": "Call", "assignee": "ghost" } });
    world.agent("closer", json!([step])).await;
    let id = world.start_run("closer", json!({})).await;
    world.settle().await;
    let run = world.until_status(&id, "failed").await;
    let message = run["failure"]["message"].as_str().unwrap();
    assert!(
        message.contains("User ghost not found or inactive"),
        "{message}"
    );
    let (_, page) = world.up.get("/requests").await.unwrap();
    assert_eq!(page["items"], json!([]));
}
