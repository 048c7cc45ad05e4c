//! A token that has fewer rights than its user is not that person.

use holdpoint_ids::RunId;
use reqwest::Method;
use serde_json::{Value, json};

use super::edge::{Edge, ok, refusal};
use super::pages::Browser;

const HOOK: &str = "/webhooks/wh_0193aaaabbbb7ccc8dddeeeeeeeeeeee";

/// Mend A-M11 and A-H2: what outlasts a token is not for a narrowed one. An owner's token with the role
/// `admin` has the right to administer, and is refused all the same.
#[tokio::test]
async fn a_narrowed_token_has_no_say_in_what_outlasts_it() {
    let edge = Edge::new().await;
    edge.play("notification").await;
    edge.user("ann", &["admin"]).await;
    let narrowed = edge.token_of("owner", Some("admin")).await;
    let whole = edge.token_of("ann", Some("admin")).await;
    let hook = json!({ "url": "https://x.example", "events": ["*"] });
    let token = json!({ "user": "ann", "role": "viewer" });
    let standing = json!({ "agent": "refund", "tool": "pay", "args_schema": {}, "max_uses": 1,
        "expires_in": "1h" });
    for (method, path, body) in [
        (Method::GET, "/preferences", Value::Null),
        (Method::PUT, "/preferences", json!({ "time_zone": "UTC" })),
        (Method::GET, "/webhooks", Value::Null),
        (Method::POST, "/webhooks", hook.clone()),
        (Method::GET, HOOK, Value::Null),
        (Method::DELETE, HOOK, Value::Null),
        (Method::POST, "/tokens", token),
        (Method::POST, "/hooks/inbound", json!({ "name": "crm" })),
        (Method::POST, "/standing-approvals", standing),
        (Method::POST, "/contacts/c1/erase", json!({})),
    ] {
        let asked = async |token: &str| {
            let request = edge.bare(method.clone(), &format!("/v1/workspaces/default{path}"));
            let request = request.bearer_auth(token);
            let request = if body.is_null() {
                request
            } else {
                request.json(&body)
            };
            request.send().await.unwrap()
        };
        let before = edge.verbs().len();
        let refused = refusal(asked(&narrowed).await).await;
        assert_eq!(refused, (403, "narrowed_token".to_owned()), "{path}");
        assert_eq!(edge.verbs().len(), before, "{path}");
        let done = asked(&whole).await.status();
        assert!(done.is_success(), "{method} {path}: {done}");
    }
}

/// Mend A-M11: the page of settings is the person's, too.
#[tokio::test]
async fn a_narrowed_token_opens_no_settings() {
    let edge = Edge::new().await;
    edge.play("notification").await;
    let token = edge.token_of("owner", Some("viewer")).await;
    let browser = Browser::signed_in(&edge, &token).await;
    assert_eq!(browser.get("/settings").await.status(), 403);
    let csrf = browser.csrf().await;
    let before = edge.verbs().len();
    let fields = [("csrf", csrf.as_str()), ("zone", "UTC")];
    let refused = browser.post("/settings/preferences", &fields).await;
    assert_eq!(refused.status(), 403);
    assert_eq!(edge.verbs().len(), before);
}

