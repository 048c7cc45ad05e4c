//! Requests, holds, scopes and tools: what their owners are asked, and what comes back.

use std::time::{Duration, Instant};

use holdpoint_contracts::subject;
use holdpoint_testkit::until;
use reqwest::Method;
use serde_json::{Value, json};

use super::edge::{Edge, ok, refusal, workspace};
use super::handoff::REQUEST;

/// M-6
#[tokio::test]
async fn a_hold_needs_no_agent() {
    let edge = Edge::new().await;
    let body = json!({
        "kind": "approval", "question": "Deploy 4.2?", "to": "@role.ops", "timeout": "2h",
        "data": {"version": "4.2"},
    });
    let opened = edge.post("/holds", body).await;
    assert_eq!(opened.status(), 201);
    let opened: Value = opened.json().await.unwrap();
    assert_eq!(
        (&opened["kind"], &opened["status"]),
        (&json!("approval"), &json!("open"))
    );
    assert!(opened["deadline"].is_string());
    let asked = edge.played.lock().unwrap().asked.pop().unwrap();
    let command = &asked.1["command"];
    assert_eq!(
        (asked.0.as_str(), &command["id"]),
        ("open_hold", &opened["id"])
    );
    assert_eq!(command["timeout_ms"], 7_200_000);
    assert_eq!(command["spec"]["to"], json!(["@role.ops"]));
    assert_eq!(command["spec"]["context"], json!({"version": "4.2"}));
    let callback = json!({"kind": "timer", "wait": "1s", "callback": {"url": "http://x"}});
    assert_eq!(
        refusal(edge.post("/holds", callback).await).await,
        (422, "invalid_body".to_owned())
    );
    let back = edge
        .request(Method::DELETE, &format!("/holds/{REQUEST}"))
        .send()
        .await
        .unwrap();
    assert_eq!(ok(back).await["status"], "withdrawn");
}

/// API, `GET /requests/{id}?wait=30s`
#[tokio::test]
async fn a_long_poll_ends_with_the_decision_or_with_its_time() {
    let edge = Edge::new().await;
    // Whatever people do with it short of deciding: nobody has decided.
    for status in ["open", "accepted", "taken_over"] {
        edge.played.lock().unwrap().request_status = status.to_owned();
        let began = Instant::now();
        let open = ok(edge.get(&format!("/requests/{REQUEST}?wait=300ms")).await).await;
        assert_eq!(open["status"], status);
        assert!(began.elapsed() >= Duration::from_millis(300));
    }
    let nudge = async |id: &str| {
        let body = json!({"requests": {id: 2}}).to_string();
        let subject = subject::live(&workspace("default"), "handoff");
        edge.bus.send(subject, body.into()).await.unwrap();
    };
    let deciding = async {
        let queries = || edge.played.lock().unwrap().queries;
        let before = queries();
        let is_querying = async || (queries() > before).then_some(());
        until(Duration::from_secs(10), "the poll to begin", is_querying)
            .await
            .unwrap();
        // Of another request nobody looks here.
        let after = queries();
        nudge("hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-2").await;
        edge.played.lock().unwrap().request_status = "decided".to_owned();
        nudge(REQUEST).await;
        after
    };
    let began = Instant::now();
    let path = format!("/holds/{REQUEST}?wait=30s");
    let (response, asked) = tokio::join!(edge.get(&path), deciding);
    assert_eq!(ok(response).await["status"], "decided");
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "nudged, not found"
    );
    assert_eq!(edge.played.lock().unwrap().queries, asked + 1);
    for (path, status) in [
        (format!("/requests/{REQUEST}?wait=61s"), 400),
        ("/requests/hold_1".to_owned(), 404),
        ("/requests?status=lost".to_owned(), 400),
        ("/requests?kind=timer&stauts=open".to_owned(), 400),
    ] {
        assert_eq!(refusal(edge.get(&path).await).await.0, status, "{path}");
    }
}

/// DESIGN: deciding answers `{recorded, effect}`, waiting up to two seconds for the executor. The handoff service
/// delays its reply for the effect (Swift 2). A reply without it, such as the first one of a used key, is followed by
/// queries.
#[tokio::test]
async fn a_decision_waits_for_its_effect() {
    let edge = Edge::new().await;
    edge.played.lock().unwrap().request_status = "decided".to_owned();
    edge.played.lock().unwrap().pending = 1;
    let path = format!("/requests/{REQUEST}/respond");
    let decided = ok(edge.post(&path, json!({"answer": "yes"})).await).await;
    assert_eq!(
        (&decided["recorded"], &decided["effect"]),
        (&json!(true), &json!("applied"))
    );
    edge.played.lock().unwrap().pending = 1_000;
    let approve = format!("/requests/{REQUEST}/approve");
    let began = Instant::now();
    let decided = ok(edge.post(&approve, json!({"comment": "go"})).await).await;
    assert_eq!(decided["effect"], "pending");
    assert!(began.elapsed() >= Duration::from_secs(2));
    let asked = edge.played.lock().unwrap().asked_for_effect;
    assert_eq!(asked, 2, "once for each decision");
    for (path, body) in [
        ("reject", json!({})),
        ("reject", json!({"reason": " "})),
        ("respond", json!({})),
        ("approve", json!({"reason": "x"})),
    ] {
        let refused = edge
            .post(&format!("/requests/{REQUEST}/{path}"), body)
            .await;
        assert_eq!(
            refusal(refused).await,
            (422, "invalid_body".to_owned()),
            "{path}"
        );
    }
}

