//! What is refused before anybody is asked.

use reqwest::Method;
use serde_json::json;

use super::edge::{Edge, ok, refusal};

const RUN: &str = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";

/// Path, media type, body, and the status and code that must come.
type Posted = (&'static str, &'static str, &'static str, u16, &'static str);

const JSON: &str = "application/json";
const POSTED: [Posted; 12] = [
    ("/agents/a/runs", JSON, "{", 400, "invalid_json"),
    ("/agents", JSON, "{", 400, "invalid_json"),
    (
        "/agents/a/runs",
        JSON,
        r#"{"inptu": 1}"#,
        422,
        "invalid_body",
    ),
    ("/agents/a/runs", JSON, "[]", 422, "invalid_body"),
    (
        "/agents/a/runs",
        JSON,
        r#"{"contact": {}}"#,
        422,
        "invalid_body",
    ),
    (
        "/agents/a/runs",
        JSON,
        r#"{"contact": {"id": "-"}}"#,
        422,
        "invalid_body",
    ),
    (
        "/runs/R/resume",
        JSON,
        r#"{"mode": "soon"}"#,
        422,
        "invalid_body",
    ),
    ("/runs/R/resume?mode=soon", JSON, "", 400, "invalid_query"),
    (
        "/runs/R/pause?waiting=cancel",
        JSON,
        "",
        400,
        "invalid_query",
    ),
    (
        "/agents/a/runs",
        "text/plain",
        "{}",
        415,
        "unsupported_media_type",
    ),
    ("/agents", "image/png", "x", 415, "unsupported_media_type"),
    ("/agents", "text/plain", "no: name", 422, "invalid_agent"),
];

#[tokio::test]
async fn a_bad_body_is_refused_with_a_stable_code() {
    let edge = Edge::new().await;
    for (path, media_type, body, status, code) in POSTED {
        let path = path.replace("/R/", &format!("/{RUN}/"));
        let request = edge
            .request(Method::POST, &path)
            .header("content-type", media_type);
        let response = request.body(body).send().await.unwrap();
        assert_eq!(
            refusal(response).await,
            (status, code.to_owned()),
            "{path} {body}"
        );
    }
    let large = edge
        .request(Method::POST, "/agents")
        .body("a".repeat(1024 * 1024 + 1));
    assert_eq!(
        refusal(large.send().await.unwrap()).await,
        (413, "too_large".to_owned())
    );
    let keyed = edge
        .request(Method::POST, "/agents/a/runs")
        .header("idempotency-key", "a b");
    let refused = refusal(keyed.send().await.unwrap()).await;
    assert_eq!(refused, (400, "invalid_idempotency_key".to_owned()));
    assert!(edge.played.lock().unwrap().asked.is_empty());
}

#[tokio::test]
async fn a_body_without_a_type_is_taken_for_what_is_expected() {
    let edge = Edge::new().await;
    let request = edge.request(Method::POST, "/agents/a/runs").body("{}");
    assert_eq!(request.send().await.unwrap().status(), 201);
}

#[tokio::test]
async fn what_is_not_there_is_404_and_what_is_not_known_400() {
    let edge = Edge::new().await;
    for (path, status, code) in [
        ("/nothing", 404, "not_found"),
        ("/runs/run_1", 404, "not_found"),
        ("/agents/-x", 404, "not_found"),
        ("/contacts/%ff", 404, "not_found"),
        ("/mails", 404, "not_found"),
        ("/runs?stauts=failed", 400, "invalid_query"),
        ("/runs?status=lost", 400, "invalid_query"),
        ("/runs?limit=501", 400, "invalid_query"),
        ("/runs?label=x", 400, "invalid_query"),
        ("/runs?created_after=monday", 400, "invalid_query"),
    ] {
        assert_eq!(
            refusal(edge.get(path).await).await,
            (status, code.to_owned()),
            "{path}"
        );
    }
    // However long it is, the answer says what is expected.
    for (method, path) in [
        (Method::GET, "runs"),
        (Method::GET, "requests"),
        (Method::GET, "agents"),
        (Method::DELETE, "tokens"),
        (Method::DELETE, "sessions"),
        (Method::DELETE, "dead"),
    ] {
        let long = format!("/{path}/{}", "-".repeat(2_000));
        let response = edge.request(method, &long).send().await.unwrap();
        let text = response.text().await.unwrap();
        assert!(
            text.len() < 600 && text.contains("expected"),
            "{path}: {text}"
        );
    }
    let outside = edge
        .bare(Method::GET, "/nothing/here")
        .send()
        .await
        .unwrap();
    assert_eq!(refusal(outside).await, (404, "not_found".to_owned()));
}

