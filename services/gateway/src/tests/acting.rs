//! Acting on requests and runs: what their owners are asked, by whom, as it was seen.

use holdpoint_ids::HoldId;
use reqwest::Method;
use serde_json::{Value, json};

use super::edge::{Edge, ok, refusal};
use super::handoff::REQUEST;

const RUN: &str = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";
const OTHER: &str = "hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-2";

fn asked(edge: &Edge) -> (String, Value) {
    let (verb, envelope) = edge.played.lock().unwrap().asked.pop().unwrap();
    (verb, envelope["command"].clone())
}

/// Barge-in: any live run, by its own id; nobody's body says anything more.
#[tokio::test]
async fn an_operator_takes_a_run_over_by_its_id() {
    let edge = Edge::new().await;
    let path = format!("/runs/{RUN}/take-over");
    let taken = edge.post(&path, json!({})).await;
    assert_eq!(taken.status(), 200);
    let taken: Value = taken.json().await.unwrap();
    assert_eq!(
        (&taken["id"], &taken["changed"]),
        (&json!(RUN), &json!(true))
    );
    assert_eq!(
        asked(&edge),
        ("take_over_run".to_owned(), json!({ "run": RUN }))
    );
    let refused = edge.post(&path, json!({ "by": "bob" })).await;
    assert_eq!(refusal(refused).await, (422, "invalid_body".to_owned()));
    let refused = edge.post("/runs/nothing/take-over", json!({})).await;
    assert_eq!(refused.status(), 404);
    let operator = edge.token_of("owner", Some("member")).await;
    let refused = edge.as_whom(&operator, Method::POST, &path).await;
    assert_eq!(refusal(refused).await, (403, "forbidden".to_owned()));
}

/// S0-T4: between both the executor may have been notified that nobody watches the agent, and it is asked again before
/// the follower is answered; who follows already changes nothing.
#[tokio::test]
async fn the_executor_knows_who_follows_an_agent_before_they_are_answered() {
    let edge = Edge::new().await;
    edge.play("notification").await;
    let agent = json!({ "agent": "outreach" });
    for (status, verbs) in [
        (201, &["watch_run_ends", "watch", "watch_run_ends"][..]),
        (200, &["watch_run_ends", "watch"]),
    ] {
        let before = edge.played.lock().unwrap().asked.len();
        let answer = edge.post("/watches", agent.clone()).await;
        assert_eq!(answer.status(), status);
        let asked = &edge.played.lock().unwrap().asked;
        let asked: Vec<_> = asked[before..].iter().map(|(verb, _)| &**verb).collect();
        assert_eq!(asked, verbs);
    }
}

/// Mend C-10: a run that ends after a webhook was added is delivered, also where the desired state of the
/// notification service is still on its way. An executor that does not answer refuses no webhook.
#[tokio::test]
async fn the_executor_knows_of_a_webhook_for_run_ends_before_it_is_answered() {
    let watched = ["watch_run_ends", "add_webhook", "watch_run_ends"];
    for (events, verbs) in [
        (json!(["run.completed"]), &watched[..]),
        (json!(["request.opened", "*"]), &watched),
        (json!(["request.opened"]), &watched[1..2]),
    ] {
        let edge = Edge::new().await;
        edge.play("notification").await;
        let webhook = json!({ "url": "https://x.example", "events": events });
        assert_eq!(edge.post("/webhooks", webhook.clone()).await.status(), 201);
        assert_eq!(edge.verbs(), verbs);
        let path = "/webhooks/wh_0193aaaabbbb7ccc8dddeeeeeeeeeeee";
        ok(edge.put(path, webhook).await).await;
        let verbs = verbs.iter().map(|verb| verb.replace("add", "change"));
        assert_eq!(edge.verbs()[verbs.len()..], verbs.collect::<Vec<_>>());
        let of = &edge.played.lock().unwrap().asked[0].1["command"]["of"];
        assert!(of.is_null() || *of == json!(["all"]), "{of}");
    }
    let edge = Edge::without_executor().await;
    edge.play("notification").await;
    let webhook = json!({ "url": "https://x.example", "events": ["*"] });
    assert_eq!(edge.post("/webhooks", webhook).await.status(), 201);
}

