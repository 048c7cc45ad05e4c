//! People approve a part of the gated calls of a fan-out as one list, and are notified once (S2-R4, issue Gate, part 2).

use holdpoint_testkit::{postgres, until};
use serde_json::{Map, Value, json};

use crate::fleet::Api;
use crate::shop::Shop;
use crate::world::{PATIENCE, World};

const CALLS: usize = 8;

#[tokio::test]
async fn five_of_eight_calls_are_approved() {
    approves_a_part(&[]).await;
}

/// The same on Postgres.
#[tokio::test]
async fn five_of_eight_calls_are_approved_on_postgres() {
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    approves_a_part(&["--database-url", &postgres.url]).await;
}

async fn until_open(api: &Api, run: &str, count: usize) -> Value {
    until(PATIENCE, &format!("{count} calls wait"), async || {
        let view = api.get(&format!("/runs/{run}")).await;
        let open = view["waiting_on"].as_array()?.len();
        (open == count).then_some(view)
    })
    .await
    .unwrap()
}

/// The digests of the waiting calls, by id.
fn digests(run: &Value) -> Map<String, Value> {
    let steps = run["steps"].as_array().unwrap().iter();
    let waiting = steps.filter(|step| step["status"] == "waiting_confirm");
    let digest = |step: &Value| step["approval_state"]["digest"].clone();
    waiting
        .map(|step| (step["id"].as_str().unwrap().to_owned(), digest(step)))
        .collect()
}

/// The system dies after five of eight calls were approved, and three wait as before. They are rejected together.
async fn approves_a_part(args: &[&str]) {
    let World {
        mut up,
        nats: _nats,
        ..
    } = World::with_args(args).await;
    let shop = Shop::open().await;
    let tool = json!({ "name": "payments.refund", "risk": "high", "idempotent": true,
        "http": { "method": "POST", "url": shop.url("/refunds") } });
    assert_eq!(up.post("/tools", &tool).await.unwrap().0, 201);
    let pay = json!({ "id": "pay", "for_each": "$input.orders", "parallel": CALLS,
        "tool": "payments.refund", "args": { "order": "$item" } });
    let agent = json!({ "agent": "refund", "steps": [pay] });
    assert_eq!(up.post("/agents", &agent).await.unwrap().0, 201);
    let orders: Vec<_> = (0..CALLS).map(|n| format!("o-{n}")).collect();
    let body = json!({ "input": { "orders": orders } });
    let (status, run) = up.post("/agents/refund/runs", &body).await.unwrap();
    assert_eq!(status, 201, "{run}");
    let id = run["id"].as_str().unwrap().to_owned();
    let api = Api::at(&up.url, &up.token);
    let waiting = until_open(&api, &id, CALLS).await;
    is_notified_once(&api, &id).await;

    let path = format!("/runs/{id}/approve");
    let (status, refused) = api.post(&path, &json!({ "approved_steps": ["pay"] })).await;
    assert_eq!(
        (status, &refused["code"]),
        (422, &json!("invalid_body")),
        "{refused}"
    );
    let mut seen = digests(&waiting);
    assert_eq!(seen.len(), CALLS);
    seen.retain(|call, _| call.as_str() < "pay-5");
    let body = json!({ "approved_steps": ["pay"], "digests": seen });
    let (status, decided) = api.post(&path, &body).await;
    assert_eq!(status, 200, "{decided}");
    let items = decided["items"].as_array().unwrap();
    assert!(
        items.iter().all(|item| item["recorded"] == true),
        "{decided}"
    );
    assert_eq!(items.len(), 5);
    until_open(&api, &id, 3).await;
    up.kill9().await.unwrap();
    up.restart().await.unwrap();
    let api = Api::at(&up.url, &up.token);
    rejects_the_rest(&api, &id).await;
    let keys: std::collections::BTreeSet<_> = shop
        .calls()
        .iter()
        .map(|call| call.header("idempotency-key").to_owned())
        .collect();
    assert_eq!(keys.len(), 5, "only approved calls are made");
}

/// The three calls that are undecided.
async fn rejects_the_rest(api: &Api, id: &str) {
    let path = format!("/runs/{id}/approve");
    let left = until_open(api, id, 3).await;
    let rest = digests(&left);
    assert!(rest.keys().eq(["pay-5", "pay-6", "pay-7"]), "{rest:?}");
    let body = json!({ "rejected_steps": ["pay"], "digests": rest, "comment": "too many" });
    let (status, decided) = api.post(&path, &body).await;
    assert_eq!(status, 200, "{decided}");
    let ended = until(PATIENCE, "the run ends", async || {
        let view = api.get(&format!("/runs/{id}")).await;
        (view["status"] == "completed").then_some(view)
    });
    let ended = ended.await.unwrap();
    let of_step = &ended["steps"][0]["items"];
    assert_eq!(
        (&of_step["completed"], &of_step["skipped"]),
        (&json!(5), &json!(3)),
        "{ended}"
    );
}

/// Each request names its step, and people have one notification.
async fn is_notified_once(api: &Api, run: &str) {
    let requests = until(PATIENCE, "all requests are open", async || {
        let page = api.get(&format!("/requests?run={run}&limit=50")).await;
        let items = page["items"].as_array()?.clone();
        (items.len() == CALLS).then_some(items)
    });
    let requests = requests.await.unwrap();
    let parent = |request: &Value| request["items"][0]["parent"].clone();
    assert!(
        requests.iter().all(|request| parent(request) == "pay"),
        "{requests:?}"
    );
    let notified = until(PATIENCE, "people are notified", async || {
        let page = api.get("/notifications?limit=50").await;
        let items = page["items"].as_array()?.clone();
        let of_run = items.into_iter().filter(|one| one["run"] == run);
        let of_run: Vec<_> = of_run
            .filter(|one| one["type"] == "approval_requested")
            .collect();
        (!of_run.is_empty()).then_some(of_run)
    });
    let notified = notified.await.unwrap();
    assert_eq!(notified.len(), 1, "{notified:?}");
}
