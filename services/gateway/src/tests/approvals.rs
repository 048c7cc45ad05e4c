//! Deciding gated steps of a run: which requests are decided, and what is refused before any is.

use reqwest::Method;
use serde_json::{Value, json};

use super::edge::{Edge, ok, refusal};
use super::handoff::REQUEST;

const PATH: &str = "/runs/run_0193aaaabbbb7ccc8dddeeeeeeeeeeee/approve";

/// A run whose only step waits for an approval.
async fn waiting() -> Edge {
    let edge = Edge::new().await;
    let on = json!({
        "id": REQUEST, "kind": "approval", "step": "step-01", "since": "2026-03-02T09:00:00.000Z",
        "until": null, "remaining_ms": null, "then": "",
    });
    edge.played.lock().unwrap().waiting_on = vec![serde_json::from_value(on).unwrap()];
    edge
}

fn decided(edge: &Edge) -> Vec<Value> {
    let asked = edge.played.lock().unwrap().asked.clone();
    let decided = asked
        .into_iter()
        .filter(|(verb, _)| verb == "decide_request");
    decided.map(|(_, envelope)| envelope).collect()
}

/// S2-R4: each step is decided as its request, under either name of the fields.
#[tokio::test]
async fn a_step_is_decided_as_its_request() {
    let edge = waiting().await;
    let args = json!({ "amount": 125 });
    for body in [
        json!({ "approved_steps": ["step-01"], "edited_args": { "step-01": args },
            "digests": { "step-01": "8f43" }, "comment": "half" }),
        json!({ "approvedSteps": ["step-01"], "editedArgs": { "step-01": args },
            "digests": { "step-01": "8f43" }, "comment": "half" }),
    ] {
        let reply = ok(edge.post_under("k", PATH, body).await).await;
        let item = &reply["items"][0];
        assert_eq!(
            (&item["step"], &item["request"]),
            (&json!("step-01"), &json!(REQUEST))
        );
        assert_eq!(
            (&item["recorded"], &item["effect"]),
            (&json!(true), &json!("applied"))
        );
        let envelope = decided(&edge).pop().unwrap();
        let approve = json!({ "comment": "half", "edited_args": args, "digest": "8f43" });
        assert_eq!(
            envelope["command"]["decision"],
            json!({ "approve": approve })
        );
        assert_eq!(envelope["command"]["id"], REQUEST);
        assert!(envelope["key"]["key"].is_string(), "{envelope}");
    }
    let body = json!({ "rejectedSteps": ["step-01"], "comment": "too much" });
    ok(edge.post(PATH, body).await).await;
    let decision = decided(&edge).pop().unwrap()["command"]["decision"].clone();
    assert_eq!(decision, json!({ "reject": { "reason": "too much" } }));
}

/// Nothing is decided if the body is wrong, or a step cannot be decided.
#[tokio::test]
async fn a_wrong_step_decides_nothing() {
    let edge = waiting().await;
    let too_many: Vec<_> = (0..1_001).map(|n| format!("s{n}")).collect();
    for (body, code) in [
        (json!({}), "invalid_body"),
        (json!({ "approved_steps": too_many }), "invalid_body"),
        (
            json!({ "approved_steps": ["step-01", "step-01"] }),
            "invalid_body",
        ),
        (
            json!({ "approved_steps": ["step-01"], "rejected_steps": ["step-01"], "comment": "no" }),
            "invalid_body",
        ),
        (
            json!({ "rejected_steps": ["step-01"], "comment": " " }),
            "invalid_body",
        ),
        (
            json!({ "approved_steps": ["step-01"], "edited_args": { "step-02": {} } }),
            "invalid_body",
        ),
        (
            json!({ "rejected_steps": ["step-01"], "comment": "no", "digests": { "step-01": "d" } }),
            "invalid_body",
        ),
        (
            json!({ "approved_steps": ["step-01"], "comment": "x".repeat(10_001) }),
            "invalid_body",
        ),
        (
            json!({ "approved_steps": ["step-01", "step-09"] }),
            "unknown_step",
        ),
    ] {
        let refused = edge.post(PATH, body).await;
        assert_eq!(refusal(refused).await, (422, code.to_owned()));
    }
    edge.played.lock().unwrap().waiting_on.clear();
    let body = json!({ "approved_steps": ["step-01"] });
    let refused = edge.post(PATH, body).await;
    assert_eq!(
        refusal(refused).await,
        (409, "not_reviewable_yet".to_owned())
    );
    assert_eq!(decided(&edge), Vec::<Value>::new());
}

/// A refused request is a problem of its step, with pointers into this body.
#[tokio::test]
async fn a_refusal_belongs_to_its_step() {
    let edge = waiting().await;
    edge.played.lock().unwrap().refusal = Some(json!({
        "status": 422, "code": "invalid_answer", "detail": "played",
        "errors": [{ "pointer": "/decision/approve/edited_args", "message": "expected an object" }],
    }));
    let body = json!({ "approved_steps": ["step-01"], "edited_args": { "step-01": 7 } });
    let reply = ok(edge.post(PATH, body).await).await;
    let item = &reply["items"][0];
    assert_eq!(item["recorded"], Value::Null);
    assert_eq!(item["problem"]["code"], "invalid_answer");
    assert_eq!(
        item["problem"]["errors"][0]["pointer"],
        "/edited_args/step-01"
    );
}

#[tokio::test]
async fn a_viewer_decides_no_step() {
    let edge = waiting().await;
    let viewer = edge.token_of("owner", Some("viewer")).await;
    let refused = edge.as_whom(&viewer, Method::POST, PATH).await;
    assert_eq!(refusal(refused).await, (403, "forbidden".to_owned()));
}
