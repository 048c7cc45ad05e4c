//! The page of settings: whose they are, and what its forms ask the owner, who is played.

use reqwest::Response;
use serde_json::{Value, json};

use super::edge::{Edge, at, problem};
use super::pages::{Browser, location};

const HOOK: &str = "wh_0193aaaabbbb7ccc8dddeeeeeeeeeeee";

fn hook(url: &Value, status: &str) -> Value {
    json!({
        "id": HOOK, "url": url, "events": ["*"], "format": "standard", "status": status,
        "created_by": "owner", "created_at": at(), "failing_since": null, "disabled_at": null,
        "last_error": "<b>410</b>",
    })
}

/// Plays the owner of preferences and webhooks.
pub(super) fn answer(verb: &str, body: &Value) -> Value {
    let command = &body["command"];
    match verb {
        "preferences" => json!({"ok": { "time_zone": "Asia/Tokyo" }}),
        "put_preferences" if command["preferences"]["time_zone"] == "Berlin" => {
            let mut refused = problem(422, "invalid_body");
            refused["problem"]["errors"] = json!([{
                "pointer": "/time_zone", "message": "time_zone is the name of a zone",
                "nearest": ["Europe/Berlin"],
            }]);
            refused
        }
        "put_preferences" => {
            let mut said = command["preferences"].clone();
            if said["channels"]["chat"].is_object() {
                said["channels"]["chat"]["secret"] = json!("whsec_of_the_chat");
            }
            json!({ "ok": said })
        }
        "webhooks" => {
            let found = hook(&json!("https://x.example/<i>"), "disabled");
            json!({"ok": { "items": [found], "next_cursor": null }})
        }
        "webhook" => json!({"ok": hook(&json!("https://x.example/<i>"), "disabled")}),
        "add_webhook" => {
            let mut added = hook(&command["url"], "active");
            added["secret"] = json!("whsec_of_the_webhook");
            json!({ "ok": added })
        }
        "change_webhook" | "remove_webhook" => json!({"ok": hook(&json!("x"), "active")}),
        other => panic!("not played: {other}"),
    }
}

/// What the owner was last asked to do.
fn last(edge: &Edge) -> (String, Value) {
    let (verb, body) = edge.played.lock().unwrap().asked.pop().unwrap();
    (verb, body["command"].clone())
}

async fn text(answer: Response, status: u16) -> String {
    assert_eq!(answer.status(), status);
    answer.text().await.unwrap()
}

/// Issue 4, deliverable 7: preferences on a page; users change only their own.
#[tokio::test]
async fn a_user_sets_notification_preferences() {
    let edge = Edge::new().await;
    edge.play("notification").await;
    let browser = Browser::signed_in(&edge, &edge.token).await;
    let page = text(browser.get("/settings").await, 200).await;
    assert!(
        page.contains("Notification preferences")
            && page.contains("href=\"/settings\" aria-current")
    );
    let csrf = browser.csrf().await;
    let said = [
        ("csrf", csrf.as_str()),
        ("mail", "on"),
        ("mail-from", "high"),
        ("zone", "Europe/Berlin"),
        ("quiet", "on"),
        ("quiet-from", "22:00"),
        ("quiet-to", "07:00"),
        ("day", "sat"),
    ];
    let saved = browser.post("/settings/preferences", &said).await;
    assert_eq!(location(&saved), "/settings?done=saved");
    let (verb, command) = last(&edge);
    assert_eq!(
        (verb.as_str(), &command["person"]),
        ("put_preferences", &json!("owner"))
    );
    let kept = &command["preferences"];
    assert_eq!(
        kept["channels"]["email"],
        json!({ "enabled": true, "from": "high" })
    );
    assert_eq!(kept["quiet_hours"]["days"], json!(["sat"]));
    assert_eq!(
        (&kept["digest"], &kept["time_zone"]),
        (&Value::Null, &json!("Europe/Berlin"))
    );
    let page = text(browser.get("/settings?done=saved").await, 200).await;
    assert!(page.contains("Saved."), "{page}");

    let wrong = [
        ("csrf", csrf.as_str()),
        ("zone", "Berlin"),
        ("digest", "on"),
        ("digest-at", "06:30"),
    ];
    let page = text(browser.post("/settings/preferences", &wrong).await, 422).await;
    assert!(page.contains("Did you mean Europe/Berlin?"), "{page}");
    assert!(
        page.contains("value=\"Berlin\"") && page.contains("value=\"06:30\""),
        "kept: {page}"
    );

    let chat = [
        ("csrf", csrf.as_str()),
        ("zone", "UTC"),
        ("chat", "on"),
        ("chat-url", "https://hooks.example/1"),
    ];
    let page = text(browser.post("/settings/preferences", &chat).await, 200).await;
    assert!(
        page.contains("whsec_of_the_chat") && page.contains("shown only once"),
        "{page}"
    );
}

