//! The texts and controls that a user sees, never the shape of the HTML.

mod approvals;
mod cards;
mod forms;
mod lists;
mod standing_approvals;

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::RequestView;
use maud::Markup;
use serde_json::{Value, json};

use super::session::SignedInUser;

fn at() -> DateTime<Utc> {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn owner() -> SignedInUser {
    SignedInUser::for_test("owner", &["owner"], at())
}

/// An open approval of a run, changed by these fields.
#[expect(
    clippy::needless_pass_by_value,
    reason = "every caller makes it in place"
)]
fn request(changes: Value) -> RequestView {
    let mut view = json!({
        "id": "hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1", "kind": "approval",
        "run": "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee", "step": "step-02", "agent": "refund",
        "status": "open", "version": 3, "to": ["@role.manager"], "question": "Refund 250 EUR?",
        "options": [], "reason": null, "context": null, "deadline": "2026-01-03T04:00:00Z",
        "remaining_ms": null, "on_timeout": "escalate", "actions": ["approve", "reject"],
        "outcome": null, "response": null, "decided_by": null, "decided_at": null, "late": [],
        "created_at": "2025-12-31T12:00:00Z",
    });
    for (name, value) in changes.as_object().unwrap() {
        view[name] = value.clone();
    }
    serde_json::from_value(view).unwrap()
}

/// The text between the tags, on one line.
fn read(html: &Markup) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for c in html.0.chars() {
        match c {
            '<' => is_tag = true,
            '>' => {
                is_tag = false;
                text.push(' ');
            }
            other if !is_tag => text.push(other),
            _ => {}
        }
    }
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    let text = text.replace("&quot;", "\"").replace("&amp;", "&");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.replace(" .", ".").replace(" ,", ",")
}

fn reads(html: &Markup, wanted: &[&str]) {
    let text = read(html);
    for part in wanted {
        assert!(text.contains(part), "`{part}` in: {text}");
    }
}
