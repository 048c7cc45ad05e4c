//! Commands of a disabled user are refused, also those that wait on the bus.

use std::collections::BTreeMap;
use std::time::Duration;

use holdpoint_auth::Claims;
use holdpoint_bus::{Bus, Outgoing, StreamUse};
use holdpoint_contracts::executor::StartRun;
use holdpoint_contracts::message::{Actor, Command as _, Envelope};
use holdpoint_ids::{RunId, Workspace};
use holdpoint_testkit::until;
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fleet::{Api, Ground};
use crate::world::{PATIENCE, log};

const SERVICE: &str = "executor";

/// A user who may start runs.
async fn join(owner: &Api, name: &str) -> Api {
    let user = json!({ "name": name, "roles": ["member"] });
    let (status, body) = owner.post("/users", &user).await;
    assert_eq!(status, 201, "{body}");
    let (status, made) = owner.post("/tokens", &json!({ "user": name })).await;
    assert_eq!(status, 201, "{made}");
    owner.with_token(made["token"].as_str().unwrap())
}

/// The start of a run, signed as the gateway does for a member.
fn signed_start(ground: &Ground, name: &str) -> Outgoing {
    let workspace: Workspace = "default".parse().unwrap();
    let claims = Claims {
        workspace: workspace.clone(),
        user: name.parse().unwrap(),
        roles: vec!["member".parse().unwrap()],
        expires_at: "2999-01-01T00:00:00Z".parse().unwrap(),
    };
    let envelope = Envelope {
        actor: Actor(name.to_owned()),
        assertion: None,
        key: None,
        command: StartRun {
            run: RunId::fresh(),
            agent: "a".parse().unwrap(),
            input: Value::Null,
            contact: None,
            labels: BTreeMap::from([("by".to_owned(), name.to_owned())]),
        },
    };
    let signer = ground.secrets().signer().unwrap();
    let envelope = signer.vouch(&claims, envelope).unwrap();
    Outgoing::json(envelope.command.subject(&workspace), &envelope).unwrap()
}

/// Two signed commands are stored while the executor is down. The user of one of them is disabled, and then the
/// executor starts.
#[tokio::test]
async fn a_waiting_command_of_a_disabled_user_is_refused() {
    let ground = Ground::on_sqlite().await;
    let executor = ground.serve(SERVICE, &[]).await;
    let _handoff = ground.serve("handoff", &[]).await;
    let args = ["--http", "127.0.0.1:0", "--owner-token"];
    let gateway = ground.serve("gateway", &args).await;
    let owner = Api::of(&gateway);
    let agent = json!({ "agent": "a", "steps": [log("x")] });
    assert_eq!(owner.post("/agents", &agent).await.0, 201);
    let ada = join(&owner, "ada").await;
    join(&owner, "bob").await;
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

    let commands = ["ada", "bob"].map(|name| signed_start(&ground, name));
    bus.publish_all(commands.to_vec()).await.unwrap();
    assert_eq!(waiting().await, 2, "both wait on the bus");
    let (status, gone) = owner.call(Method::DELETE, "/users/ada", &Value::Null).await;
    assert!(status < 300, "{gone}");

    let executor = ground.serve(SERVICE, &[]).await;
    until(PATIENCE, "both are handled", async || {
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

    // The user directory of a running executor catches up soon.
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