/// Mend: a batch of decisions tells its problems as every other answer does (RFC 9457).
#[tokio::test]
async fn a_refused_decision_of_a_batch_is_a_whole_problem() {
    let edge = Edge::new().await;
    let mut refusal = super::edge::problem(409, "already_decided")["problem"].take();
    refusal["data"] = json!({ "winner": "bob" });
    edge.played.lock().unwrap().refusal = Some(refusal);
    let batch = json!({ "ids": [REQUEST], "decision": { "approve": {} } });
    let results = ok(edge.post("/requests:batch", batch).await).await;
    let problem = &results["items"][0]["problem"];
    assert_eq!(problem["type"], "urn:holdpoint:problem:already_decided");
    assert_eq!(
        (&problem["title"], &problem["winner"]),
        (&json!("Conflict"), &json!("bob"))
    );
}

/// Words 3: every way to approve refuses a plan that is edited and not valid, before it is recorded.
#[tokio::test]
async fn an_edited_plan_is_checked_wherever_it_is_approved() {
    let edge = Edge::new().await;
    let edited = json!({ "edited_args": { "steps": [] } });
    let path = format!("/requests/{REQUEST}/approve");
    let invalid = (422, "invalid_plan".to_owned());
    assert_eq!(
        refusal(edge.post(&path, edited.clone()).await).await,
        invalid
    );
    let mut batch = json!({ "ids": [REQUEST], "decision": { "approve": edited } });
    let results = ok(edge.post("/requests:batch", batch.clone()).await).await;
    let problem = &results["items"][0]["problem"];
    assert_eq!(problem["code"], "invalid_plan", "{results}");
    batch["atomic"] = json!(true);
    let refused = edge.post("/requests:batch", batch).await;
    assert_eq!(refusal(refused).await, invalid);
    assert!(edge.verbs().is_empty(), "nothing was decided");
}

/// A person may repeat a decision after they have lost the request. The reply shows what any other reply does (A-M2).
#[tokio::test]
async fn a_reply_to_a_decision_is_redacted() {
    let edge = Edge::new().await;
    edge.user("mia", &["member"]).await;
    let tokens = [edge.token_of("mia", None).await, edge.token.clone()];
    for (token, is_redacted) in tokens.iter().zip([true, false]) {
        let path = format!("/v1/workspaces/default/requests/{REQUEST}/approve");
        let request = edge.bare(Method::POST, &path).bearer_auth(token);
        let decided = ok(request.json(&json!({})).send().await.unwrap()).await;
        let redacted = decided["request"]["redacted"].as_bool();
        assert_eq!(redacted.unwrap_or(false), is_redacted, "{decided}");
    }
}

/// Issue 4, version on every decision: each way to decide says what was seen.
#[tokio::test]
async fn every_way_to_decide_says_which_version_was_seen() {
    let edge = Edge::new().await;
    let decision = json!({ "approve": { "comment": null } });
    let batch = json!({ "ids": [REQUEST], "decision": decision, "versions": { REQUEST: 7 } });
    ok(edge.post("/requests:batch", batch.clone()).await).await;
    assert_eq!(asked(&edge).1["version"], 7);
    let mut wrong = batch;
    wrong["versions"] = json!({ OTHER: 7 });
    let refused = edge.post("/requests:batch", wrong).await;
    let problem: Value = refused.json().await.unwrap();
    assert_eq!(
        problem["errors"][0]["pointer"],
        format!("/versions/{OTHER}")
    );

    let on = serde_json::from_value(json!({
        "id": REQUEST, "kind": "input", "step": "", "since": "2026-03-02T09:00:00.000Z",
        "until": null, "remaining_ms": null, "then": "",
    }));
    edge.played.lock().unwrap().waiting_on = vec![on.unwrap()];
    let answers = json!({ "answers": { "region": "north" }, "version": 3 });
    ok(edge.post(&format!("/runs/{RUN}/confirm"), answers).await).await;
    assert_eq!(asked(&edge).1["version"], 3);
}

