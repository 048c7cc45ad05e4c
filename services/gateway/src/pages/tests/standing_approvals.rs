//! Standing approvals: what people read about them, who sees which button, and how the form is filled in and read.

use holdpoint_contracts::handoff::StandingApprovalView;
use serde_json::{Value, json};

use super::super::card::card;
use super::super::session::{Fields, SignedInUser};
use super::super::standing_approvals::entry::{render, uses};
use super::super::standing_approvals::form;
use super::{at, owner, read, reads, request};

const RUN: &str = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";

#[expect(
    clippy::needless_pass_by_value,
    reason = "every caller makes it in place"
)]
fn approval(changes: Value) -> StandingApprovalView {
    let mut view = json!({
        "id": "sa_0193aaaabbbb7ccc8dddeeeeeeeeeeee", "status": "active", "agent": "refund",
        "tool": "payments.refund", "version": "1.2+3", "max_uses": 5, "used": 2,
        "args_schema": { "properties": { "amount": { "maximum": 100 } } },
        "reason": "small refunds", "created_by": "ann", "created_at": "2025-12-31T12:00:00Z",
        "expires_at": "2026-01-30T12:00:00Z", "revoked_by": null, "revoked_at": null,
    });
    for (name, value) in changes.as_object().unwrap() {
        view[name] = value.clone();
    }
    serde_json::from_value(view).unwrap()
}

fn user(name: &str, roles: &[&str]) -> SignedInUser {
    SignedInUser::for_test(name, roles, at())
}

/// S2-R4: people read the terms, the uses, the creator and the state.
#[test]
fn the_terms_and_the_state_are_shown() {
    let html = render(&owner(), &approval(json!({})));
    reads(
        &html,
        &[
            "Active",
            "Calls of payments.refund by agent refund",
            "Version 1.2+3",
            "Used 2 of 5",
            "Expires on 30 Jan 2026, 12:00 UTC, in 29 days 12 hours",
            "Created by ann on 31 Dec 2025",
            "small refunds",
            "\"maximum\": 100",
            "Later calls are asked of people again.",
        ],
    );
    let revoked = approval(json!({ "status": "revoked", "revoked_by": "bob",
        "revoked_at": "2025-12-31T18:00:00Z", "version": null }));
    let html = render(&owner(), &revoked);
    reads(
        &html,
        &[
            "Revoked by bob on 31 Dec 2025, 18:00 UTC",
            "Only calls without a version",
        ],
    );
    let expired = approval(json!({ "status": "expired", "expires_at": at(), "args_schema": {} }));
    let html = render(&owner(), &expired);
    reads(
        &html,
        &["Expired on 1 Jan 2026", "All arguments are approved."],
    );
}

/// An early approval covers one call, which people can look at.
#[test]
fn an_early_approval_names_its_call() {
    let call = json!({ "run": RUN, "step": "pay", "digest": "8f43" });
    let html = render(
        &owner(),
        &approval(json!({ "call": call, "args_schema": {} })),
    );
    reads(
        &html,
        &[
            "Early approval",
            "Only the call of step pay of one run",
            "People are asked about the call when its step is reached.",
        ],
    );
    assert!(html.into_string().contains(&format!("/runs/{RUN}")));
}

/// Its creator and operators revoke it, while that has an effect.
#[test]
fn the_button_is_shown_to_those_who_may_revoke() {
    let shows = |user: &SignedInUser, changes: Value| {
        read(&render(user, &approval(changes))).contains("Revoke…")
    };
    let ann = user("ann", &["member"]);
    assert!(shows(&ann, json!({})));
    assert!(shows(&user("bob", &["operator"]), json!({})));
    assert!(shows(&ann, json!({ "status": "used_up" })));
    for (other, changes) in [
        (user("bob", &["member"]), json!({})),
        (user("ann", &["viewer"]), json!({})),
        (owner(), json!({ "status": "revoked" })),
        (owner(), json!({ "status": "expired" })),
        (owner(), json!({ "status": "used_up", "expires_at": at() })),
    ] {
        assert!(
            !shows(&other, changes.clone()),
            "{} {changes}",
            other.name()
        );
    }
}

#[test]
fn the_uses_link_to_their_requests() {
    let none = uses(&owner(), &approval(json!({})));
    reads(&none, &["No call has been approved by it."]);
    let hold = "hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1";
    let used = json!([{ "number": 2, "request": hold, "at": at() }]);
    let html = uses(&owner(), &approval(json!({ "uses": used })));
    reads(
        &html,
        &[
            "Use 2: request on 1 Jan 2026",
            "Only the newest 1 uses are shown.",
        ],
    );
    assert!(html.into_string().contains(&format!("/requests/{hold}")));
}

fn gated() -> Value {
    let item = json!({ "id": "pay", "tool": "payments.refund", "version": "1.2+3", "digest": "8f43",
        "args": { "order": "o-17", "amount": 250 } });
    json!({ "items": [item] })
}

/// The form begins with the call of a request, and covers only its arguments until a person widens the limits.
#[test]
fn the_form_begins_with_the_call_of_a_request() {
    let gated = request(gated());
    let html = card(&owner(), &gated, None);
    reads(
        &html,
        &[
            "Call payments.refund version 1.2+3",
            "Approve such calls in advance",
        ],
    );
    let viewer = card(&user("vic", &["viewer"]), &gated, None);
    assert!(!read(&viewer).contains("in advance"));
    let Fields(mut fields) = form::fields_like(&gated).unwrap();
    for (name, value) in [("max_uses", "5"), ("expires_in", "7 days")] {
        fields.push((name.to_owned(), value.to_owned()));
    }
    let terms = form::read(&Fields(fields)).unwrap();
    assert_eq!(
        (terms.agent.as_str(), terms.tool.as_str()),
        ("refund", "payments.refund")
    );
    assert_eq!(terms.version.as_deref(), Some("1.2+3"));
    assert_eq!(
        terms.args_schema,
        json!({
            "properties": { "order": { "const": "o-17" }, "amount": { "const": 250 } },
            "required": ["order", "amount"], "additionalProperties": false,
        })
    );
    assert!(form::fields_like(&request(json!({}))).is_none());
}

/// All errors are reported together, and typed text is escaped.
#[test]
fn every_invalid_field_is_named() {
    let typed = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let fields = Fields(vec![
        typed("agent", "\"><script>"),
        typed("max_uses", "-1"),
        typed("args_schema", "[1"),
    ]);
    let errors = form::read(&fields).unwrap_err();
    let pointers: Vec<_> = errors
        .iter()
        .filter_map(|one| one.pointer.as_deref())
        .collect();
    assert_eq!(
        pointers,
        [
            "/agent",
            "/tool",
            "/args_schema",
            "/max_uses",
            "/expires_in"
        ]
    );
    let html = form::render(&owner(), &fields, &errors);
    reads(
        &html,
        &[
            "the text is not valid JSON",
            "expected a whole number, such as 10",
        ],
    );
    assert!(!html.into_string().contains("<script>"));
    let large = Fields(vec![typed("max_uses", "5000000000")]);
    let errors = form::read(&large).unwrap_err();
    let is_uses =
        |one: &&holdpoint_contracts::FieldError| one.pointer.as_deref() == Some("/max_uses");
    assert!(
        !errors.iter().any(|one| is_uses(&one)),
        "the service refuses it"
    );
}
