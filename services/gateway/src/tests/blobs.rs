//! Blobs: a step uploads them with its token, and reads them back; operators read them (S1-R9).

use chrono::TimeDelta;
use holdpoint_auth::StepClaims;
use reqwest::Method;
use serde_json::{Value, json};

use super::edge::{Edge, at, refusal, workspace};

const RUN: &str = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";
const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn token(edge: &Edge, run: &str, step: &str) -> String {
    let claims = StepClaims {
        workspace: workspace("default"),
        run: run.parse().unwrap(),
        step: step.to_owned(),
        dispatch: 1,
        expires_at: at() + TimeDelta::minutes(5),
    };
    edge.steps.sign(&claims).unwrap()
}

fn path(query: &str) -> String {
    format!("/runs/{RUN}/steps/a%20step/blobs/{HASH}{query}")
}

fn whole(query: &str) -> String {
    format!("/v1/workspaces/default{}", path(query))
}

/// The replies of the executor.
pub(super) fn played(verb: &str, body: &Value) -> Value {
    let command = &body["command"];
    if verb != "put_blob" {
        let chunk = json!({ "size": 8, "offset": body["offset"], "content": "dGVzdA==" });
        return json!({ "ok": chunk });
    }
    let received = command["offset"].as_u64().unwrap() + 2;
    json!({ "ok": {
        "sha256": command["sha256"], "size": command["size"], "received": received, "complete": false,
    }})
}

async fn put(edge: &Edge, token: &str, query: &str, body: Vec<u8>) -> reqwest::Response {
    let request = edge.bare(Method::PUT, &whole(query)).bearer_auth(token);
    request.body(body).send().await.unwrap()
}

#[tokio::test]
async fn a_step_uploads_with_its_own_token() {
    let edge = Edge::new().await;
    let own = token(&edge, RUN, "a step");
    let response = put(&edge, &own, "?offset=64&size=100", b"\0\xff".to_vec()).await;
    assert_eq!(response.status(), 200);
    let view: Value = response.json().await.unwrap();
    assert_eq!(view["received"], 66, "{view}");
    let (verb, asked) = edge.played.lock().unwrap().asked.pop().unwrap();
    assert_eq!(verb, "put_blob");
    let expected = json!({
        "run": RUN, "token": own, "sha256": HASH, "size": 100, "offset": 64, "content": "AP8=",
    });
    assert_eq!(asked["command"], expected);
    assert_eq!(asked["assertion"], Value::Null);
}

#[tokio::test]
async fn other_callers_and_large_chunks_are_refused() {
    let edge = Edge::new().await;
    let own = token(&edge, RUN, "a step");
    let other_run = token(&edge, "run_0193aaaabbbb7ccc8dddeeeeeeeeeeef", "a step");
    let other_step = token(&edge, RUN, "step-02");
    let chunk = || vec![1; 64];
    for (token, query, body, expected) in [
        (&other_run, "?size=64", chunk(), (404, "not_found")),
        (&other_step, "?size=64", chunk(), (404, "not_found")),
        (&own, "", chunk(), (400, "invalid_query")),
        (&own, "?size=-1", chunk(), (400, "invalid_query")),
        (&own, "?size=1&offset=x", chunk(), (400, "invalid_query")),
        (&own, "?size=1&more=1", chunk(), (400, "invalid_query")),
        (&own, "?size=600000", vec![1; 524_289], (413, "too_large")),
    ] {
        let response = put(&edge, token, query, body).await;
        assert_eq!(refusal(response).await, (expected.0, expected.1.to_owned()));
    }
    let request = edge.request(Method::PUT, &path("?size=64"));
    let response = request.body(chunk()).send().await.unwrap();
    assert_eq!(refusal(response).await, (403, "forbidden".to_owned()));
    for token in [&other_run, &other_step] {
        let request = edge.bare(Method::GET, &whole("")).bearer_auth(token);
        let response = request.send().await.unwrap();
        assert_eq!(refusal(response).await, (404, "not_found".to_owned()));
    }
    assert!(edge.played.lock().unwrap().asked.is_empty());
}

/// The body has all chunks, from the offset on.
#[tokio::test]
async fn a_step_and_an_operator_read_a_blob() {
    let edge = Edge::new().await;
    let own = token(&edge, RUN, "a step");
    let request = edge.bare(Method::GET, &whole("")).bearer_auth(&own);
    let response = request.send().await.unwrap();
    assert_eq!(
        response.headers()["content-type"],
        "application/octet-stream"
    );
    assert_eq!(response.headers()["content-length"], "8");
    assert_eq!(response.bytes().await.unwrap().as_ref(), b"testtest");
    let response = edge.request(Method::GET, &path("?offset=4")).send().await;
    let response = response.unwrap();
    assert_eq!(response.bytes().await.unwrap().as_ref(), b"test");
}
