//! Whoever asked, or started the run that asks, is told how it ended; nobody is told of what they did
//! themselves (People, Deliver 7).

use std::process::Stdio;

use holdpoint_testkit::{holdpoint_binary, until};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::{PATIENCE, World};

/// Somebody with a token of their own.
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

    /// Titles and sentences of what they were told, the oldest first, by the command line.
    async fn told(&self) -> Vec<(String, String)> {
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

    async fn until_told(&self, title: &str) -> Vec<(String, String)> {
        until(PATIENCE, title, async || {
            let told = self.told().await;
            told.iter().any(|(one, _)| one == title).then_some(told)
        })
        .await
        .unwrap()
    }
}

/// A hold that stands alone: decided by somebody else, by time, and by whoever asked.
#[tokio::test]
async fn whoever_asked_for_a_hold_is_told() {
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
    let told = cleo.until_told("Rejected: Deploy 4.2?").await;
    assert_eq!(told[0].1, "Rejected by ada: Not before Monday");
    let late = asks("Deploy 4.3?", "@user.ada").await;
    world.advance("2h").await;
    cleo.until_told("Time was up: Deploy 4.3?").await;
    // What one ends oneself is no news; what follows comes later, so nothing is on its way.
    let own = asks("My own?", "@user.cleo").await;
    cleo.post(&format!("/requests/{own}/approve"), json!({}))
        .await;
    let id = asks("Deploy 4.4?", "@user.ada").await;
    ada.post(&format!("/requests/{id}/approve"), json!({}))
        .await;
    let told = cleo.until_told("Approved: Deploy 4.4?").await;
    assert!(
        told.iter().all(|(title, _)| title != "Approved: My own?"),
        "{told:?}"
    );
    assert_eq!(
        told.len(),
        4,
        "three ends, and what she was asked: {told:?}"
    );
    let (_, request) = world.up.get(&format!("/requests/{late}")).await.unwrap();
    assert_eq!(request["outcome"], "timeout");
    let told = ada.told().await;
    assert!(
        told.iter().all(|(title, _)| title.starts_with("Deploy 4.")),
        "{told:?}"
    );
}

/// A run: whoever started it is told how its question ended, and the operator who takes over is not told so.
#[tokio::test]
async fn whoever_started_the_run_is_told() {
    let world = World::with_test_clock().await;
    let cleo = Person::new(&world, "cleo", "member").await;
    let nina = Person::new(&world, "nina", "operator").await;
    let ask = json!({ "to": "@user.nina", "question": "Tell the customer?", "options": ["yes", "no"], "timeout": "1h" });
    let steps = json!([{ "id": "step-01", "ask": ask }, { "id": "step-02", "wait": "5 days" }]);
    world.agent("teller", steps).await;
    let run = cleo.post("/agents/teller/runs", json!({})).await;
    let run = run["id"].as_str().unwrap();
    nina.until_told("Tell the customer?").await;
    let (_, view) = world.up.get(&format!("/runs/{run}")).await.unwrap();
    let id = view["waiting_on"][0]["id"].as_str().unwrap();
    nina.post(
        &format!("/requests/{id}/respond"),
        json!({ "answer": "yes" }),
    )
    .await;
    let told = cleo.until_told("Answered: Tell the customer?").await;
    assert_eq!(
        told,
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
    until(PATIENCE, "its owner has heard of it", async || {
        let (status, _) = world.up.get(&format!("/requests/{id}")).await.unwrap();
        (status == 200).then_some(())
    })
    .await
    .unwrap();
    let body = json!({ "outcome_type": "resolved", "notes": "Called", "disposition": "finish" });
    nina.post(&format!("/requests/{id}/complete"), body).await;
    until(PATIENCE, "cleo is told of that, too", async || {
        (cleo.told().await.len() == 2).then_some(())
    })
    .await
    .unwrap();
    let told = nina.told().await;
    assert_eq!(told.len(), 1, "nina took it over herself: {told:?}");
}