/// "Must": a form of another page is refused; a browser without a session or a right sees nothing.
#[tokio::test]
async fn settings_are_ones_own() {
    let edge = Edge::new().await;
    edge.play("notification").await;
    let browser = Browser::signed_in(&edge, &edge.token).await;
    for path in ["/settings/preferences", "/settings/webhooks"] {
        let page = text(
            browser.post(path, &[("zone", "UTC"), ("csrf", "x")]).await,
            403,
        )
        .await;
        assert!(
            page.contains("this form belongs to another session"),
            "{page}"
        );
    }
    edge.user("ada", &["member"]).await;
    let token = edge.token_of("ada", None).await;
    let ada = Browser::signed_in(&edge, &token).await;
    let page = text(ada.get("/settings").await, 200).await;
    assert!(
        page.contains("Notification preferences") && !page.contains("Add a webhook"),
        "{page}"
    );
    let csrf = ada.csrf().await;
    let wanted = [
        ("csrf", csrf.as_str()),
        ("url", "https://x.example"),
        ("event", "*"),
    ];
    assert_eq!(ada.post("/settings/webhooks", &wanted).await.status(), 403);
    let path = format!("/settings/webhooks/{HOOK}");
    let gone = [("csrf", csrf.as_str()), ("do", "remove")];
    assert_eq!(ada.post(&path, &gone).await.status(), 403);
    let mut nobody = ada;
    nobody.forget();
    let redirected = nobody.get("/settings").await;
    assert_eq!(location(&redirected), "/login?next=/settings");
}

/// Issue 4, deliverable 7: webhooks on a page: added with their secret once, enabled again, removed.
#[tokio::test]
async fn webhooks_are_added_enabled_and_removed() {
    let edge = Edge::new().await;
    edge.play("notification").await;
    let browser = Browser::signed_in(&edge, &edge.token).await;
    let page = text(browser.get("/settings").await, 200).await;
    for part in [
        "https://x.example/&lt;i&gt;",
        "Disabled",
        "&lt;b&gt;410",
        "Enable",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("whsec_"), "{page}");
    let csrf = browser.csrf().await;
    let own = ("csrf", csrf.as_str());
    let wanted = [
        own,
        ("url", "https://new.example/"),
        ("event", "approval.*"),
        ("names", "input.expired"),
    ];
    let page = text(browser.post("/settings/webhooks", &wanted).await, 200).await;
    assert!(page.contains("whsec_of_the_webhook"), "{page}");
    let (verb, command) = last(&edge);
    assert_eq!(
        (verb.as_str(), &command["url"]),
        ("add_webhook", &json!("https://new.example/"))
    );
    assert_eq!(command["events"], json!(["approval.*", "input.expired"]));
    let path = format!("/settings/webhooks/{HOOK}");
    for (what, asked, done) in [
        ("enable", "change_webhook", "enabled"),
        ("disable", "change_webhook", "disabled"),
        ("remove", "remove_webhook", "removed"),
    ] {
        let answer = browser.post(&path, &[own, ("do", what)]).await;
        assert_eq!(location(&answer), format!("/settings?done={done}"));
        let (verb, command) = last(&edge);
        assert_eq!((verb.as_str(), &command["id"]), (asked, &json!(HOOK)));
        if asked == "change_webhook" {
            assert_eq!(command["enabled"], json!(what == "enable"));
            assert_eq!(command["url"], "https://x.example/<i>", "the rest stays");
        }
    }
    assert_eq!(
        browser
            .post(&path, &[own, ("do", "explode")])
            .await
            .status(),
        422
    );
    let nowhere = browser
        .post("/settings/webhooks/none", &[own, ("do", "remove")])
        .await;
    assert_eq!(nowhere.status(), 404);
}
