//! `POST /tools` with `http`: other programs are called with a token that names their step.

use holdpoint_testkit::until;
use reqwest::Method;
use serde_json::{Value, json};

use crate::shop::Shop;
use crate::world::{PATIENCE, World, log};

async fn registered(world: &World, shop: &Shop, tool: Value) -> (u16, Value) {
    let mut body = json!({ "name": "orders.make", "version": "1", "risk": "low", "idempotent": true,
        "http": { "method": "POST", "url": shop.url("/orders") } });
    for (name, value) in tool.as_object().unwrap() {
        body[name] = value.clone();
    }
    world.up.post("/tools", &body).await.unwrap()
}

/// S4-R2, S2-R10: the call carries run, step, attempt and token, and its reply is the result of the step.
#[tokio::test]
async fn a_registered_tool_is_called_and_its_answer_used() {
    let world = World::with_real_time().await;
    let shop = Shop::open().await;
    let (status, tool) = registered(&world, &shop, json!({})).await;
    assert_eq!(status, 201, "{tool}");
    let steps = json!([
        { "id": "make", "tool": "orders.make", "args": { "customer": "c-7" } },
        log("made {{ steps.make.id }}"),
    ]);
    let steps = steps.to_string().replace("{{ steps.make.id }}", "it");
    world
        .agent("buys", serde_json::from_str(&steps).unwrap())
        .await;
    let id = world.start_run("buys", json!({})).await;
    let run = world.until_status(&id, "completed").await;
    assert_eq!(run["steps"][0]["response"]["data"]["id"], "o-1", "{run}");
    let call = &shop.calls()[0];
    assert_eq!(call.header("holdpoint-run"), id);
    assert_eq!(call.header("holdpoint-step"), "make");
    assert_eq!(call.header("holdpoint-attempt"), "1");
    assert_eq!(call.header("idempotency-key"), format!("{id}/make"));

    // A-H6: the token is valid only while its step runs.
    let token = call.header("holdpoint-token");
    let other = world.start_run("buys", json!({})).await;
    let get = async |token: &str, id: &str| {
        let path = format!("/v1/workspaces/{}/runs/{id}", world.up.workspace);
        let answer = world.up.call_with(token, Method::GET, &path, None).await;
        answer.unwrap().0
    };
    assert_eq!(get(token, &id).await, 401, "its step has ended");
    assert_eq!(
        get(token, &other).await,
        401,
        "it is not valid for another run"
    );
    for path in ["contacts", "contacts/c-7", "contacts/c-7/activities"] {
        let path = format!("/v1/workspaces/{}/{path}", world.up.workspace);
        let answer = world.up.call_with(token, Method::GET, &path, None).await;
        assert_eq!(answer.unwrap().0, 401, "{path}");
    }
    let events = format!("/v1/workspaces/{}/runs/{id}/events", world.up.workspace);
    let answer = world.up.call_with(token, Method::GET, &events, None).await;
    assert_eq!(answer.unwrap().0, 401, "the history of its run");
    let forged = format!("{}x", &token[..token.len() - 1]);
    assert_eq!(get(&forged, &id).await, 401);
    let path = format!("/v1/workspaces/{}/runs/{id}/cancel", world.up.workspace);
    let cancel = world
        .up
        .call_with(token, Method::POST, &path, Some(&json!({})))
        .await;
    assert_eq!(cancel.unwrap().0, 403, "a step token steers no run");
}

/// S4-R13: nodes and their claimed steps are shown.
#[tokio::test]
async fn nodes_and_claims_are_shown() {
    let world = World::with_real_time().await;
    let shop = Shop::slow(std::time::Duration::from_secs(5)).await;
    registered(&world, &shop, json!({ "idempotent": false })).await;
    world
        .agent("buys", json!([{ "tool": "orders.make", "args": {} }]))
        .await;
    let id = world.start_run("buys", json!({})).await;
    let claim = until(PATIENCE, "the step is claimed", async || {
        let (status, page) = world.up.get("/claims").await.unwrap();
        assert_eq!(status, 200, "{page}");
        page["items"].get(0).cloned()
    })
    .await
    .unwrap();
    assert_eq!(
        (&claim["run"], &claim["step"]),
        (&json!(id), &json!("step-01"))
    );
    let (status, nodes) = world.up.get("/nodes").await.unwrap();
    assert_eq!(
        (status, &nodes["items"][0]["status"]),
        (200, &json!("UP")),
        "{nodes}"
    );
    world.until_status(&id, "completed").await;
    let (_, page) = world.up.get("/claims").await.unwrap();
    assert_eq!(page["items"], json!([]), "completion clears the claim");
}

/// Bad input: invalid tools.
#[tokio::test]
async fn bad_tools_are_refused_with_a_reason() {
    let world = World::with_test_clock().await;
    let shop = Shop::open().await;
    for (tool, status) in [
        (json!({ "http": { "url": "ftp://x" } }), 422),
        (
            json!({ "http": { "url": shop.url("/"), "method": "GO\nAWAY" } }),
            422,
        ),
        (json!({ "name": "log" }), 409),
        (json!({ "name": "with space" }), 422),
        (json!({ "colour": "red" }), 422),
        (json!({ "risk": "enormous" }), 422),
        (json!({ "risk": null }), 422),
    ] {
        let (got, refused) = registered(&world, &shop, tool.clone()).await;
        assert_eq!(got, status, "{tool}: {refused}");
        assert!(refused["detail"].is_string());
    }
}