/// The same of every way that leads through one request, whether it ends it or not. Mend C-5: an answer is
/// called `answer` or `response` on both routes.
#[tokio::test]
async fn every_verb_of_a_request_says_which_version_was_seen() {
    let edge = Edge::new().await;
    edge.play("notification").await;
    let on = |verb: &str| format!("/requests/{REQUEST}/{verb}");
    let respond = format!("/notifications/note_{}/respond", &REQUEST[5..]);
    let to = json!({ "to": "@user.bob" });
    let ways = [
        (on("respond"), json!({ "answer": "yes" })),
        (on("approve"), json!({})),
        (on("reject"), json!({ "reason": "no" })),
        (on("complete"), json!({ "disposition": "finish" })),
        (on("accept"), json!({})),
        (on("take-over"), json!({})),
        (on("reassign"), to.clone()),
        (on("delegate"), to),
        (on("acknowledge"), json!({})),
        (on("snooze"), json!({ "for": "1h" })),
        (on("withdraw"), json!({})),
        (on("respond"), json!({ "response": "yes" })),
        (respond.clone(), json!({ "response": "yes" })),
        (respond, json!({ "answer": "yes" })),
    ];
    for (path, mut body) in ways {
        body["version"] = json!(7);
        let done = edge.post(&path, body).await;
        assert_eq!(done.status(), 200, "{path}");
        let (verb, command) = asked(&edge);
        assert_eq!(command["version"], 7, "{path}: {verb}");
        assert_eq!(command["id"], REQUEST, "{path}: {verb}");
    }
}

/// Issue 4, "version on every decision": taking back by `DELETE` too, in the query or the body.
#[tokio::test]
async fn a_hold_is_deleted_as_it_was_seen() {
    let edge = Edge::new().await;
    let path = format!("/holds/{REQUEST}");
    let delete = async |query: &str, body: Option<Value>| {
        let request = edge.request(Method::DELETE, &format!("{path}{query}"));
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        request.send().await.unwrap()
    };
    for (query, body, seen) in [
        ("", None, Value::Null),
        ("?version=7", None, json!(7)),
        ("", Some(json!({ "version": 7 })), json!(7)),
    ] {
        assert_eq!(delete(query, body).await.status(), 200, "{query}");
        let (verb, command) = asked(&edge);
        assert_eq!(
            (verb.as_str(), &command["version"]),
            ("withdraw_hold", &seen)
        );
    }
    for (query, body, refused) in [
        ("?version=soon", None, (400, "invalid_query")),
        ("?seen=7", None, (400, "invalid_query")),
        (
            "?version=7",
            Some(json!({ "version": 7 })),
            (400, "invalid_query"),
        ),
        ("", Some(json!({ "seen": 7 })), (422, "invalid_body")),
    ] {
        let (status, code) = refusal(delete(query, body).await).await;
        assert_eq!((status, code.as_str()), refused, "{query}");
    }
}

/// Issue 4, ask again: a new request that names the old one; whom and how long may be others.
#[tokio::test]
async fn what_ended_without_an_answer_is_asked_again() {
    let edge = Edge::new().await;
    let path = format!("/requests/{REQUEST}/ask-again");
    for (body, to, timeout_ms) in [
        (json!({}), Value::Null, Value::Null),
        (
            json!({ "to": "@role.ops" }),
            json!(["@role.ops"]),
            Value::Null,
        ),
        (
            json!({ "to": ["@user.a", "@user.b"], "timeout": "2h" }),
            json!(["@user.a", "@user.b"]),
            json!(7_200_000),
        ),
    ] {
        let opened = edge.post(&path, body.clone()).await;
        assert_eq!(opened.status(), 201, "{body}");
        let opened: Value = opened.json().await.unwrap();
        let again = REQUEST.parse::<HoldId>().unwrap().asked_again();
        assert_eq!(opened["id"], again.to_string(), "however often, one");
        let (verb, command) = asked(&edge);
        assert_eq!(verb, "ask_again");
        assert_eq!(
            (&command["again"], &command["id"]),
            (&json!(REQUEST), &opened["id"])
        );
        assert_eq!(
            (&command["to"], &command["timeout_ms"]),
            (&to, &timeout_ms),
            "{body}"
        );
    }
    let refused = edge.post(&path, json!({ "timeout": "soon" })).await;
    assert_eq!(refusal(refused).await, (422, "invalid_body".to_owned()));
}
