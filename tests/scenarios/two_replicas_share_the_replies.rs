//! Replies and rehearsals with two executors and two gateways on Postgres: each reply is recorded once, and wakes its
//! run once.

use std::time::Duration;

use futures_util::future::join_all;
use holdpoint_clock::Clock;
use holdpoint_testkit::until;
use reqwest::Method;
use serde_json::{Value, json};

use crate::fleet::{Api, Ground};
use crate::mail_provider::Provider;
use crate::world::log;

const PATIENCE: Duration = Duration::from_secs(120);

/// The same request at both gateways, several times at once.
const AT_ONCE: usize = 8;

#[tokio::test]
async fn a_reply_is_recorded_once_by_replicas() {
    let Some(ground) = Ground::new().await else {
        return;
    };
    let _executors = [
        ground.serve("executor", &[]).await,
        ground.serve("executor", &[]).await,
    ];
    let _scheduler = ground.serve("scheduler", &[]).await;
    let _handoff = ground.serve("handoff", &[]).await;
    let http = ["--http", "127.0.0.1:0"];
    let first = ground
        .serve("gateway", &[http[0], http[1], "--owner-token"])
        .await;
    let second = ground.serve("gateway", &http).await;
    let text = |of: &Value, name: &str| of[name].as_str().unwrap().to_owned();
    let token = text(&first.said, "token");
    let urls = [text(&first.said, "http"), text(&second.said, "http")];
    let apis = urls.each_ref().map(|url| Api::at(url, &token));
    let _worker = ground.worker().await;

    let wait = json!({ "wait_for": { "signal": "contact.reply", "timeout": "5 days" } });
    let agent = json!({ "agent": "patient", "steps": [wait, log("after")] });
    let (status, body) = apis[0].post("/agents", &agent).await;
    assert_eq!(status, 201, "{body}");
    let contact = json!({ "contact": { "id": "ann", "email": "ann@x.example" } });
    let (status, run) = apis[0].post("/agents/patient/runs", &contact).await;
    assert_eq!(status, 201, "{run}");
    let run = format!("/runs/{}", run["id"].as_str().unwrap());
    until_status(&apis[1], &run, "waiting").await;

    let (status, hook) = apis[0]
        .post("/hooks/inbound", &json!({ "name": "mail" }))
        .await;
    assert_eq!(status, 201, "{hook}");
    let providers = urls.each_ref().map(|url| Provider::of(url, &hook));
    let reply = json!({ "from": "ann@x.example", "text": "Yes", "message_id": "1@x.example" });
    let posted = (0..AT_ONCE).map(|at| {
        // A provider repeats a mail under another id, too.
        let id = format!("m{}", at % 4);
        let (provider, reply) = (&providers[at % 2], &reply);
        async move { provider.posts(&id, Clock::system().now(), reply).await }
    });
    for (status, answer) in join_all(posted).await {
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["contact"], "ann", "{answer}");
    }
    until_status(&apis[0], &run, "completed").await;
    let events = apis[1].get(&format!("{run}/events?limit=500")).await;
    let events = events["items"].as_array().unwrap();
    for once in ["run.resumed", "step.succeeded", "run.completed"] {
        let count = events.iter().filter(|item| item["type"] == once).count();
        assert_eq!(count, 1, "{once}: {events:?}");
    }
    check_unmatched(&apis, &providers).await;
    check_rehearsal(&apis).await;
    assert_eq!(apis[0].get("/dead").await["items"], json!([]));
}

/// An unmatched reply is listed once, and assigned once.
async fn check_unmatched(apis: &[Api; 2], providers: &[Provider; 2]) {
    let said = apis[1].get("/contacts/ann/activities").await;
    assert_eq!(said["items"].as_array().map(Vec::len), Some(1), "{said}");
    let reply =
        json!({ "from": "eve@home.example", "text": "Call me", "message_id": "2@x.example" });
    let posted = (0..AT_ONCE).map(|at| {
        let (provider, reply) = (&providers[at % 2], &reply);
        async move { provider.posts("m9", Clock::system().now(), reply).await }
    });
    let mut ids = Vec::new();
    for (status, answer) in join_all(posted).await {
        assert_eq!(status, 202, "{answer}");
        ids.push(answer["unmatched"].as_str().unwrap().to_owned());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let path = format!("/hooks/inbound/unmatched/{}/assign", ids[0]);
    let assigned = (0..AT_ONCE).map(|at| {
        let (api, path) = (&apis[at % 2], &path);
        async move { api.post(path, &json!({ "contact": "ann" })).await }
    });
    for answer in join_all(assigned).await {
        let expected = json!({ "recorded": true, "contact": "ann" });
        assert_eq!(answer, (200, expected));
    }
    let said = apis[0].get("/contacts/ann/activities").await;
    assert_eq!(said["items"].as_array().map(Vec::len), Some(2), "{said}");
}

/// A rehearsal that one gateway runs is read, cancelled and deleted at the other one.
async fn check_rehearsal(apis: &[Api; 2]) {
    let contacts: Vec<_> = (0..200)
        .map(|at| json!({ "id": format!("c{at}") }))
        .collect();
    let text = "agent: rehearsed\nsteps: [{ wait: 5 days }, { tool: log, args: { message: x } }]";
    let body = json!({ "text": text, "contacts": contacts });
    let (status, begun) = apis[0].post("/rehearsals", &body).await;
    assert!(status == 201 || status == 202, "{status} {begun}");
    let path = format!("/rehearsals/{}", begun["id"].as_str().unwrap());
    let (status, cancelled) = apis[1].post(&format!("{path}/cancel"), &json!({})).await;
    assert_eq!(status, 200, "{cancelled}");
    let ended = until(PATIENCE, "the rehearsal ends", async || {
        let seen = apis[0].get(&path).await;
        (seen["status"] != "running").then_some(seen)
    });
    let ended = ended.await.unwrap();
    let is_over = ended["status"] == "cancelled" || ended["status"] == "completed";
    assert!(is_over, "{ended}");
    let seen = apis[1].get(&path).await;
    assert_eq!(seen["status"], ended["status"], "{seen}");
    let deleted = apis[1].call(Method::DELETE, &path, &Value::Null).await;
    assert_eq!(deleted.0, 204, "{deleted:?}");
    let (status, gone) = apis[0].call(Method::GET, &path, &Value::Null).await;
    assert_eq!(status, 404, "{gone}");
}

async fn until_status(api: &Api, run: &str, status: &str) {
    let what = format!("{run} is {status}");
    let reached = until(PATIENCE, &what, async || {
        let seen = api.get(run).await;
        (seen["status"] == status).then_some(())
    });
    reached.await.unwrap();
}
