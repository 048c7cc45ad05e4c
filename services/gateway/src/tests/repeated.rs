//! Requests that are repeated under their `Idempotency-Key`, where the gateway itself remembers the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::StreamExt;
use holdpoint_contracts::subject;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::edge::{Edge, ok, refusal};

impl Edge {
    pub(super) async fn put(&self, path: &str, body: Value) -> Response {
        let request = self.request(Method::PUT, path).json(&body);
        request.send().await.unwrap()
    }

    /// The same POST under an idempotency key.
    pub(super) async fn post_under(&self, key: &str, path: &str, body: Value) -> Response {
        let request = self.request(Method::POST, path).json(&body);
        let request = request.header("idempotency-key", key);
        request.send().await.unwrap()
    }
}

/// Mend: an inbound hook is made once under a key, and its secret is shown again.
#[tokio::test]
async fn an_inbound_hook_is_made_once_under_a_key() {
    let edge = Edge::new().await;
    let make = async |key: &str, name: &str| {
        let body = json!({ "name": name });
        edge.post_under(key, "/hooks/inbound", body).await
    };
    let first = make("k1", "crm").await;
    assert_eq!(first.status(), 201);
    let first: Value = first.json().await.unwrap();
    let again = make("k1", "crm").await;
    assert_eq!(again.status(), 201);
    assert_eq!(again.json::<Value>().await.unwrap(), first);
    // The repetition shows the secret again: a narrowed token of the same user does not get it.
    let narrowed = edge.token_of("owner", Some("admin")).await;
    let repeated = edge.bare(Method::POST, "/v1/workspaces/default/hooks/inbound");
    let repeated = repeated
        .bearer_auth(narrowed)
        .header("idempotency-key", "k1")
        .json(&json!({ "name": "crm" }));
    assert_eq!(
        refusal(repeated.send().await.unwrap()).await,
        (403, "narrowed_token".to_owned())
    );
    let (reused, known) = (make("k1", "erp").await, make("k2", "crm").await);
    assert_eq!(
        refusal(reused).await,
        (422, "idempotency_key_reused".to_owned())
    );
    assert_eq!(refusal(known).await, (409, "already_exists".to_owned()));
    let gone = edge.request(Method::DELETE, "/hooks/inbound/crm").send();
    assert_eq!(gone.await.unwrap().status(), 204);
    assert_eq!(
        refusal(make("k1", "crm").await).await,
        (409, "key_spent".to_owned())
    );
}

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Mend: a dead letter is replayed once under a key, and the answer is repeated without
/// its secret.
#[tokio::test]
async fn a_dead_letter_is_replayed_once_under_a_key() {
    let edge = Edge::new().await;
    let client = edge.bus.client().clone();
    let filter = subject::dead_letters_filter("executor");
    let mut requests = client.subscribe(filter).await.unwrap();
    client.flush().await.unwrap();
    let replayed = Arc::new(AtomicU32::new(0));
    let count = replayed.clone();
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            let reply = match count.fetch_add(1, Ordering::SeqCst) {
                0 => json!({"ok": { "changed": true, "webhook": { "secret": SECRET } }}),
                _ => super::edge::problem(404, "not_found"),
            };
            let reply = serde_json::to_vec(&reply).unwrap();
            let inbox = request.reply.unwrap();
            client.publish(inbox, reply.into()).await.unwrap();
        }
    });
    let replay = async |key| {
        edge.post_under(key, "/dead/executor-12/replay", json!({}))
            .await
    };
    let answer = |secret: &str| {
        let reply = json!({ "changed": true, "webhook": { "secret": secret } });
        json!({ "id": "executor-12", "answer": reply })
    };
    assert_eq!(ok(replay("k1").await).await, answer(SECRET));
    assert_eq!(ok(replay("k1").await).await, answer("***"));
    for file in ["gateway.db", "gateway.db-wal"] {
        let bytes = std::fs::read(edge.dir.path().join(file)).unwrap_or_default();
        let is_kept = bytes
            .windows(SECRET.len())
            .any(|part| part == SECRET.as_bytes());
        assert!(!is_kept, "{file} contains the secret of the reply");
    }
    assert_eq!(replayed.load(Ordering::SeqCst), 1);
    assert_eq!(replay("k2").await.status(), 404);
}
