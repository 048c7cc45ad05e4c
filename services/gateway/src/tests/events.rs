//! History as pages and live, without gap and without repetition.

use std::time::Duration;

use holdpoint_contracts::history::EventType;
use holdpoint_ids::RunId;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::edge::{Edge, ok, refusal};

const PATIENCE: Duration = Duration::from_secs(10);

async fn live(edge: &Edge, run: RunId, last: Option<&str>) -> Response {
    let request = edge.request(Method::GET, &format!("/runs/{run}/events"));
    let request = request.header("accept", "text/event-stream");
    let request = last
        .iter()
        .fold(request, |it, last| it.header("last-event-id", *last));
    request.send().await.unwrap()
}

/// Reads until the text holds so many whole events.
async fn read(response: &mut Response, text: &mut String, events: usize) {
    while text.matches("\n\n").count() < events {
        let chunk = tokio::time::timeout(Duration::from_secs(4), response.chunk()).await;
        let chunk = chunk
            .expect("an event within the fall-back")
            .unwrap()
            .expect("an open stream");
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
}

#[tokio::test]
async fn pages_of_history_follow_each_other() {
    let (edge, run) = (Edge::new().await, RunId::fresh());
    for _ in 0..3 {
        edge.happens(run, EventType::StepCalled).await;
    }
    let first = ok(edge.get(&format!("/runs/{run}/events?limit=2")).await).await;
    assert_eq!(
        (
            first["items"].as_array().unwrap().len(),
            &first["next_cursor"]
        ),
        (2, &json!("2"))
    );
    let second = ok(edge
        .get(&format!("/runs/{run}/events?cursor=2&limit=2"))
        .await)
    .await;
    assert_eq!(
        (&second["items"][0]["seq"], &second["next_cursor"]),
        (&json!(3), &Value::Null)
    );
    let same = ok(edge.get(&format!("/runs/{run}/events?after=2")).await).await;
    assert_eq!(same["items"], second["items"]);
}

#[tokio::test]
async fn an_event_is_sent_at_once_and_the_stream_ends_with_the_run() {
    let (edge, run) = (Edge::new().await, RunId::fresh());
    edge.happens(run, EventType::RunStarted).await;
    let mut response = live(&edge, run, None).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    let mut text = String::new();
    read(&mut response, &mut text, 1).await;
    edge.happens(RunId::fresh(), EventType::StepCalled).await;
    edge.happens(run, EventType::RunCompleted).await;
    read(&mut response, &mut text, 3).await;
    assert_eq!(response.chunk().await.unwrap(), None);
    let lines = |prefix: &str| -> Vec<String> {
        text.lines()
            .filter_map(|line| line.strip_prefix(prefix))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(lines("id: "), ["1", "2", "3"]);
    assert_eq!(
        lines("event: "),
        ["run.started", "step.called", "run.completed"]
    );
    let data: Value = serde_json::from_str(&lines("data: ")[2]).unwrap();
    assert_eq!(
        (&data["seq"], &data["type"]),
        (&json!(3), &json!("run.completed"))
    );
}

#[tokio::test]
async fn a_reader_that_comes_back_misses_nothing() {
    let (edge, run) = (Edge::new().await, RunId::fresh());
    for _ in 0..700 {
        edge.happens(run, EventType::StepCalled).await;
    }
    edge.happens(run, EventType::RunCompleted).await;
    let text = live(&edge, run, Some("3")).await.text().await.unwrap();
    let ids: Vec<u64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("id: ")?.parse().ok())
        .collect();
    assert_eq!(ids, (4..=701).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_last_event_id_that_is_none_is_refused() {
    let (edge, run) = (Edge::new().await, RunId::fresh());
    edge.happens(run, EventType::RunStarted).await;
    for wrong in ["x", "2"] {
        let response = live(&edge, run, Some(wrong)).await;
        assert_eq!(
            refusal(response).await,
            (400, "invalid_last_event_id".to_owned()),
            "{wrong}"
        );
    }
}

/// Ground, "Identity": a user who is disabled, or whose token is revoked, gets no more events of an open stream.
#[tokio::test]
async fn a_user_without_the_right_to_look_gets_no_more_events() {
    for is_disabled in [true, false] {
        let (edge, run) = (Edge::new().await, RunId::fresh());
        edge.user("ada", &["member"]).await;
        let ada = edge.token_of("ada", None).await;
        edge.happens(run, EventType::RunStarted).await;
        let path = format!("/runs/{run}/events");
        let mut response = edge.live_as(&ada, &path).await;
        let mut text = String::new();
        read(&mut response, &mut text, 1).await;
        if is_disabled {
            let gone = edge.request(Method::DELETE, "/users/ada").send().await;
            assert_eq!(gone.unwrap().status(), 200);
        } else {
            edge.revoke("ada").await;
        }
        edge.happens(run, EventType::StepCalled).await;
        let ends = async {
            while let Some(chunk) = response.chunk().await.unwrap() {
                text.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        };
        let ended = tokio::time::timeout(PATIENCE, ends).await;
        assert!(ended.is_ok(), "disabled: {is_disabled}: it goes on");
        assert!(
            text.contains("run.started") && !text.contains("step.called"),
            "disabled: {is_disabled}: {text}"
        );
    }
}
