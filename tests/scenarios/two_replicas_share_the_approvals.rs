//! Approvals in advance with two executors and two handoff services on Postgres: no use is given twice, and an early
//! approval permits one call (S2-R4).

use futures_util::future::{join, join_all};
use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::fleet::{Api, Ground, Served};
use crate::shop::Shop;
use crate::world::PATIENCE;

/// Uses of the standing approval.
const USES: usize = 5;

/// Runs that want a use of it.
const RUNS: usize = 20;

/// Runs whose call is approved early.
const EARLY: usize = 10;

#[tokio::test]
async fn uses_and_early_approvals_are_shared_by_replicas() {
    let Some(ground) = Ground::new().await else {
        return;
    };
    let replicas = [
        ground.serve("executor", &[]).await,
        ground.serve("executor", &[]).await,
        ground.serve("handoff", &[]).await,
        ground.serve("handoff", &[]).await,
    ];
    let _scheduler = ground.serve("scheduler", &[]).await;
    let gateway = ground
        .serve("gateway", &["--http", "127.0.0.1:0", "--owner-token"])
        .await;
    let _worker = ground.worker().await;
    let api = Api::of(&gateway);
    let shop = Shop::open().await;
    prepare(&api, &shop).await;

    let approval = approve_in_advance(&api).await;
    join_all((0..RUNS).map(|_| start(&api, "refund"))).await;
    // A run with a use asks for a moment, too. Together these are all runs, with the one that has shown the version.
    until_count(&api, "refund", "awaiting_approval", RUNS - USES + 1).await;
    until_count(&api, "refund", "completed", USES).await;
    assert_eq!(shop.calls().len(), USES, "one call for each use");
    let shown = api.get(&approval).await;
    assert_eq!(
        (&shown["status"], &shown["used"]),
        (&json!("used_up"), &json!(USES)),
        "{shown}"
    );

    let runs = join_all((0..EARLY).map(|_| start(&api, "later"))).await;
    join_all(runs.iter().map(|run| approve_early(&api, run))).await;
    until_count(&api, "later", "completed", EARLY).await;
    assert_eq!(shop.calls().len(), USES + EARLY, "one call for each run");
    check_logs(&replicas);
    assert_eq!(api.get("/dead").await["items"], Value::Array(Vec::new()));
}

async fn prepare(api: &Api, shop: &Shop) {
    let tool = json!({ "name": "payments.refund", "version": "1", "risk": "high",
        "http": { "method": "POST", "url": shop.url("/refunds") } });
    let pay = |amount: Value| json!({ "id": "pay", "tool": "payments.refund", "args": { "amount": amount } });
    let refund = json!({ "agent": "refund", "steps": [pay(json!("$input.amount"))] });
    let later =
        json!({ "agent": "later", "steps": [{ "id": "ready", "wait_for": "go" }, pay(json!(7))] });
    for (path, body) in [("/tools", tool), ("/agents", refund), ("/agents", later)] {
        let (status, body) = api.post(path, &body).await;
        assert_eq!(status, 201, "{body}");
    }
}

async fn start(api: &Api, agent: &str) -> String {
    let body = json!({ "input": { "amount": 7 } });
    let (status, run) = api.post(&format!("/agents/{agent}/runs"), &body).await;
    assert_eq!(status, 201, "{run}");
    run["id"].as_str().unwrap().to_owned()
}

async fn until_count(api: &Api, agent: &str, status: &str, count: usize) {
    let path = format!("/runs?agent={agent}&status={status}&limit=500");
    until(
        PATIENCE,
        &format!("{count} runs are {status}"),
        async || {
            let page = api.get(&path).await;
            let found = page["items"].as_array().map_or(0, Vec::len);
            (found == count).then_some(())
        },
    )
    .await
    .unwrap();
}

/// The path of a standing approval for calls like that of a first run.
async fn approve_in_advance(api: &Api) -> String {
    let run = start(api, "refund").await;
    let request = until(PATIENCE, "the first call asks", async || {
        let page = api.get(&format!("/requests?run={run}")).await;
        page["items"].get(0).cloned()
    });
    let request = request.await.unwrap();
    let item = &request["items"][0];
    let terms = json!({ "agent": "refund", "tool": item["tool"], "version": item["version"],
        "args_schema": {}, "max_uses": USES, "expires_in": "30d" });
    let (status, made) = api.post("/standing-approvals", &terms).await;
    assert_eq!(status, 201, "{made}");
    format!("/standing-approvals/{}", made["id"].as_str().unwrap())
}

/// The call is approved twice at the same time, and the run reaches it.
async fn approve_early(api: &Api, run: &str) {
    let early_call = async || {
        let view = api.get(&format!("/runs/{run}")).await;
        let digest = view["steps"][1]["early_call"]["digest"].clone();
        digest.is_string().then_some(digest)
    };
    let digest = until(PATIENCE, "the call can be approved early", early_call);
    let digest = digest.await.unwrap();
    let body = json!({ "approved_steps": ["pay"], "digests": { "pay": digest } });
    let path = format!("/runs/{run}/approve");
    let ((status, decided), (again, repeated)) =
        join(api.post(&path, &body), api.post(&path, &body)).await;
    assert!(status == 200 || again == 200, "{decided} {repeated}");
    let go = json!({ "name": "go" });
    let (status, body) = api.post(&format!("/runs/{run}/signal"), &go).await;
    assert_eq!(status, 200, "{body}");
}

fn check_logs(replicas: &[Served]) {
    for replica in replicas {
        let log = replica.log();
        assert!(
            !log.contains("panicked") && !log.contains("dead letter"),
            "{log}"
        );
    }
}
