//! Alive without anybody, ready only with everybody.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

use super::edge::{Edge, LACKS, ok};

#[tokio::test]
async fn it_is_alive_alone_and_ready_with_an_executor() {
    let alone = Edge::without_executor().await;
    let live = alone.bare(Method::GET, "/livez").send().await.unwrap();
    assert_eq!(ok(live).await["status"], "live");
    let ready = alone.bare(Method::GET, "/readyz").send().await.unwrap();
    assert_eq!(ready.status(), 503);
    let problem: Value = ready.json().await.unwrap();
    assert_eq!(problem["code"], "not_ready");
    assert_eq!(
        problem["errors"][0]["message"],
        "the executor service does not answer"
    );

    let together = Edge::new().await;
    let ready = together.bare(Method::GET, "/readyz").send().await.unwrap();
    assert!(ready.headers().contains_key("x-request-id"));
    assert_eq!(ok(ready).await["status"], "ready");
    // A kernel of the same process that cannot publish.
    std::fs::write(together.dir.path().join(LACKS), "JetStream is full").unwrap();
    let ready = together.bare(Method::GET, "/readyz").send().await.unwrap();
    assert_eq!(ready.status(), 503);
    let problem: Value = ready.json().await.unwrap();
    assert_eq!(problem["errors"][0]["message"], "JetStream is full");
}

#[tokio::test]
async fn a_service_that_is_down_is_answered_with_503() {
    let edge = Edge::without_executor().await;
    let response = edge.get("/runs").await;
    assert_eq!(
        super::edge::refusal(response).await,
        (503, "unavailable".to_owned())
    );
}

#[tokio::test]
async fn it_ends_at_once_though_a_stream_is_open() {
    let mut edge = Edge::new().await;
    let path = "/runs/run_0193aaaabbbb7ccc8dddeeeeeeeeeeee/events";
    let request = edge
        .request(Method::GET, path)
        .header("accept", "text/event-stream");
    let open = request.send().await.unwrap();
    assert_eq!(open.status(), 200);
    edge.stop.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(5), &mut edge.serving).await;
    ended.unwrap().unwrap();
    assert_eq!(open.text().await.unwrap(), "");
}
