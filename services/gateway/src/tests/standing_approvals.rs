//! The pages of standing approvals: what their forms ask the handoff service, which is played, and who may use them.

use serde_json::{Value, json};

use super::edge::{Edge, at, problem};
use super::pages::{Browser, location};

const ONE: &str = "sa_0193aaaabbbb7ccc8dddeeeeeeeeeeee";
const PATH: &str = "/standing-approvals";

fn view(terms: &Value) -> Value {
    let mut view = terms.clone();
    let own = json!({ "id": ONE, "status": "active", "used": 0, "created_by": "ann", "created_at": at(),
        "expires_at": "2026-01-31T00:00:00Z" });
    let own = own.as_object().unwrap().clone();
    view.as_object_mut().unwrap().extend(own);
    view
}

fn terms() -> Value {
    json!({ "agent": "refund", "tool": "payments.refund", "version": "1.2+3", "reason": "<b>small</b>",
        "args_schema": { "properties": { "amount": { "maximum": 100 } } }, "max_uses": 5 })
}

/// Plays the owner of standing approvals. More than 10,000 uses are refused.
pub(super) fn answer(verb: &str, body: &Value) -> Value {
    let command = &body["command"];
    match verb {
        "standing_approvals" => {
            json!({"ok": { "items": [view(&terms())], "next_cursor": "older" }})
        }
        "standing_approval" => json!({ "ok": view(&terms()) }),
        "create_standing_approval" if command["terms"]["max_uses"] == 20_000 => {
            let mut refused = problem(422, "invalid_body");
            let error = json!({ "pointer": "/max_uses", "message": "expected 1 to 10000" });
            refused["problem"]["errors"] = json!([error]);
            refused
        }
        "create_standing_approval" => {
            let mut made = view(&command["terms"]);
            made["id"] = command["id"].clone();
            json!({ "ok": made })
        }
        "revoke_standing_approval" => json!({ "ok": null }),
        other => panic!("not played: {other}"),
    }
}

fn last(edge: &Edge) -> (String, Value) {
    edge.played.lock().unwrap().asked.pop().unwrap()
}

async fn page(browser: &Browser<'_>, path: &str) -> String {
    let page = browser.get(path).await;
    assert_eq!(page.status(), 200, "{path}");
    page.text().await.unwrap()
}

/// S2-R4: the page revokes with the same signed command as the API, and escapes texts.
#[tokio::test]
async fn a_standing_approval_is_revoked_on_its_page() {
    let edge = Edge::new().await;
    let browser = Browser::signed_in(&edge, &edge.token).await;
    let inbox = page(&browser, "/inbox").await;
    assert!(inbox.contains("href=\"/standing-approvals\""), "{inbox}");
    let list = page(&browser, PATH).await;
    for part in [
        "&lt;b&gt;small",
        "cursor=older",
        "Create a standing approval",
    ] {
        assert!(list.contains(part), "{part}: {list}");
    }
    let live = browser.get("/live?page=/standing-approvals").await;
    assert_eq!(live.status(), 200, "the unread count is live");
    let csrf = browser.csrf().await;
    let path = format!("{PATH}/{ONE}/revoke");
    let revoked = browser.post(&path, &[("csrf", &csrf)]).await;
    assert_eq!(location(&revoked), format!("{PATH}/{ONE}?done=revoked"));
    let (verb, envelope) = last(&edge);
    assert_eq!(verb, "revoke_standing_approval");
    assert_eq!(envelope["command"], json!({ "id": ONE }));
    assert_eq!(edge.vouched(&envelope).user.as_str(), "owner");
    let shown = page(&browser, &format!("{PATH}/{ONE}?done=revoked")).await;
    assert!(shown.contains("Standing approval revoked."), "{shown}");
    assert_eq!(browser.post(&path, &[]).await.status(), 403);
    let nowhere = format!("{PATH}/none/revoke");
    let nowhere = browser.post(&nowhere, &[("csrf", &csrf)]).await;
    assert_eq!(nowhere.status(), 404);
}

/// S2-R4: the form sends the terms as the API does. Errors of all fields are shown with the input that was typed.
#[tokio::test]
async fn a_standing_approval_is_created_by_a_form() {
    let edge = Edge::new().await;
    let browser = Browser::signed_in(&edge, &edge.token).await;
    let form = page(&browser, "/standing-approvals/new").await;
    assert!(form.contains("Limits on arguments"), "{form}");
    let csrf = browser.csrf().await;
    let typed = |uses, time, schema| {
        let fields = [
            ("csrf", csrf.as_str()),
            ("id", ONE),
            ("agent", " refund "),
            ("tool", "payments.refund"),
            ("version", "1.2+3"),
            ("reason", " "),
        ];
        let terms = [
            ("max_uses", uses),
            ("expires_in", time),
            ("args_schema", schema),
        ];
        [fields.as_slice(), terms.as_slice()].concat()
    };
    let made = browser.post(PATH, &typed("5", "30 days", "{}")).await;
    assert_eq!(location(&made), format!("{PATH}/{ONE}?done=created"));
    let (verb, envelope) = last(&edge);
    assert_eq!(verb, "create_standing_approval");
    let terms = json!({ "agent": "refund", "tool": "payments.refund", "version": "1.2+3",
        "args_schema": {}, "max_uses": 5, "expires_in": "30d" });
    assert_eq!(envelope["command"], json!({ "id": ONE, "terms": terms }));
    assert_eq!(edge.vouched(&envelope).user.as_str(), "owner");

    for (fields, shown) in [
        (
            typed("many", "soon", "{"),
            [
                "expected a whole number",
                "expected a number instead of `soon`",
                "not valid JSON",
            ],
        ),
        (
            typed("20000", "30 days", "{}"),
            ["expected 1 to 10000", "30 days", "some fields are invalid"],
        ),
    ] {
        let refused = browser.post(PATH, &fields).await;
        assert_eq!(refused.status(), 422);
        let text = refused.text().await.unwrap();
        for part in shown.iter().chain(&["value=\"payments.refund\""]) {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

/// A narrowed token and a viewer see the list. They create and revoke nothing.
#[tokio::test]
async fn only_people_who_decide_in_person_approve_in_advance() {
    let edge = Edge::new().await;
    edge.user("vic", &["viewer"]).await;
    let narrowed = edge.token_of("owner", Some("member")).await;
    let viewer = edge.token_of("vic", None).await;
    for token in [narrowed, viewer] {
        let browser = Browser::signed_in(&edge, &token).await;
        let list = page(&browser, PATH).await;
        assert!(list.contains("payments.refund"), "{list}");
        for part in ["Revoke", "Create a standing approval"] {
            assert!(!list.contains(part), "{part}: {list}");
        }
        let form = browser.get("/standing-approvals/new").await;
        assert_eq!(form.status(), 403);
        let csrf = browser.csrf().await;
        let before = edge.verbs().len();
        for path in [PATH, &format!("{PATH}/{ONE}/revoke")] {
            let refused = browser.post(path, &[("csrf", &csrf)]).await;
            assert_eq!(refused.status(), 403, "{path}");
        }
        assert_eq!(edge.verbs().len(), before);
    }
    let mut signed_out = Browser::signed_in(&edge, &edge.token).await;
    signed_out.forget();
    let redirected = signed_out.get(PATH).await;
    assert_eq!(location(&redirected), "/login?next=/standing-approvals");
}
