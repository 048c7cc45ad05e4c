//! An approver sends the arguments of a call back, and the step that made them runs again (S2-R4).

use holdpoint_testkit::{holdpoint_binary, until};
use serde_json::{Value, json};

use crate::shop::Shop;
use crate::world::{PATIENCE, World};

async fn register(world: &World, shop: &Shop, name: &str, risk: &str) {
    let tool = json!({ "name": name, "version": "1", "risk": risk, "idempotent": true,
        "http": { "method": "POST", "url": shop.url(&format!("/{name}")) } });
    let (status, body) = world.up.post("/tools", &tool).await.unwrap();
    assert_eq!(status, 201, "{body}");
}

/// The open request of a run, as soon as it has another id than `earlier`.
async fn asked(world: &World, run: &str, earlier: &str) -> Value {
    until(PATIENCE, "the run asks", async || {
        let view = world.run(run).await;
        let id = view["waiting_on"][0]["id"].as_str()?.to_owned();
        let (status, request) = world.up.get(&format!("/requests/{id}")).await.unwrap();
        (id != earlier && status == 200 && request["status"] == "open").then_some(request)
    })
    .await
    .unwrap()
}

/// Sent back by the API and once more by the command line, over a kill, and then approved.
#[tokio::test]
async fn a_call_is_sent_back_until_it_is_approved() {
    send_back_over_a_kill(&mut World::with_real_time().await).await;
}

/// The same on any system, such as one on Postgres.
pub(crate) async fn send_back_over_a_kill(world: &mut World) {
    let shop = Shop::open().await;
    register(world, &shop, "drafts", "low").await;
    register(world, &shop, "payments", "high").await;
    let draft = json!({ "id": "draft", "tool": "drafts", "args": { "about": "o-1" } });
    let pay = json!({ "id": "pay", "tool": "payments", "args": { "amount": "$draft.total" } });
    world.agent("pays", json!([draft, pay])).await;
    let run = world.start_run("pays", json!({})).await;
    let request = asked(world, &run, "").await;
    let actions = request["actions"].as_array().unwrap();
    assert!(actions.contains(&json!("revise")), "{request}");
    let id = request["id"].as_str().unwrap().to_owned();
    let path = format!("/requests/{id}/revise");
    for body in [
        json!({}),
        json!({ "instructions": " " }),
        json!({ "instructions": 5 }),
    ] {
        let (status, problem) = world.up.post(&path, &body).await.unwrap();
        assert_eq!(
            (status, &problem["code"]),
            (422, &json!("invalid_body")),
            "{problem}"
        );
    }
    let body = json!({ "instructions": "Half of it." });
    let (status, decided) = world.up.post(&path, &body).await.unwrap();
    assert_eq!(status, 200, "{decided}");
    assert_eq!(decided["request"]["outcome"], "revised", "{decided}");
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();

    let second = asked(world, &run, &id).await;
    let id = second["id"].as_str().unwrap().to_owned();
    let output = tokio::process::Command::new(holdpoint_binary().unwrap())
        .args(["revise", &id, "--instructions", "Still less."])
        .arg("--data")
        .arg(world.up.data_dir())
        .env_remove("HOLDPOINT_URL")
        .env_remove("HOLDPOINT_TOKEN")
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let third = asked(world, &run, &id).await;
    let id = third["id"].as_str().unwrap();
    let approve = format!("/requests/{id}/approve");
    assert_eq!(world.up.post(&approve, &json!({})).await.unwrap().0, 200);
    let ended = world.until_status(&run, "completed").await;
    assert_eq!(ended["steps"][1]["approval_state"]["state"], "approved");

    check_calls(&shop, &run);
    let kinds = world.history(&run).await;
    assert_eq!(
        kinds.iter().filter(|kind| *kind == "step.revised").count(),
        2
    );
}

/// Each revision has its feedback and a key of its own.
fn check_calls(shop: &Shop, run: &str) {
    let calls = shop.calls();
    let bodies: Vec<Value> = calls
        .iter()
        .map(|call| serde_json::from_str(&call.body).unwrap())
        .collect();
    let feedback = |body: &Value| body["feedback"]["instructions"].clone();
    let said: Vec<Value> = bodies.iter().map(feedback).collect();
    for instructions in ["Half of it.", "Still less."] {
        assert!(said.contains(&json!(instructions)), "{bodies:?}");
    }
    let keys: std::collections::BTreeSet<&str> = calls
        .iter()
        .map(|call| call.header("idempotency-key"))
        .collect();
    let expected = ["/draft", "/draft~1", "/draft~2", "/pay"].map(|end| format!("{run}{end}"));
    assert!(
        keys.iter().copied().eq(expected.iter().map(String::as_str)),
        "{keys:?}"
    );
}

/// Literal arguments have no step that could make them again.
#[tokio::test]
async fn literal_arguments_are_not_sent_back() {
    let shop = Shop::open().await;
    let world = World::with_real_time().await;
    register(&world, &shop, "payments", "high").await;
    let pay = json!({ "id": "pay", "tool": "payments", "args": { "amount": 5 } });
    world.agent("pays", json!([pay])).await;
    let run = world.start_run("pays", json!({})).await;
    let request = asked(&world, &run, "").await;
    let actions = request["actions"].as_array().unwrap();
    assert!(!actions.contains(&json!("revise")), "{request}");
    let path = format!("/requests/{}/revise", request["id"].as_str().unwrap());
    let body = json!({ "instructions": "Half of it." });
    let (status, problem) = world.up.post(&path, &body).await.unwrap();
    assert_eq!(
        (status, &problem["code"]),
        (409, &json!("not_revisable")),
        "{problem}"
    );
    assert!(shop.calls().is_empty());
}