/// S0-AC4, S0-T6.3, S0-AC9
#[tokio::test]
async fn agents_and_workspaces_are_paused_by_body_or_query() {
    let edge = Edge::new().await;
    for (method, path, body, command) in [
        (
            Method::POST,
            "/agents/a/pause",
            None,
            json!({"agent": "a", "waiting": "hold", "new": "accept"}),
        ),
        (
            Method::POST,
            "/agents/a/pause?waiting=cancel",
            None,
            json!({"agent": "a", "waiting": "cancel", "new": "accept"}),
        ),
        (
            Method::POST,
            "/pause",
            Some(json!({"new": "refuse"})),
            json!({"agent": null, "waiting": "hold", "new": "refuse"}),
        ),
        (
            Method::POST,
            "/resume",
            Some(json!({"mode": "now"})),
            json!({"agent": null, "mode": "now"}),
        ),
        (
            Method::POST,
            "/agents/a/resume?mode=restart",
            None,
            json!({"agent": "a", "mode": "restart"}),
        ),
        (Method::DELETE, "/agents/a", None, json!({"agent": "a"})),
    ] {
        let request = edge.request(method, path);
        let request = body.iter().fold(request, |it, body| it.json(body));
        assert_eq!(ok(request.send().await.unwrap()).await["changed"], true);
        let asked = edge.played.lock().unwrap().asked.pop().unwrap();
        assert_eq!(asked.1["command"], command, "{path}");
    }
    let wrong = edge
        .post("/agents/a/pause", json!({"waiting": "stop"}))
        .await;
    assert_eq!(refusal(wrong).await, (422, "invalid_body".to_owned()));
}

/// S2-R2
#[tokio::test]
async fn a_tool_is_registered_listed_and_forgotten() {
    let edge = Edge::new().await;
    let tool = json!({"name": "crm.find", "risk": "high", "http": {"url": "http://127.0.0.1:1/x"}});
    let made = edge.post("/tools", tool).await;
    assert_eq!(made.status(), 201);
    let asked = edge.played.lock().unwrap().asked.pop().unwrap();
    assert_eq!(asked.1["command"]["tool"]["http"]["method"], "POST");
    for path in ["/tools", "/nodes", "/claims?limit=5"] {
        assert_eq!(ok(edge.get(path).await).await["items"], json!([]));
    }
    let gone = edge
        .request(Method::DELETE, "/tools/crm.find")
        .send()
        .await
        .unwrap();
    assert_eq!(gone.status(), 204);
    for wrong in [
        json!({"risk": "low", "http": {"url": "x"}}),
        json!({"name": "x", "risks": 1, "risk": "low", "http": {"url": "x"}}),
        json!({"name": "x", "http": {"url": "x"}}),
    ] {
        assert_eq!(refusal(edge.post("/tools", wrong).await).await.0, 422);
    }
}

/// People, deliverable 3: a link goes through as it is; what is wrong with one is said in words of the
/// body.
#[tokio::test]
async fn a_hold_asks_by_link() {
    let edge = Edge::new().await;
    let link = json!({"url": "https://vault.example/new", "label": "Open the vault"});
    let body = json!({"kind": "input", "question": "The key?", "link": link});
    assert_eq!(edge.post("/holds", body).await.status(), 201);
    let asked = edge.played.lock().unwrap().asked.pop().unwrap();
    assert_eq!(asked.1["command"]["spec"]["link"], link);
    let body =
        json!({"kind": "input", "question": "The key?", "link": {"uri": "https://vault.example"}});
    let refused = edge.post("/holds", body).await;
    assert_eq!(refused.status(), 422);
    let problem: Value = refused.json().await.unwrap();
    assert!(problem.to_string().contains("link"), "{problem}");
}

/// Mend: a hostile draft with a thousand errors gets a short answer.
#[tokio::test]
async fn a_refused_hold_lists_a_hundred_errors() {
    let edge = Edge::new().await;
    let rung = json!({ "after": "1h", "do": "notify", "to": vec!["x"; 50] });
    let body = json!({ "kind": "approval", "question": "Go?", "ladder": vec![rung; 20] });
    let refused = edge.post("/holds", body).await;
    assert_eq!(refused.status(), 422);
    let problem: Value = refused.json().await.unwrap();
    let errors = problem["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 101);
    let more = "900 more errors; only the first 100 are listed";
    assert_eq!(errors[100], json!({ "message": more }));
    assert_eq!(errors[99]["pointer"], "/ladder/1/to/49");
    assert!(problem["detail"].as_str().unwrap().ends_with(more));
}
