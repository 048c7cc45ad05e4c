//! The requester, or the user who started the run, is notified of the end of a request. Users are not notified of
//! their own actions (People, Deliver 7).

use std::process::Stdio;

use holdpoint_testkit::{holdpoint_binary, until};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::{PATIENCE, World};

/// A user with a token.
struct Person<'w> {
    world: &'w World,
    token: String,
}

impl<'w> Person<'w> {
    async fn new(world: &'w World, name: &str, role: &str) -> Self {
        let body = json!({ "name": name, "roles": [role] });
        assert_eq!(world.up.post("/users", &body).await.unwrap().0, 201);
        let body = json!({ "user": name });
        let (_, made) = world.up.post("/tokens", &body).await.unwrap();
        let token = made["token"].as_str().unwrap().to_owned();
        Self { world, token }
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let url = format!("{}/v1/workspaces/default{path}", self.world.up.url);
        let request = reqwest::Client::new().post(url).bearer_auth(&self.token);
        let response = request.json(&body).send().await.unwrap();
        assert!(
            response.status().is_success(),
            "{path}: {}",
            response.status()
        );
        response.json().await.unwrap()
    }

    /// Titles and messages of their notifications from the command line, oldest first.
    async fn notifications(&self) -> Vec<(String, String)> {
        let output = Command::new(holdpoint_binary().unwrap())
            .args(["notifications", "--json", "--url", &self.world.up.url])
            .env("HOLDPOINT_TOKEN", &self.token)
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let page: Value = serde_json::from_slice(&output.stdout).unwrap();
        let text = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
        let items = page["items"].as_array().unwrap().iter().rev();
        items
            .map(|one| (text(one, "title"), text(one, "message")))
            .collect()
    }

    async fn until_notified(&self, title: &str) -> Vec<(String, String)> {
        until(PATIENCE, title, async || {
            let notifications = self.notifications().await;
            notifications
                .iter()
                .any(|(one, _)| one == title)
                .then_some(notifications)
        })
        .await
        .unwrap()
    }
}

/// A standalone hold is decided by another user, by time, and by the requester.
#[tokio::test]
async fn the_requester_of_a_hold_is_notified() {
    let world = World::with_test_clock().await;
    let cleo = Person::new(&world, "cleo", "member").await;
    let ada = Person::new(&world, "ada", "member").await;
    let asks = async |question: &str, to: &str| {
        let body = json!({ "kind": "approval", "question": question, "to": to, "timeout": "2h", "on_timeout": "fail" });
        let hold = cleo.post("/holds", body).await;
        hold["id"].as_str().unwrap().to_owned()
    };
    let id = asks("Deploy 4.2?", "@user.ada").await;
    let reason = json!({ "reason": "Not before Monday" });
    ada.post(&format!("/requests/{id}/reject"), reason).await;
    let notifications = cleo.until_notified("Rejected: Deploy 4.2?").await;
    assert_eq!(notifications[0].1, "Rejected by ada: Not before Monday");
    let late = asks("Deploy 4.3?", "@user.ada").await;
    world.advance("2h").await;
    cleo.until_notified("Time was up: Deploy 4.3?").await;
    // Users are not notified of their own decision. The later notification proves that none was still to come.
    let own = asks("My own?", "@user.cleo").await;
    cleo.post(&format!("/requests/{own}/approve"), json!({}))
        .await;
    let id = asks("Deploy 4.4?", "@user.ada").await;
    ada.post(&format!("/requests/{id}/approve"), json!({}))
        .await;
    let notifications = cleo.until_notified("Approved: Deploy 4.4?").await;
    assert!(
        notifications
            .iter()
            .all(|(title, _)| title != "Approved: My own?"),
        "{notifications:?}"
    );
    assert_eq!(
        notifications.len(),
        4,
        "three ends and one question: {notifications:?}"
    );
    let (_, request) = world.up.get(&format!("/requests/{late}")).await.unwrap();
    assert_eq!(request["outcome"], "timeout");
    let notifications = ada.notifications().await;
    assert!(
        notifications
            .iter()
            .all(|(title, _)| title.starts_with("Deploy 4.")),
        "{notifications:?}"
    );
}

/// The user who started a run is notified of the end of its question. The operator who takes over is not.
#[tokio::test]
async fn the_user_who_started_the_run_is_notified() {
    let world = World::with_test_clock().await;
    let cleo = Person::new(&world, "cleo", "member").await;
    let nina = Person::new(&world, "nina", "operator").await;
    let ask = json!({ "to": "@user.nina", "question": "Tell the customer?", "options": ["yes", "no"], "timeout": "1h" });
    let steps = json!([{ "id": "step-01", "ask": ask }, { "id": "step-02", "wait": "5 days" }]);
    world.agent("teller", steps).await;
    let run = cleo.post("/agents/teller/runs", json!({})).await;
    let run = run["id"].as_str().unwrap();
    nina.until_notified("Tell the customer?").await;
    let (_, view) = world.up.get(&format!("/runs/{run}")).await.unwrap();
    let id = view["waiting_on"][0]["id"].as_str().unwrap();
    nina.post(
        &format!("/requests/{id}/respond"),
        json!({ "answer": "yes" }),
    )
    .await;
    let notifications = cleo.until_notified("Answered: Tell the customer?").await;
    assert_eq!(
        notifications,
        [(
            "Answered: Tell the customer?".to_owned(),
            "Answered by nina: yes".to_owned()
        )]
    );

    nina.post(&format!("/runs/{run}/take-over"), json!({}))
        .await;
    let (_, view) = world.up.get(&format!("/runs/{run}")).await.unwrap();
    let holds = view["waiting_on"].as_array().unwrap();
    let handoff = holds.iter().find(|hold| hold["kind"] == "handoff");
    let id = handoff.unwrap()["id"].as_str().unwrap().to_owned();
    until(PATIENCE, "the request is stored", async || {
        let (status, _) = world.up.get(&format!("/requests/{id}")).await.unwrap();
        (status == 200).then_some(())
    })
    .await
    .unwrap();
    let body = json!({ "outcome_type": "resolved", "notes": "Called", "disposition": "finish" });
    nina.post(&format!("/requests/{id}/complete"), body).await;
    until(PATIENCE, "cleo is notified of that, too", async || {
        (cleo.notifications().await.len() == 2).then_some(())
    })
    .await
    .unwrap();
    let notifications = nina.notifications().await;
    assert_eq!(
        notifications.len(),
        1,
        "nina took it over herself: {notifications:?}"
    );
}
