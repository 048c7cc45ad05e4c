//! Starting and steering runs: what the executor is asked, and what comes back.

use reqwest::Method;
use serde_json::{Value, json};

use super::edge::{Edge, ok};

const RUN: &str = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";

#[tokio::test]
async fn a_contact_that_comes_along_is_stored_first() {
    let edge = Edge::new().await;
    let body = json!({
        "input": {"n": 1},
        "contact": {"id": "ada", "email": "ada@example.org"},
        "labels": {"batch": "7"},
    });
    let response = edge.post("/agents/outreach/runs", body).await;
    assert_eq!(response.status(), 201);
    let run: Value = response.json().await.unwrap();
    assert_eq!(
        (&run["contact"], &run["labels"]),
        (&json!("ada"), &json!({"batch": "7"}))
    );
    let asked = edge.played.lock().unwrap().asked.clone();
    let verbs: Vec<_> = asked.iter().map(|(verb, _)| verb.as_str()).collect();
    assert_eq!(verbs, ["put_contact", "start_run"]);
    assert_eq!(
        asked[0].1["command"]["fields"],
        json!({"email": "ada@example.org"})
    );
    assert_eq!(asked[1].1["actor"], "owner");
    assert_eq!(asked[1].1["command"]["input"], json!({"n": 1}));
}

#[tokio::test]
async fn a_key_is_scoped_and_its_digest_tells_bodies_apart() {
    let edge = Edge::new().await;
    let start = async |path: &str, body: &Value| {
        let request = edge
            .request(Method::POST, path)
            .header("idempotency-key", "k");
        assert_eq!(request.json(body).send().await.unwrap().status(), 201);
        edge.played.lock().unwrap().asked.pop().unwrap().1["key"].clone()
    };
    let first = start("/agents/a/runs", &json!({})).await;
    assert_eq!(first, start("/agents/a/runs", &json!({})).await);
    let other_body = start("/agents/a/runs", &json!({"input": 1})).await;
    assert_eq!(first["key"], other_body["key"]);
    assert_ne!(first["digest"], other_body["digest"]);
    assert_ne!(
        first["key"],
        start("/agents/b/runs", &json!({})).await["key"]
    );
}

#[tokio::test]
async fn a_batch_answers_line_by_line() {
    let edge = Edge::new().await;
    let request = edge.request(Method::POST, "/agents/outreach/runs:batch");
    let request = request.header("content-type", "application/x-ndjson");
    let request = request.header("idempotency-key", "k");
    let body = "{\"labels\": {\"n\": \"1\"}}\n{oops\n\n{\"labels\": {\"n\": \"4\"}}\n";
    let results = ok(request.body(body).send().await.unwrap()).await;
    let items = results["items"].as_array().unwrap();
    let seen: Vec<_> = items
        .iter()
        .map(|it| (&it["line"], &it["status"]))
        .collect();
    let (one, two, four) = (json!(1), json!(2), json!(4));
    assert_eq!(
        seen,
        [
            (&one, &json!(201)),
            (&two, &json!(400)),
            (&four, &json!(201))
        ]
    );
    assert_eq!(items[0]["run"]["labels"]["n"], "1");
    assert_eq!(items[1]["problem"]["code"], "invalid_json");
    let asked = edge.played.lock().unwrap().asked.clone();
    assert_ne!(asked[0].1["key"]["key"], asked[1].1["key"]["key"]);
}

#[tokio::test]
async fn a_refusal_of_the_executor_passes_through() {
    let edge = Edge::new().await;
    let response = edge.post("/agents/nobody/runs", json!({})).await;
    assert_eq!(
        super::edge::refusal(response).await,
        (404, "not_found".to_owned())
    );
}

