//! Whoever is disabled has commanded for the last time, also what still waits on the bus (DESIGN, read
//! copies).

use std::time::Duration;

use holdpoint_bus::{Bus, StreamUse};
use holdpoint_testkit::until;
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fleet::{Api, Ground};
use crate::world::{PATIENCE, log};

const SERVICE: &str = "executor";

/// Somebody who may start runs.
async fn join(owner: &Api, name: &str) -> Api {
    let user = json!({ "name": name, "roles": ["member"] });
    let (status, body) = owner.post("/users", &user).await;
    assert_eq!(status, 201, "{body}");
    let (status, made) = owner.post("/tokens", &json!({ "user": name })).await;
    assert_eq!(status, 201, "{made}");
    owner.with_token(made["token"].as_str().unwrap())
}

/// In this order: two commands are accepted and put on the bus while the executor is away, one of the two
/// who gave them is disabled, and the executor is started.
#[tokio::test]
async fn a_command_that_waited_is_not_carried_out() {
    let ground = Ground::on_sqlite().await;
    let executor = ground.serve(SERVICE, &[]).await;
    let _handoff = ground.serve("handoff", &[]).await;
    let args = ["--http", "127.0.0.1:0", "--owner-token"];
    let gateway = ground.serve("gateway", &args).await;
    let owner = Api::of(&gateway);
    let agent = json!({ "agent": "a", "steps": [log("x")] });
    assert_eq!(owner.post("/agents", &agent).await.0, 201);
    let (ada, bob) = (join(&owner, "ada").await, join(&owner, "bob").await);
    let bus = Bus::connect(&ground.nats.url, "test").await.unwrap();
    let waiting = async || bus.stored(StreamUse::Commands(SERVICE)).await.unwrap();
    until(PATIENCE, "nothing waits", async || {
        (waiting().await == 0).then_some(())
    })
    .await
    .unwrap();
    executor.signal(Signal::KILL);
    let mut executor = executor;
    assert!(executor.dies(PATIENCE).await);

    for (who, name) in [(&ada, "ada"), (&bob, "bob")] {
        let run = json!({ "labels": { "by": name } });
        let (status, accepted) = who.post("/agents/a/runs", &run).await;
        assert_eq!(status, 202, "{accepted}");
    }
    until(PATIENCE, "both wait on the bus", async || {
        (waiting().await == 2).then_some(())
    })
    .await
    .unwrap();
    let (status, gone) = owner.call(Method::DELETE, "/users/ada", &Value::Null).await;
    assert!(status < 300, "{gone}");

    let executor = ground.serve(SERVICE, &[]).await;
    until(PATIENCE, "both are taken", async || {
        (waiting().await == 0).then_some(())
    })
    .await
    .unwrap();
    let runs = until(PATIENCE, "bob's run", async || {
        let page = owner.get("/runs").await;
        let is_there = page["items"].as_array().is_some_and(|all| !all.is_empty());
        is_there.then_some(page)
    })
    .await
    .unwrap();
    let by: Vec<_> = runs["items"].as_array().unwrap().iter().collect();
    assert_eq!(by.len(), 1, "{runs}");
    assert_eq!(by[0]["labels"]["by"], "bob", "{runs}");

    // While it runs, too: a copy that is a moment behind is no more than that.
    let (status, back) = owner
        .post("/users", &json!({ "name": "ada", "roles": ["member"] }))
        .await;
    assert!(status < 300, "{back}");
    until(Duration::from_secs(10), "ada is back", async || {
        let (status, _) = ada.post("/agents/a/runs", &json!({})).await;
        (status == 201).then_some(())
    })
    .await
    .unwrap();
    drop(executor);
}
