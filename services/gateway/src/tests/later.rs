//! Commands whose owner is down: 202, and done when it is back, once.

use std::time::Duration;

use chrono::TimeDelta;
use holdpoint_auth::WebhookSecret;
use holdpoint_bus::StreamUse;
use holdpoint_testkit::until;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::edge::{Edge, at, ok, refusal};
use super::handoff::REQUEST;

const PATIENCE: Duration = Duration::from_secs(20);

async fn start(edge: &Edge, key: &str, body: &Value) -> Response {
    let request = edge.request(Method::POST, "/agents/outreach/runs");
    let request = request.header("idempotency-key", key);
    request.json(body).send().await.unwrap()
}

async fn accepted(response: Response) -> String {
    assert_eq!(response.status(), 202);
    let body: Value = response.json().await.unwrap();
    body["command_id"].as_str().unwrap().to_owned()
}

async fn done(edge: &Edge, id: &str) -> Value {
    let probe = async || {
        let command = ok(edge.get(&format!("/commands/{id}")).await).await;
        (command["state"] == "done").then_some(command)
    };
    until(PATIENCE, "the command to be done", probe)
        .await
        .unwrap()
}

/// API: a command whose owner is down: 202 `{command_id}`, and `GET /commands/{id}`.
#[tokio::test]
async fn a_command_outlives_its_owners_absence_and_a_restart() {
    let mut edge = Edge::without_executor().await;
    let body = json!({"input": 1, "contact": {"id": "ada"}});
    let id = accepted(start(&edge, "k", &body).await).await;
    assert_eq!(accepted(start(&edge, "k", &body).await).await, id);
    let reused = refusal(start(&edge, "k", &json!({"input": 2})).await).await;
    assert_eq!(reused, (422, "idempotency_key_reused".to_owned()));
    let waits = ok(edge.get(&format!("/commands/{id}")).await).await;
    assert_eq!(waits, json!({"id": id, "state": "accepted"}));

    edge.restart().await;
    edge.play("executor").await;
    let command = done(&edge, &id).await;
    assert_eq!(command["answer"]["contact"], "ada");
    let asked = edge.played.lock().unwrap().asked.clone();
    assert_eq!(
        edge.verbs(),
        ["put_contact", "start_run"],
        "the contact first, each once"
    );
    assert_ne!(asked[0].1["key"], asked[1].1["key"]);
    assert_eq!(edge.vouched(&asked[1].1).user.as_str(), "owner");
    let again = start(&edge, "k", &body).await;
    assert_eq!(again.status(), 201, "with the owner back it answers itself");
    let key = edge.played.lock().unwrap().asked.pop().unwrap().1["key"].clone();
    assert_eq!(key, asked[1].1["key"], "under the same key");
    let elsewhere = edge.bare(Method::GET, &format!("/v1/workspaces/other/commands/{id}"));
    let elsewhere = elsewhere
        .bearer_auth(&edge.other_token)
        .send()
        .await
        .unwrap();
    assert_eq!(refusal(elsewhere).await.0, 404);
}

/// Mend A-M9: no assertion lies in a stream, and each time the owner is asked it is signed anew.
#[tokio::test]
async fn a_stored_command_is_signed_when_it_is_brought() {
    let edge = Edge::without_executor().await;
    let executor = StreamUse::Commands("executor");
    edge.bus.provide_stream(executor).await.unwrap();
    let id = accepted(start(&edge, "k", &json!({})).await).await;
    let day = at() + TimeDelta::hours(23);
    edge.clock.move_to(day).unwrap();
    edge.play("executor").await;
    done(&edge, &id).await;
    assert_eq!(edge.bus.stored(executor).await.unwrap(), 0);
    let (_, asked) = edge.played.lock().unwrap().asked[0].clone();
    let claims = edge.vouched(&asked);
    assert_eq!(claims.expires_at, day + TimeDelta::minutes(5));
}

