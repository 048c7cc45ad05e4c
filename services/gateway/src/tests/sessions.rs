//! The sessions of a user, and ending them from another browser (Mend A-L7).

use reqwest::Method;
use serde_json::{Value, json};

use super::edge::{Edge, ok, refusal};
use super::pages::{Browser, location};

/// A browser that came by a log-in link: no token ends it.
async fn by_link(edge: &Edge) -> Browser<'_> {
    let mut browser = Browser::new(edge);
    let opened = browser.post(&edge.login, &[]).await;
    assert_eq!(opened.status(), 303);
    browser.keep(&opened);
    browser
}

async fn sessions(edge: &Edge, token: &str, query: &str) -> Vec<Value> {
    let path = format!("/sessions{query}");
    let page = ok(edge.as_whom(token, Method::GET, &path).await).await;
    page["items"].as_array().unwrap().clone()
}

/// Mend A-L7: a person sees their sessions and ends one, or all, also those of log-in links.
#[tokio::test]
async fn one_sees_and_ends_ones_sessions() {
    let edge = Edge::new().await;
    let linked = by_link(&edge).await;
    let viewer = edge.token_of("owner", Some("viewer")).await;
    let narrowed = Browser::signed_in(&edge, &viewer).await;

    let all = sessions(&edge, &edge.token, "").await;
    let roles: Vec<_> = all.iter().map(|one| &one["role"]).collect();
    assert_eq!(roles, [&json!("viewer"), &Value::Null], "{all:?}");
    assert_eq!(all[1]["token"], Value::Null);
    for one in &all {
        assert_eq!(one["created_at"], "2026-01-01T00:00:00.000Z");
        assert_eq!(one["last_seen"], "2026-01-01T00:00:00.000Z");
    }
    let path = format!("/sessions/{}", all[0]["id"].as_str().unwrap());
    let end = async |path: &str| edge.as_whom(&edge.token, Method::DELETE, path).await;
    assert_eq!(end(&path).await.status(), 204);
    assert_eq!(location(&narrowed.get("/inbox").await), "/login");
    assert_eq!(linked.get("/inbox").await.status(), 200);
    assert_eq!(refusal(end(&path).await).await.0, 404);
    assert_eq!(refusal(end("/sessions/1").await).await.0, 404);
    assert_eq!(end("/sessions").await.status(), 204);
    assert_eq!(location(&linked.get("/inbox").await), "/login");
}

/// Mend A-L7: administrators see and end those of others, and those of owners only owners end. A
/// narrowed token is not the person, and to others nobody's sessions exist.
#[tokio::test]
async fn sessions_of_others_are_for_administrators() {
    let edge = Edge::new().await;
    edge.user("ann", &["admin"]).await;
    edge.user("bob", &["member"]).await;
    let ann = edge.token_of("ann", None).await;
    let bob = edge.token_of("bob", None).await;
    let at_bobs = Browser::signed_in(&edge, &bob).await;
    let at_owners = by_link(&edge).await;

    let owners = sessions(&edge, &ann, "?user=owner").await;
    let id = owners[0]["id"].as_str().unwrap();
    let narrowed = edge.token_of("ann", Some("admin")).await;
    let viewer = edge.token_of("bob", Some("viewer")).await;
    for (token, method, path, code) in [
        (
            &bob,
            Method::GET,
            "/sessions?user=owner".to_owned(),
            "forbidden",
        ),
        (
            &bob,
            Method::DELETE,
            "/sessions?user=owner".to_owned(),
            "forbidden",
        ),
        (
            &bob,
            Method::DELETE,
            format!("/sessions/{id}?user=owner"),
            "forbidden",
        ),
        (
            &ann,
            Method::DELETE,
            "/sessions?user=owner".to_owned(),
            "forbidden",
        ),
        (
            &ann,
            Method::DELETE,
            format!("/sessions/{id}?user=owner"),
            "forbidden",
        ),
        (
            &viewer,
            Method::GET,
            "/sessions".to_owned(),
            "narrowed_token",
        ),
        (
            &viewer,
            Method::DELETE,
            "/sessions".to_owned(),
            "narrowed_token",
        ),
    ] {
        let refused = edge.as_whom(token, method.clone(), &path).await;
        assert_eq!(
            refusal(refused).await,
            (403, code.to_owned()),
            "{method} {path}"
        );
    }
    // An admin's token with the role `admin` is narrowed by nothing.
    assert_eq!(sessions(&edge, &narrowed, "?user=bob").await.len(), 1);
    let own = format!("/sessions/{id}");
    assert_eq!(edge.as_whom(&bob, Method::DELETE, &own).await.status(), 404);
    assert_eq!(at_owners.get("/inbox").await.status(), 200);

    let all = "/sessions?user=bob";
    assert_eq!(edge.as_whom(&ann, Method::DELETE, all).await.status(), 204);
    assert_eq!(location(&at_bobs.get("/inbox").await), "/login");
}

/// Mend A-L7: the same on a page, where the browser that looks is named.
#[tokio::test]
async fn settings_say_where_one_is_signed_in() {
    let edge = Edge::new().await;
    edge.play("notification").await;
    let linked = by_link(&edge).await;
    let here = Browser::signed_in(&edge, &edge.token).await;
    let page = here.get("/settings").await.text().await.unwrap();
    for shown in [
        "Your sessions",
        "This browser",
        "By sign-in link",
        "All your rights",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert_eq!(page.matches("This browser").count(), 1);
    let csrf = here.csrf().await;
    let own = ("csrf", csrf.as_str());
    let all = sessions(&edge, &edge.token, "").await;
    let of_link = all.iter().find(|one| one["token"].is_null()).unwrap();
    let id = ("id", of_link["id"].as_str().unwrap());
    let ended = here.post("/settings/sessions", &[own, id]).await;
    assert_eq!(location(&ended), "/settings?done=signed-out");
    assert_eq!(location(&linked.get("/inbox").await), "/login");
    let odd = here.post("/settings/sessions", &[own, ("id", "all")]).await;
    assert_eq!(odd.status(), 422);
    assert_eq!(here.get("/settings?done=signed-out").await.status(), 200);
    let ended = here.post("/settings/sessions", &[own]).await;
    assert_eq!(location(&ended), "/login");
    assert_eq!(location(&here.get("/inbox").await), "/login");
}
