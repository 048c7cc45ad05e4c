//! The rights of tokens, roles, workspaces and assertions.

use holdpoint_auth::{Claims, Signer};
use holdpoint_bus::Bus;
use holdpoint_contracts::handoff::{DecideRequest, Decision};
use holdpoint_contracts::message::{Actor, Envelope};
use holdpoint_ids::HoldId;
use holdpoint_testkit::Answer;
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{World, log};

async fn token(world: &World, body: Value) -> String {
    let (status, made) = world.up.post("/tokens", &body).await.unwrap();
    assert_eq!(status, 201, "{made}");
    made["token"].as_str().unwrap().to_owned()
}

async fn with(world: &World, token: &str, method: Method, path: &str, body: Value) -> Answer {
    let path = format!("/v1/workspaces/{}{path}", world.up.workspace);
    let body = Some(&body).filter(|_| method != Method::GET);
    let answer = world.up.call_with(token, method, &path, body).await;
    answer.unwrap()
}

async fn open_hold(world: &World) -> String {
    let body = json!({ "kind": "approval", "question": "Ship?", "timeout": "1h" });
    let (status, hold) = world.up.post("/holds", &body).await.unwrap();
    assert_eq!(status, 201, "{hold}");
    hold["id"].as_str().unwrap().to_owned()
}

/// An agent's token can ask and never decides, and a viewer only reads. A token has at most the rights of its user.
#[tokio::test]
async fn a_token_has_the_rights_of_its_role() {
    let world = World::with_test_clock().await;
    world.agent("a", json!([log("x")])).await;
    let bob = json!({ "name": "bob", "roles": ["member"] });
    let (status, made) = world.up.post("/users", &bob).await.unwrap();
    assert_eq!(status, 201, "{made}");
    let agent = token(&world, json!({ "user": "bob", "role": "agent" })).await;
    let member = token(&world, json!({ "user": "bob" })).await;
    let viewer = token(&world, json!({ "user": "bob", "role": "viewer" })).await;
    let hold = open_hold(&world).await;
    let approve = format!("/requests/{hold}/approve");

    let start = |token: &str| {
        let token = token.to_owned();
        let world = &world;
        async move {
            with(world, &token, Method::POST, "/agents/a/runs", json!({}))
                .await
                .0
        }
    };
    assert_eq!(start(&agent).await, 201);
    assert_eq!(start(&viewer).await, 403);
    let (status, refused) = with(&world, &agent, Method::POST, &approve, json!({})).await;
    assert_eq!((status, &refused["code"]), (403, &json!("forbidden")));
    // The owners are the recipients, so a member may not decide.
    let (status, _) = with(&world, &member, Method::POST, &approve, json!({})).await;
    assert_eq!(status, 403);
    let (status, _) = with(&world, &member, Method::POST, "/users", bob.clone()).await;
    assert_eq!(status, 403);
    assert_eq!(
        with(&world, &viewer, Method::GET, "/runs", json!({}))
            .await
            .0,
        200
    );

    let short = token(&world, json!({ "user": "bob", "expires_in": "1h" })).await;
    assert_eq!(
        with(&world, &short, Method::GET, "/runs", json!({}))
            .await
            .0,
        200
    );
    world.advance("2h").await;
    assert_eq!(
        with(&world, &short, Method::GET, "/runs", json!({}))
            .await
            .0,
        401
    );
    let (status, _) = world.up.delete("/users/bob").await.unwrap();
    assert_eq!(status, 200);
    assert_eq!(
        with(&world, &member, Method::GET, "/runs", json!({}))
            .await
            .0,
        401
    );
    let (status, last) = world.up.delete("/users/owner").await.unwrap();
    assert_eq!((status, &last["code"]), (409, &json!("last_owner")));
}

/// A token does not find another workspace.
#[tokio::test]
async fn a_token_opens_only_its_workspace() {
    let world = World::with_test_clock().await;
    world.agent("a", json!([log("x")])).await;
    let body = json!({ "workspace": "other" });
    let made = world
        .up
        .call(Method::POST, "/v1/workspaces", Some(&body))
        .await;
    let (status, made) = made.unwrap();
    assert_eq!(status, 201, "{made}");
    let theirs = made["token"].as_str().unwrap();
    let get = async |token: &str, path: &str| {
        let answer = world.up.call_with(token, Method::GET, path, None).await;
        answer.unwrap()
    };
    let (status, agents) = get(theirs, "/v1/workspaces/other/agents").await;
    assert_eq!((status, &agents["items"]), (200, &json!([])));
    assert_eq!(get(theirs, "/v1/workspaces/default/agents").await.0, 404);
    assert_eq!(
        get(&world.up.token, "/v1/workspaces/other/agents").await.0,
        404
    );
    assert_eq!(
        get(&world.up.token, "/v1/workspaces/nowhere/agents")
            .await
            .0,
        404
    );
}

/// Ground, "Must": unsigned, forged and expired decisions on the bus are refused.
#[tokio::test]
async fn a_decision_counts_only_with_the_gateways_word() {
    let world = World::with_test_clock().await;
    let hold = open_hold(&world).await;
    let bus = Bus::connect(&world.up.nats_url, "intruder").await.unwrap();
    let workspace = world.up.workspace.parse().unwrap();
    let claims = Claims {
        workspace: world.up.workspace.parse().unwrap(),
        user: "owner".parse().unwrap(),
        roles: vec!["owner".parse().unwrap()],
        expires_at: "2999-01-01T00:00:00Z".parse().unwrap(),
    };
    let text = std::fs::read_to_string(world.up.data_dir().join("secrets.json")).unwrap();
    let secrets: holdpoint_auth::Secrets = serde_json::from_str(&text).unwrap();
    let expired = Claims {
        expires_at: "2020-01-01T00:00:00Z".parse().unwrap(),
        ..claims.clone()
    };
    let decide = |id: HoldId| Envelope {
        actor: Actor("owner".to_owned()),
        assertion: None,
        key: None,
        command: DecideRequest {
            id,
            decision: Decision::approve(None),
            version: None,
            silent: false,
        },
    };
    let id = hold.parse().unwrap();
    let gateway = secrets.signer().unwrap();
    let forged = Signer::fresh().vouch(&claims, decide(id)).unwrap();
    let expired = gateway.vouch(&expired, decide(id)).unwrap();
    // Mend A-C1: an assertion for another request.
    let elsewhere = decide(HoldId::standalone());
    let mut captured = gateway.vouch(&claims, elsewhere).unwrap();
    captured.command.id = id;
    for (envelope, status) in [
        (decide(id), 403),
        (forged, 401),
        (expired, 401),
        (captured, 401),
    ] {
        let refused = bus.ask(&workspace, &envelope).await.unwrap_err();
        assert_eq!(refused.status, status, "{refused}");
    }
    let (_, request) = world.up.get(&format!("/requests/{hold}")).await.unwrap();
    assert_eq!(request["status"], "open");
}