/// Swift: a decision may be repeated, so it has only the key of its caller. Once it is stored its key is its id.
#[tokio::test]
async fn a_decision_gets_no_key_before_it_is_stored() {
    let edge = Edge::new().await;
    let unavailable = super::edge::problem(503, "unavailable")["problem"].take();
    edge.played.lock().unwrap().refusal = Some(unavailable);
    let path = format!("/requests/{REQUEST}/respond");
    let body = json!({ "answer": "yes" });
    let id = accepted(edge.post(&path, body.clone()).await).await;
    edge.played.lock().unwrap().refusal = None;
    done(&edge, &id).await;
    let batch = json!({ "ids": [REQUEST], "decision": { "respond": body } });
    for (path, body) in [(&*path, body), ("/requests:batch", batch)] {
        let from = edge.played.lock().unwrap().asked.len();
        ok(edge.post(path, body.clone()).await).await;
        ok(edge.post_under("k", path, body).await).await;
        let keys = keys_since(&edge, from);
        assert_eq!(keys[0], Value::Null, "{path}");
        assert!(keys[1]["key"].is_string(), "{path}: {keys:?}");
    }
    let keys = keys_since(&edge, 0);
    assert_eq!(keys[0], Value::Null);
    assert_eq!(keys[1]["key"], id);
}

/// The keys of the commands that were sent, in order.
fn keys_since(edge: &Edge, from: usize) -> Vec<Value> {
    let asked = edge.played.lock().unwrap().asked[from..].to_vec();
    asked
        .into_iter()
        .map(|(_, body)| body["key"].clone())
        .collect()
}

/// A caller who was disabled since then does nothing more.
#[tokio::test]
async fn what_a_disabled_caller_left_behind_is_not_done() {
    let edge = Edge::without_executor().await;
    edge.user("ada", &["member"]).await;
    let ada = edge.token_of("ada", None).await;
    let id = accepted(edge.as_whom(&ada, Method::POST, "/agents/a/runs").await).await;
    let gone = edge
        .request(Method::DELETE, "/users/ada")
        .send()
        .await
        .unwrap();
    assert_eq!(gone.status(), 200);
    edge.play("executor").await;
    assert_eq!(done(&edge, &id).await["problem"]["code"], "forbidden");
    assert!(!edge.verbs().contains(&"start_run".to_owned()));
}

#[tokio::test]
async fn a_batch_is_accepted_line_by_line_and_questions_stay_503() {
    let edge = Edge::without_executor().await;
    let request = edge.request(Method::POST, "/agents/outreach/runs:batch");
    let results = ok(request.body("{}\n{oops\n").send().await.unwrap()).await;
    assert_eq!(results["items"][0]["status"], 202);
    assert!(results["items"][0]["command_id"].is_string());
    assert_eq!(results["items"][1]["status"], 400);
    assert_eq!(
        refusal(edge.get("/runs").await).await,
        (503, "unavailable".to_owned())
    );
    let none = edge
        .get("/commands/cmd_0193aaaabbbb7ccc8dddeeeeeeeeeeee")
        .await;
    assert_eq!(refusal(none).await, (404, "not_found".to_owned()));
}

/// Mend: a sender that got no answer, because the gateway or the executor was killed, sends its message again. Each
/// time the command has the key and the id of the message, so the executor does it once.
#[tokio::test]
async fn a_hook_message_that_is_sent_again_is_the_same_command() {
    let edge = Edge::without_executor().await;
    let made = edge.post("/hooks/inbound", json!({ "name": "crm" })).await;
    let made: Value = made.json().await.unwrap();
    let secret = WebhookSecret::read(made["secret"].as_str().unwrap()).unwrap();
    let body = json!({ "contact": "ada", "text": "yes" }).to_string();
    let now = at().timestamp();
    let signature = secret.sign("msg_1", now, &body).unwrap();
    let send = async || {
        let request = edge.bare(Method::POST, made["path"].as_str().unwrap());
        let request = request.header("webhook-id", "msg_1");
        let request = request.header("webhook-timestamp", now.to_string());
        let request = request.header("webhook-signature", &signature);
        request.body(body.clone()).send().await.unwrap()
    };
    let id = accepted(send().await).await;
    assert_eq!(accepted(send().await).await, id);
    edge.play("executor").await;
    done(&edge, &id).await;
    assert_eq!(ok(send().await).await["contact"], "ada");
    let asked = edge.played.lock().unwrap().asked.clone();
    assert_eq!(edge.verbs(), ["add_activity", "add_activity"]);
    assert_eq!(asked[0].1["key"], asked[1].1["key"]);
    assert_eq!(asked[0].1["command"]["id"], asked[1].1["command"]["id"]);
}
