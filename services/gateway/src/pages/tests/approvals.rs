//! Approvals of gated calls: what the card shows, and how its form is read.

use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::run::RunView;
use serde_json::{Value, json};

use super::super::approval_items::edited_args;
use super::super::attempt::RequestAttempt;
use super::super::card::card;
use super::super::session::Fields;
use super::super::timeline;
use super::{owner, read, reads, request};
use crate::redaction::redact_for;
use crate::testing::claims;

const DIGEST: &str = "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4";

fn gated(changes: &[(&str, Value)]) -> RequestView {
    let mut view = json!({
        "items": [{
            "id": "step-02", "tool": "payments.refund", "digest": DIGEST,
            "args": { "order": "o-17", "amount": 250 },
        }],
    });
    for (name, value) in changes {
        view[*name] = value.clone();
    }
    request(view)
}

/// Words 3: people read the plan in words, and its JSON is folded.
#[test]
fn the_card_of_a_plan_shows_its_steps_in_words() {
    let steps = json!({ "steps": [{ "wait": "2 days" }] });
    let item =
        json!([{ "id": "start-plan", "tool": "start_plan", "digest": DIGEST, "args": steps }]);
    let context = json!({ "plan": ["step-01: Wait 2 days"] });
    let html = card(
        &owner(),
        &gated(&[("items", item), ("context", context)]),
        None,
    );
    reads(
        &html,
        &[
            "Call start_plan",
            "Show as JSON",
            "Plan step-01: Wait 2 days",
        ],
    );
    let html = html.into_string();
    assert_eq!(html.matches("<dt>Steps</dt>").count(), 0, "{html}");
}

fn plan() -> Vec<(&'static str, Value)> {
    let steps = json!({ "steps": [{ "wait": "2 days" }] });
    let item =
        json!([{ "id": "start-plan", "tool": "start_plan", "digest": DIGEST, "args": steps }]);
    vec![("items", item)]
}

/// Words 3: the person who approves a plan reads its warnings. A list that has not checked the plan says where they are.
#[test]
fn the_card_of_a_plan_shows_its_warnings() {
    let warning = json!({ "step": "step-01", "text": "send_emial", "nearest": ["send_email"],
        "message": "No tool `send_emial` is built in." });
    let mut asked = plan();
    reads(
        &card(&owner(), &gated(&asked), None),
        &["Open the request to see the warnings of its plan."],
    );
    asked.push(("warnings", json!([warning])));
    reads(
        &card(&owner(), &gated(&asked), None),
        &["Warning: step-01: No tool `send_emial` is built in. Did you mean `send_email`?"],
    );
    asked.pop();
    asked.push(("warnings", json!([])));
    let html = read(&card(&owner(), &gated(&asked), None));
    assert!(!html.contains("arning"), "{html}");
}

