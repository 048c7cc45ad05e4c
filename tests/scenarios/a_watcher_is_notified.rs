//! A user who watches a request, a run or an agent is notified of its events (People, Deliver 7).

use std::process::{Output, Stdio};

use holdpoint_testkit::{holdpoint_binary, until};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::{PATIENCE, World};

/// A user with a token at a terminal.
struct Person<'w> {
    world: &'w World,
    token: String,
}

impl<'w> Person<'w> {
    async fn new(world: &'w World, name: &str) -> Self {
        let email = format!("{name}@acme.example");
        let body = json!({ "name": name, "email": email, "roles": ["member"] });
        assert_eq!(world.up.post("/users", &body).await.unwrap().0, 201);
        let body = json!({ "user": name });
        let (_, made) = world.up.post("/tokens", &body).await.unwrap();
        let token = made["token"].as_str().unwrap().to_owned();
        Self { world, token }
    }

    async fn types(&self, arguments: &[&str]) -> Output {
        Command::new(holdpoint_binary().unwrap())
            .args(arguments)
            .args(["--json", "--url", &self.world.up.url])
            .env("HOLDPOINT_TOKEN", &self.token)
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap()
    }

    async fn reads(&self, arguments: &[&str]) -> Value {
        let output = self.types(arguments).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let url = format!("{}/v1/workspaces/default{path}", self.world.up.url);
        let request = reqwest::Client::new().post(url).bearer_auth(&self.token);
        let response = request.json(&body).send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap())
    }

    /// `type title` of their notifications, oldest first.
    async fn notifications(&self) -> Vec<String> {
        let page = self.reads(&["notifications"]).await;
        let text = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
        let items = page["items"].as_array().unwrap().iter().rev();
        items
            .map(|one| format!("{} {}", text(one, "type"), text(one, "title")))
            .collect()
    }

    async fn until_notified(&self, last: &str) -> Vec<String> {
        until(PATIENCE, last, async || {
            let notifications = self.notifications().await;
            notifications
                .iter()
                .any(|one| one == last)
                .then_some(notifications)
        })
        .await
        .unwrap()
    }
}

/// An agent that asks one question, and the request of one of its runs.
async fn asked(world: &World) -> (String, String) {
    let ask = json!({ "to": "@user.ada", "question": "Tell the customer?", "options": ["yes", "no"], "timeout": "1h" });
    let steps = json!([{ "id": "step-01", "ask": ask }, { "id": "step-02", "wait": "5 days" }]);
    world.agent("teller", steps).await;
    started(world).await
}

async fn started(world: &World) -> (String, String) {
    let run = world.start_run("teller", json!({})).await;
    let request = until(PATIENCE, "it asks", async || {
        let view = world.run(&run).await;
        let id = view["waiting_on"][0]["id"].as_str()?.to_owned();
        let (status, _) = world.up.get(&format!("/requests/{id}")).await.unwrap();
        (status == 200).then_some(id)
    });
    let request = request.await.unwrap();
    (run, request)
}

#[tokio::test]
async fn a_watcher_is_notified() {
    let world = World::with_test_clock().await;
    let (ada, bob, cleo) = (
        Person::new(&world, "ada").await,
        Person::new(&world, "bob").await,
        Person::new(&world, "cleo").await,
    );
    let (run, request) = asked(&world).await;
    // The watches begin after this question, also for the notification service.
    ada.until_notified("input_requested Tell the customer?")
        .await;

    // Bob watches the agent, cleo this request and its run, and ada a run that asks her.
    for (person, kind, id) in [
        (&bob, "agent", "teller"),
        (&cleo, "request", &request),
        (&cleo, "run", &run),
        (&ada, "run", &run),
    ] {
        let watch = person.reads(&["follow", kind, id]).await;
        assert_eq!(watch[kind], id, "{watch}");
    }
    let (status, again) = cleo.post("/watches", json!({ "run": run })).await;
    assert_eq!((status, &again["id"]), (200, &json!(run)));
    let nowhere = json!({ "run": "run_01920000000070008000000000000001" });
    assert_eq!(cleo.post("/watches", nowhere).await.0, 404);
    let two = json!({ "run": run, "agent": "teller" });
    assert_eq!(cleo.post("/watches", two).await.0, 422);
    let following = cleo.reads(&["following"]).await;
    assert_eq!(following["items"].as_array().unwrap().len(), 2);

    // An answer notifies each watcher once without its text, and not the person who answered.
    let path = format!("/requests/{request}/respond");
    assert_eq!(ada.post(&path, json!({ "answer": "yes" })).await.0, 200);
    let end = "custom Answered: Tell the customer?";
    bob.until_notified(end).await;
    assert_eq!(cleo.until_notified(end).await, [end]);
    let page = cleo.reads(&["notifications"]).await;
    let shown = &page["items"][0];
    assert_eq!(shown["message"], "Answered by ada.");
    assert_eq!(shown["priority"], "normal");
    assert_eq!(shown["action_url"], format!("/requests/{request}"));

    // Another run of the agent: only the watcher of the agent is notified of its question and its timeout.
    assert!(cleo.types(&["unfollow", &run]).await.status.success());
    let output = cleo.types(&["unfollow", &run]).await;
    assert_eq!(
        output.status.code(),
        Some(3),
        "the watch is gone: {output:?}"
    );
    started(&world).await;
    let asked = "custom Asked: Tell the customer?";
    bob.until_notified(asked).await;
    world.advance("2h").await;
    let late = "custom Time was up: Tell the customer?";
    bob.until_notified(late).await;
    let over = "workflow_complete Run of teller failed";
    let mut notifications = bob.until_notified(over).await;
    notifications.sort();
    assert_eq!(notifications, [end, asked, late, over]);
    assert_eq!(cleo.notifications().await, [end]);
    let notifications = ada.notifications().await;
    let own = "input_requested Tell the customer?";
    assert_eq!(
        notifications,
        [own, own],
        "her questions, and not her own answers"
    );
    let path = format!("/requests/{request}/deliveries");
    let (_, left) = world.up.get(&path).await.unwrap();
    let people = left["items"].as_array().unwrap().iter();
    let people: Vec<_> = people.map(|one| &one["person"]).collect();
    assert_eq!(people, ["ada"], "watchers get no mail");
}