/// Mend A-M11: nothing is marked as read, and nothing followed, for a person who was not there. Both outlast
/// the token. A viewer's own token lacks nothing and does both.
#[tokio::test]
async fn a_narrowed_token_reads_and_follows_nothing_for_its_user() {
    let edge = Edge::new().await;
    edge.play("notification").await;
    edge.user("vic", &["viewer"]).await;
    let narrowed = edge.token_of("owner", Some("viewer")).await;
    let whole = edge.token_of("vic", Some("viewer")).await;
    let note = "note_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1";
    let read = format!("/notifications/{note}/read");
    let watch = json!({ "agent": "outreach" });
    for (method, path, body) in [
        (Method::POST, read.as_str(), json!({})),
        (Method::POST, "/notifications/read", json!({})),
        (Method::POST, "/watches", watch),
        (Method::DELETE, "/watches/agent_outreach", json!({})),
    ] {
        let path = format!("/v1/workspaces/default{path}");
        let asked = async |token: &str| {
            let request = edge.bare(method.clone(), &path).bearer_auth(token);
            request.json(&body).send().await.unwrap()
        };
        let before = edge.verbs().len();
        let refused = refusal(asked(&narrowed).await).await;
        assert_eq!(refused, (403, "narrowed_token".to_owned()), "{path}");
        assert_eq!(edge.verbs().len(), before, "{path}");
        asked(&whole).await;
        assert!(edge.verbs().len() > before, "{path}");
    }

    let browser = Browser::signed_in(&edge, &narrowed).await;
    let csrf = browser.csrf().await;
    let own = ("csrf", csrf.as_str());
    let before = edge.verbs().len();
    for (path, fields) in [
        (read.as_str(), vec![own]),
        ("/notifications/read", vec![own, ("until", "1")]),
        (
            "/follow",
            vec![own, ("of", "agent_outreach"), ("do", "follow")],
        ),
        (
            "/follow",
            vec![own, ("of", "agent_outreach"), ("do", "unfollow")],
        ),
    ] {
        assert_eq!(browser.post(path, &fields).await.status(), 403, "{path}");
    }
    assert_eq!(edge.verbs().len(), before);
}

/// Mend A-M8 and A-M15: who may not register tools does not see their keys.
#[tokio::test]
async fn keys_of_tools_are_shown_to_operators_only() {
    let edge = Edge::new().await;
    let url = "https://crm.example/find?api_key=s1";
    let tool = json!({
        "name": "crm.find",
        "risk": "low",
        "http": { "url": url, "headers": { "Authorization": "Bearer s2" } },
    });
    assert_eq!(edge.post("/tools", tool).await.status(), 201);
    for (role, address, header) in [
        (None, url, "Bearer s2"),
        (Some("operator"), url, "Bearer s2"),
        (Some("viewer"), "https://crm.example/***", "***"),
        (Some("agent"), "https://crm.example/***", "***"),
        (Some("member"), "https://crm.example/***", "***"),
    ] {
        let token = edge.token_of("owner", role).await;
        let page = ok(edge.as_whom(&token, Method::GET, "/tools").await).await;
        let call = &page["items"][0]["http"];
        assert_eq!(call["url"], address, "{role:?}");
        assert_eq!(call["headers"]["Authorization"], header, "{role:?}");
    }
}

/// Mend C-2: error texts as tools said them are asked for operators only, on the page too.
#[tokio::test]
async fn raw_errors_are_shown_to_operators_only() {
    let edge = Edge::new().await;
    let run = RunId::fresh();
    let path = format!("/runs/{run}");
    for (role, sees) in [
        (None, true),
        (Some("operator"), true),
        (Some("viewer"), false),
        (Some("agent"), false),
        (Some("member"), false),
    ] {
        let token = edge.token_of("owner", role).await;
        let view = ok(edge.as_whom(&token, Method::GET, &path).await).await;
        assert_eq!(view["steps"][0]["raw_error"].is_string(), sees, "{role:?}");
        let browser = Browser::signed_in(&edge, &token).await;
        let page = browser.get(&path).await.text().await.unwrap();
        assert_eq!(page.contains("raw of /srv/crm"), sees, "{role:?}");
    }
}

/// Mend A-L2: what the API says is in no cache.
#[tokio::test]
async fn answers_of_the_api_are_not_kept() {
    let edge = Edge::new().await;
    let made = edge.post("/tokens", json!({ "user": "owner" })).await;
    let listed = edge.get("/tools").await;
    for answer in [made, listed] {
        assert_eq!(answer.headers()["cache-control"], "no-store");
    }
}

/// Mend A-L3: the code of a log-in link is in no referrer, and a browser can still send its form.
#[tokio::test]
async fn a_log_in_link_is_in_no_referrer() {
    let edge = Edge::new().await;
    let browser = Browser::new(&edge);
    let shown = browser.get(&edge.login).await;
    assert_eq!(shown.headers()["referrer-policy"], "strict-origin");
    let opened = browser.post(&edge.login, &[]).await;
    assert_eq!(opened.headers()["referrer-policy"], "strict-origin");
    assert_eq!(opened.status(), 303);
}