/// Mend: an unknown parameter is refused on every route, never ignored.
#[tokio::test]
async fn an_unknown_parameter_is_refused_everywhere() {
    let edge = Edge::new().await;
    for (method, path) in [
        (Method::POST, "/agents"),
        (Method::POST, "/agents/plan"),
        (Method::GET, "/agents/outreach"),
        (
            Method::GET,
            "/commands/cmd_0193aaaabbbb7ccc8dddeeeeeeeeeeee",
        ),
        (Method::GET, "/contacts/c1"),
        (Method::PUT, "/contacts/c1"),
        (Method::PATCH, "/contacts/c1"),
        (Method::DELETE, "/contacts/c1"),
        (Method::POST, "/contacts/c1/activities"),
        (Method::DELETE, "/hooks/inbound/crm"),
        (Method::GET, "/policies/default"),
        (Method::GET, "/runs/run_0193aaaabbbb7ccc8dddeeeeeeeeeeee"),
        (Method::DELETE, "/tokens/tok_1"),
        (Method::GET, "/users/ada"),
    ] {
        let request = edge.request(method, &format!("{path}?dryrun=1"));
        let refused = refusal(request.body("").send().await.unwrap()).await;
        assert_eq!(refused, (400, "invalid_query".to_owned()), "{path}");
    }
    for (method, path) in [
        (Method::GET, "/v1/clock?dryrun=1"),
        (Method::POST, "/v1/clock/advance?dryrun=1"),
    ] {
        let request = edge.bare(method, path).bearer_auth(&edge.token);
        let refused = refusal(request.send().await.unwrap()).await;
        assert_eq!(refused, (400, "invalid_query".to_owned()), "{path}");
    }
    assert!(edge.verbs().is_empty());
}

#[tokio::test]
async fn another_method_is_405_and_says_which_are_there() {
    let edge = Edge::new().await;
    let response = edge.request(Method::DELETE, "/runs").send().await.unwrap();
    assert!(
        response.headers()["allow"]
            .to_str()
            .unwrap()
            .contains("GET")
    );
    assert_eq!(
        refusal(response).await,
        (405, "method_not_allowed".to_owned())
    );
}

#[tokio::test]
async fn an_agent_comes_as_yaml_or_json() {
    let edge = Edge::new().await;
    for (media_type, body) in [
        (
            "application/yaml",
            "agent: outreach\ninstructions: Wait 5 days\n",
        ),
        ("text/plain", "agent: outreach\ninstructions: Wait 5 days\n"),
        (
            "application/json",
            r#"{"agent": "outreach", "instructions": "Wait 5 days"}"#,
        ),
    ] {
        let request = edge
            .request(Method::POST, "/agents")
            .header("content-type", media_type);
        let response = request.body(body).send().await.unwrap();
        assert_eq!(response.status(), 201, "{media_type}");
        let asked = edge.played.lock().unwrap().asked.pop().unwrap();
        assert_eq!(
            asked.1["command"],
            json!({"agent": "outreach", "text": body})
        );
    }
}

#[tokio::test]
async fn time_stands_still_for_strangers_and_outside_its_bounds() {
    let edge = Edge::new().await;
    let now = edge.bare(Method::GET, "/v1/clock").send().await.unwrap();
    assert_eq!(ok(now).await["now"], "2026-01-01T00:00:00.000Z");
    let advance = |by: &str| {
        edge.bare(Method::POST, "/v1/clock/advance")
            .json(&json!({"by": by}))
    };
    assert_eq!(refusal(advance("5d").send().await.unwrap()).await.0, 401);
    for by in ["0s", "401d", "soon"] {
        let response = advance(by).bearer_auth(&edge.token).send().await.unwrap();
        assert_eq!(
            refusal(response).await,
            (422, "invalid_body".to_owned()),
            "{by}"
        );
    }
}