/// A person edits the list of steps.
#[test]
fn the_steps_of_a_plan_are_edited_as_a_list() {
    let asked = gated(&plan());
    let html = read(&card(&owner(), &asked, None));
    assert!(html.contains("Steps as JSON, as in an agent"), "{html}");
    let unchanged = args("[\r\n  {\r\n    \"wait\": \"2 days\"\r\n  }\r\n]");
    assert_eq!(edited_args(&unchanged, &asked).unwrap(), None);
    let edited = edited_args(&args(r#"[{ "wait": "1 day" }]"#), &asked);
    let wanted = json!({ "steps": [{ "wait": "1 day" }] });
    assert_eq!(edited.unwrap(), Some(wanted.clone()));
    let whole = edited_args(&args(&wanted.to_string()), &asked);
    assert_eq!(whole.unwrap(), Some(wanted));
}

/// Words 3: the errors of an edited plan are beside the editor, which keeps the text.
#[test]
fn the_errors_of_an_edited_plan_are_beside_its_editor() {
    let attempt = RequestAttempt {
        fields: args("[{ \"tool\": \"x\" }]"),
        errors: vec![(
            "args".to_owned(),
            "step-01: A plan may not call `x`".to_owned(),
        )],
        ..RequestAttempt::default()
    };
    let html = card(&owner(), &gated(&plan()), Some(&attempt)).into_string();
    let (_, editor) = html.split_once("<textarea").unwrap();
    let (text, after) = editor.split_once("</textarea>").unwrap();
    assert!(
        text.contains("aria-invalid=\"true\"") && text.contains("&quot;x&quot;"),
        "{text}"
    );
    let (beside, _) = after.split_once("</div>").unwrap();
    assert!(beside.contains("step-01: A plan may not call"), "{after}");
}

fn args(text: &str) -> Fields {
    Fields(vec![("args".to_owned(), text.to_owned())])
}

/// S2-R3: a person sees the call, and the form sends the digest of what was seen.
#[test]
fn the_card_shows_tool_and_arguments() {
    let html = card(&owner(), &gated(&[]), None);
    reads(
        &html,
        &[
            "Call payments.refund",
            "Order o-17",
            "Amount 250",
            "Edit the arguments",
        ],
    );
    let html = html.into_string();
    assert!(html.contains(&format!("name=\"digest\" value=\"{DIGEST}\"")));
    assert!(html.contains("name=\"args\""), "{html}");
}

/// S2-R4: if several people vote, the arguments cannot be edited.
#[test]
fn several_voters_cannot_edit_the_arguments() {
    let html = card(
        &owner(),
        &gated(&[("votes", json!({ "have": 0, "need": 2 }))]),
        None,
    );
    reads(&html, &["Call payments.refund"]);
    assert!(!html.into_string().contains("name=\"args\""));
}

/// A browser sends lines with CRLF. An unchanged field does not count as an edit.
#[test]
fn an_unchanged_text_is_not_an_edit() {
    let asked = gated(&[]);
    let shown = serde_json::to_string_pretty(&asked.items[0].args).unwrap();
    let with_crlf = shown.replace('\n', "\r\n");
    let spaced = r#"{"amount": 250,   "order": "o-17"}"#;
    for text in [shown.as_str(), with_crlf.as_str(), spaced, "", "  "] {
        assert_eq!(edited_args(&args(text), &asked).unwrap(), None, "{text}");
    }
    assert_eq!(edited_args(&Fields(Vec::new()), &asked).unwrap(), None);
    assert_eq!(edited_args(&args("{}"), &request(json!({}))).unwrap(), None);
}

#[test]
fn a_changed_text_becomes_the_edited_arguments() {
    let edited = edited_args(&args("{\r\n  \"amount\": 125\r\n}"), &gated(&[])).unwrap();
    assert_eq!(edited, Some(json!({ "amount": 125 })));
    edited_args(&args("{\"amount\": }"), &gated(&[])).unwrap_err();
}

/// Input is kept after a mistake.
#[test]
fn an_invalid_text_stays_in_the_form() {
    let attempt = RequestAttempt {
        fields: args("{\"amount\": }"),
        ..RequestAttempt::default()
    };
    let html = card(&owner(), &gated(&[]), Some(&attempt)).into_string();
    assert!(html.contains("{&quot;amount&quot;: }"), "{html}");
}

/// A user who may not decide sees the question and not the arguments.
#[test]
fn the_arguments_are_hidden_from_uninvolved_users() {
    let seen = redact_for(&claims("eva", &["viewer"]), gated(&[]));
    assert_eq!(seen.items, []);
    let html = card(&owner(), &seen, None);
    assert!(!read(&html).contains("o-17"), "{}", read(&html));
    let seen = redact_for(&claims("eva", &["member", "manager"]), gated(&[]));
    assert_eq!(seen.items.len(), 1);
}

/// S2-R14: the run says who approved a step, and what was asked for.
#[test]
fn a_step_shows_its_approval() {
    let shown = |approval: Value| {
        let run: RunView = serde_json::from_value(json!({
            "id": "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee", "agent": "refund", "version": 1,
            "status": "running", "resume_at": null, "message": "", "contact": null, "labels": {},
            "waiting_on": [], "paused_by": [], "result": null, "failure": null,
            "clocks": { "active_ms": 0, "queued_ms": 0, "human_ms": 0 },
            "created_at": "2026-01-01T00:00:00Z", "ended_at": null,
            "steps": [{
                "id": "step-02", "kind": "tool", "status": "in_progress", "tool": "payments.refund",
                "action": "Call payments.refund", "request": { "amount": 125 }, "response": null,
                "error_code": null, "dispatch": 1, "attempts": 1, "claimed_by": null,
                "claimed_at": null, "started_at": null, "ended_at": null,
                "approval_state": approval,
            }],
        }))
        .unwrap();
        timeline::steps(&run, chrono_tz::Tz::UTC).html
    };
    let approval = |state: &str, by: Value, original: Value| {
        json!({ "state": state, "by": by, "at": null, "comment": "half <of> it",
            "original_args": original, "digest": DIGEST })
    };
    let edited = shown(approval("approved", json!("ada"), json!({ "amount": 250 })));
    reads(
        &edited,
        &[
            "Approved by ada, with edited arguments. half <of> it",
            "Amount 125",
            "Requested arguments Amount 250",
        ],
    );
    let rejected = shown(approval("rejected", json!("ada"), Value::Null));
    reads(&rejected, &["Rejected by ada. half <of> it"]);
    assert!(!read(&rejected).contains("Requested arguments"));
    let requested = shown(approval("requested", Value::Null, Value::Null));
    reads(&requested, &["Waits for an approval."]);
}

/// S2-R14: each failed attempt of a step has its time, its error and its data.
#[test]
fn a_step_shows_its_failed_attempts() {
    let attempt = |number: u32| {
        json!({ "attempt": number, "dispatch": number, "at": "2026-01-01T09:30:00Z", "error_code": "http_status",
            "response": { "success": false, "action": "charge", "description": "", "duration_ms": 1500,
                "data": { "status": 503 }, "error": format!("The server answered {number} <times>.") } })
    };
    let run: RunView = serde_json::from_value(json!({
        "id": "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee", "agent": "refund", "version": 1,
        "status": "running", "resume_at": null, "message": "", "contact": null, "labels": {},
        "waiting_on": [], "paused_by": [], "result": null, "failure": null,
        "clocks": { "active_ms": 0, "queued_ms": 0, "human_ms": 0 },
        "created_at": "2026-01-01T00:00:00Z", "ended_at": null,
        "steps": [{
            "id": "charge", "kind": "tool", "status": "in_progress", "tool": "payments.charge",
            "action": "Call payments.charge", "request": null, "response": null, "error_code": null,
            "dispatch": 3, "attempts": 3, "claimed_by": null, "claimed_at": null, "started_at": null,
            "ended_at": null, "failed_attempts": [attempt(1), attempt(2)],
        }],
    }))
    .unwrap();
    let html = timeline::steps(&run, chrono_tz::Tz::UTC).html;
    reads(
        &html,
        &[
            "3 attempts",
            "Failed attempts",
            "The server answered 1 <times>.",
            "The server answered 2 <times>.",
            "Status 503",
        ],
    );
    assert!(html.0.contains("<li value=\"2\">"), "{}", html.0);
}