/// S0-AC4
#[tokio::test]
async fn pause_resume_cancel_and_retry_take_no_body_or_a_small_one() {
    let edge = Edge::new().await;
    for (path, body, command) in [
        ("pause", None, json!({"run": RUN})),
        ("pause", Some(json!({})), json!({"run": RUN})),
        ("resume", None, json!({"run": RUN, "mode": "continue"})),
        (
            "resume",
            Some(json!({"mode": "restart"})),
            json!({"run": RUN, "mode": "restart"}),
        ),
        ("resume?mode=now", None, json!({"run": RUN, "mode": "now"})),
        ("cancel", None, json!({"run": RUN, "reason": null})),
        (
            "cancel",
            Some(json!({"reason": "x"})),
            json!({"run": RUN, "reason": "x"}),
        ),
        ("suspend", None, json!({"run": RUN, "reason": null})),
        (
            "suspend",
            Some(json!({"reason": "x"})),
            json!({"run": RUN, "reason": "x"}),
        ),
        (
            "resume",
            Some(json!({"step": {"complete_with": {"result": 1}}})),
            json!({"run": RUN, "mode": "continue", "step": {"complete_with": {"result": 1}}}),
        ),
        ("retry", None, json!({"run": RUN, "from_step": null})),
        (
            "retry",
            Some(json!({"from_step": "pay"})),
            json!({"run": RUN, "from_step": "pay"}),
        ),
    ] {
        let request = edge.request(Method::POST, &format!("/runs/{RUN}/{path}"));
        let request = body.iter().fold(request, |it, body| it.json(body));
        let run = ok(request.send().await.unwrap()).await;
        assert_eq!((&run["id"], &run["changed"]), (&json!(RUN), &json!(true)));
        let asked = edge.played.lock().unwrap().asked.pop().unwrap();
        assert_eq!(asked.1["command"], command, "{path}");
    }
}

/// Gate 4: a signal needs a name. Its data and its key are optional.
#[tokio::test]
async fn a_signal_has_a_name_and_perhaps_data_and_a_key() {
    let edge = Edge::new().await;
    let path = format!("/runs/{RUN}/signal");
    for (body, command) in [
        (
            json!({"name": "paid"}),
            json!({"run": RUN, "name": "paid", "data": null}),
        ),
        (
            json!({"name": "paid", "data": [1], "key": "tx"}),
            json!({"run": RUN, "name": "paid", "data": [1], "key": "tx"}),
        ),
    ] {
        let run = ok(edge.post(&path, body).await).await;
        assert_eq!(run["changed"], true);
        let asked = edge.played.lock().unwrap().asked.pop().unwrap();
        assert_eq!(asked.1["command"], command);
    }
    for body in [json!({}), json!({"name": 5}), json!({"name": "a", "x": 1})] {
        let response = edge.post(&path, body).await;
        assert_eq!(
            super::edge::refusal(response).await,
            (422, "invalid_body".to_owned())
        );
    }
}

/// S2-R12: what a run lacks is an answer to its request, which the owner of the request decides.
#[tokio::test]
async fn what_a_run_lacks_is_answered_at_the_owner_of_the_question() {
    let edge = Edge::new().await;
    let path = format!("/runs/{RUN}/confirm");
    let body = json!({ "answers": { "region": "north" } });
    let response = edge.post(&path, body.clone()).await;
    assert_eq!(response.status(), 409);
    let problem: Value = response.json().await.unwrap();
    assert_eq!(problem["code"], "nothing_asked");
    let on = |step: &str, number: u32| {
        serde_json::from_value(json!({
            "id": format!("hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-{number}"),
            "kind": "input", "step": step, "since": "2026-03-02T09:00:00.000Z",
            "until": null, "remaining_ms": null, "then": "",
        }))
        .unwrap()
    };
    edge.played.lock().unwrap().waiting_on = vec![on("step-01", 2), on("", 1)];
    let response = edge.post(&path, body).await;
    assert_eq!(response.status(), 200);
    let decided: Value = response.json().await.unwrap();
    assert_eq!(
        (&decided["recorded"], &decided["effect"]),
        (&json!(true), &json!("applied"))
    );
    let asked = edge.played.lock().unwrap().asked.clone();
    let verbs: Vec<_> = asked.iter().map(|(verb, _)| verb.as_str()).collect();
    assert_eq!(verbs, ["decide_request"]);
    let command = &asked[0].1["command"];
    assert_eq!(command["id"], "hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1");
    assert_eq!(
        command["decision"]["respond"]["answer"],
        json!({ "region": "north" })
    );
}
