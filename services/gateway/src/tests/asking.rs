//! Tools that ask people while their step runs.

use chrono::TimeDelta;
use holdpoint_auth::StepClaims;
use reqwest::Method;
use serde_json::{Value, json};

use super::edge::{Edge, at, refusal, workspace};

const RUN: &str = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";

fn step_token(edge: &Edge) -> String {
    let claims = StepClaims {
        workspace: workspace("default"),
        run: RUN.parse().unwrap(),
        step: "step-01".to_owned(),
        dispatch: 1,
        expires_at: at() + TimeDelta::minutes(5),
    };
    edge.steps.sign(&claims).unwrap()
}

async fn ask(edge: &Edge, token: &str, body: &Value) -> reqwest::Response {
    let path = format!("/v1/workspaces/default/runs/{RUN}/request-input");
    let request = edge.bare(Method::POST, &path).bearer_auth(token);
    request.json(body).send().await.unwrap()
}

/// S3-R2: a step asks by its own token, which alone says which step that is.
#[tokio::test]
async fn a_step_asks_by_its_own_token() {
    let edge = Edge::new().await;
    let token = step_token(&edge);
    let body = json!({ "question": "Refund?", "options": ["yes", "no"], "key": "k", "mode": "park",
        "step": "another" });
    let response = ask(&edge, &token, &body).await;
    assert_eq!(response.status(), 202);
    let asked: Value = response.json().await.unwrap();
    assert_eq!(asked["request_id"], super::handoff::REQUEST);
    assert!(
        asked["notification_id"]
            .as_str()
            .unwrap()
            .starts_with("note_")
    );
    let asked = edge.played.lock().unwrap().asked.pop().unwrap();
    assert_eq!(asked.0, "request_input");
    assert_eq!(asked.1["command"]["token"], token);
    assert_eq!(asked.1["command"]["step"], Value::Null);
    assert_eq!(asked.1["command"]["question"]["mode"], "park");
    assert_eq!(
        asked.1["assertion"],
        Value::Null,
        "nobody vouches for a step but its token"
    );
}

/// S3-R2: a user with a token asks for a step, with a signed assertion as always.
#[tokio::test]
async fn a_user_asks_for_a_step() {
    let edge = Edge::new().await;
    let owner = edge.token_of("owner", None).await;
    let body = json!({ "question": "Refund?", "step": "step-01" });
    assert_eq!(ask(&edge, &owner, &body).await.status(), 202);
    let asked = edge.played.lock().unwrap().asked.pop().unwrap().1;
    assert_eq!(asked["command"]["step"], "step-01");
    assert!(asked["assertion"].is_string());
    assert_eq!(asked["command"]["token"], Value::Null);
}

/// Bad input reaches nobody, and says where it is wrong.
#[tokio::test]
async fn a_bad_question_says_where() {
    let edge = Edge::new().await;
    let token = step_token(&edge);
    for (body, pointer) in [
        (json!({}), ""),
        (json!({ "question": 7 }), "/question"),
        (
            json!({ "question": "?", "options": [true, false] }),
            "/options",
        ),
        (json!({ "question": "?", "mode": "wait" }), "/mode"),
        (json!({ "question": "?", "timeout": "5m" }), "/timeout"),
        (json!({ "question": "?", "token": "x" }), "/token"),
    ] {
        let response = ask(&edge, &token, &body).await;
        assert_eq!(response.status(), 422, "{body}");
        let problem: Value = response.json().await.unwrap();
        assert_eq!(
            problem["errors"][0]["pointer"], pointer,
            "{body}: {problem}"
        );
    }
    assert!(edge.verbs().is_empty());
    let forged = format!("{}AAAA", &token[..token.len() - 4]);
    let refused = ask(&edge, &forged, &json!({ "question": "?" })).await;
    assert_eq!(refusal(refused).await.0, 401);
}
