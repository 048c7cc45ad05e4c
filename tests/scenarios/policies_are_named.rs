//! Policies by name: who approves, and who is told when nobody acts.

use holdpoint_testkit::{Person, until};
use serde_json::{Value, json};

use crate::world::{PATIENCE, World};

async fn post(world: &World, path: &str, body: Value) -> (u16, Value) {
    world.up.post(path, &body).await.unwrap()
}

async fn shown(world: &World, id: &str) -> Value {
    world.up.get(&format!("/requests/{id}")).await.unwrap().1
}

/// API, `/policies`; S2-R4, S4-R15: made, seen, named by a hold, and deleted under it.
#[tokio::test]
async fn a_hold_is_decided_and_escalated_as_the_policies_that_it_names_say() {
    let world = World::with_test_clock().await;
    for name in ["mia", "max"] {
        Person::join(&world.up, name, &["member", "manager"])
            .await
            .unwrap();
    }
    let managers = json!({ "name": "two-managers", "kind": "approval", "from": "@role.manager",
        "need": 2, "not_requester": true, "decide_within": "2d" });
    let (status, made) = post(&world, "/policies", managers.clone()).await;
    assert_eq!((status, &made["version"]), (201, &json!(1)), "{made}");
    assert_eq!(made["decide_within"], "2d");
    let on_call = json!({ "name": "on-call", "kind": "escalation", "stop_on": ["accept"],
        "rungs": [{ "after": "30m", "do": "raise" }, { "after": "1h", "do": "notify" }] });
    assert_eq!(post(&world, "/policies", on_call).await.0, 201);
    let (_, page) = world.up.get("/policies").await.unwrap();
    let names = page["items"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|one| one["name"].as_str().unwrap()).collect();
    let expected = [
        "default-approval",
        "default-handoff",
        "default-input",
        "on-call",
        "two-managers",
    ];
    assert_eq!(names, expected);

    let body = json!({ "kind": "approval", "question": "Refund?", "requester": "mia",
        "policy": ["two-managers", "on-call"] });
    let (status, hold) = post(&world, "/holds", body).await;
    assert_eq!(status, 201, "{hold}");
    let id = hold["id"].as_str().unwrap();
    let request = shown(&world, id).await;
    assert_eq!(request["to"], json!(["@role.manager"]));
    assert_eq!(request["votes"], json!({ "have": 0, "need": 2 }));
    assert_eq!(
        request["history"][0]["note"],
        "by policy `two-managers`; by policy `on-call`"
    );
    let (status, _) = world.up.delete("/policies/two-managers").await.unwrap();
    assert_eq!(status, 200);
    world.advance("30m").await;
    assert_eq!(shown(&world, id).await["priority"], "high");
    assert_eq!(
        shown(&world, id).await["votes"]["need"],
        2,
        "as it was opened"
    );

    let unknown = json!({ "kind": "approval", "question": "Refund?", "policy": "two-managers" });
    let (status, refused) = post(&world, "/holds", unknown).await;
    assert_eq!(
        (status, &refused["code"]),
        (422, &json!("invalid_body")),
        "{refused}"
    );
    assert!(
        refused["detail"].as_str().unwrap().contains("`on-call`"),
        "{refused}"
    );
    let valid_for = json!({ "name": "gate", "kind": "approval", "valid_for": "1h" });
    let (status, refused) = post(&world, "/policies", valid_for).await;
    assert_eq!(status, 422);
    assert_eq!(refused["errors"][0]["pointer"], "/valid_for", "{refused}");
}

/// A plan that names a policy which is not there is asked without it, and says so.
#[tokio::test]
async fn a_step_names_a_policy() {
    let world = World::with_test_clock().await;
    Person::join(&world.up, "mia", &["member", "manager"])
        .await
        .unwrap();
    let managers = json!({ "name": "managers", "kind": "approval", "from": "@role.manager" });
    assert_eq!(post(&world, "/policies", managers).await.0, 201);
    let ask = json!([{ "ask": { "question": "Go on?", "policy": ["managers", "night"] } }]);
    world.agent("asks", ask).await;
    let run = world.start_run("asks", json!({})).await;
    let waiting = world.until_status(&run, "awaiting_input").await;
    let id = waiting["waiting_on"][0]["id"].as_str().unwrap();
    let request = until(PATIENCE, "the request is there", async || {
        let (status, body) = world.up.get(&format!("/requests/{id}")).await.unwrap();
        (status == 200).then_some(body)
    });
    let request = request.await.unwrap();
    assert_eq!(request["to"], json!(["@role.manager"]));
    let note = request["history"][0]["note"].as_str().unwrap();
    assert!(
        note.contains("there is no policy `night`; there are `managers`"),
        "{note}"
    );
}
