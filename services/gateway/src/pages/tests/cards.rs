//! One request as a card.

use serde_json::json;

use super::super::attempt::{Banner, RequestAttempt};
use super::super::card::card;
use super::super::email_link::is_current;
use super::super::session::SignedInUser;
use super::{at, owner, read, reads, request};

/// People 8: everything needed to decide is on the card.
#[test]
fn a_card_shows_everything_that_a_decision_needs() {
    let html = card(&owner(), &request(json!({"priority": "urgent"})), None);
    reads(
        &html,
        &[
            "Approval",
            "Urgent",
            "Refund 250 EUR?",
            "Agent refund",
            "step-02",
            "For @role.manager",
            "Decide in 2 days 4 hours",
            "Otherwise, the request is escalated and stays open.",
            "Approve",
            "Reject…",
        ],
    );
    let html = html.into_string();
    assert!(html.contains("title=\"2026-01-03T04:00:00.000Z\""));
    assert!(html.contains("href=\"/runs/run_0193aaaabbbb7ccc8dddeeeeeeeeeeee\""));
    assert!(html.contains("name=\"version\" value=\"3\""));
}

#[test]
fn a_card_shows_the_consequence_of_a_timeout() {
    for (on_timeout, run, shown) in [
        (
            "fail",
            true,
            "Otherwise, the step fails, and so does the run unless its agent handles that.",
        ),
        ("skip", true, "the step is skipped"),
        ("default", true, "the default answer applies"),
        ("continue", true, "the run continues without you"),
        ("fail", false, "the request ends without an answer"),
    ] {
        let mut changes = json!({"on_timeout": on_timeout});
        if !run {
            changes["run"] = json!(null);
        }
        reads(&card(&owner(), &request(changes), None), &[shown]);
    }
    let default =
        request(json!({"kind": "input", "on_timeout": "default", "default": "next week"}));
    reads(
        &card(&owner(), &default, None),
        &["the default answer applies", "Default answer: next week"],
    );
    let paused = request(json!({"deadline": null, "remaining_ms": 3_600_000}));
    reads(&card(&owner(), &paused, None), &["Paused with 1 hour left"]);
    let escalated = request(json!({"escalated_at": "2026-01-01T00:00:00Z"}));
    reads(
        &card(&owner(), &escalated, None),
        &["You can still answer."],
    );
}

/// S0-T2: the context is shown in sections, and as JSON only if it is nested too deeply.
#[test]
fn the_context_is_shown_in_readable_sections() {
    let context = json!({
        "contact": {"id": "c-1", "name": "Ada Lovelace", "email": "ada@example.org", "company": "Analytical"},
        "emails": [{"subject": "Introduction", "sent_at": "2025-12-20"}],
        "deals": [{"name": "Engine", "value": 12000, "stage": "proposal"}],
        "conditions": [{"expression": "contact.replied", "outcome": true, "values": {"contact.replied": true}}],
        "findings": ["Opened three mails"],
        "recommended_action": "Call today",
        "omitted": {"activities": 12},
        "order_no": 7,
    });
    let html = card(&owner(), &request(json!({ "context": context })), None);
    reads(
        &html,
        &[
            "Recommended action Call today",
            "Ada Lovelace",
            "ada@example.org",
            "Company Analytical",
            "Introduction",
            "Engine · Value 12000 · Stage proposal",
            "contact.replied → yes",
            "Opened three mails",
            "Order no 7",
        ],
    );
    assert!(!read(&html).contains('{'), "{}", read(&html));
    let deep = json!({"a": {"b": {"c": {"d": {"e": 1}}}}});
    let html = card(&owner(), &request(json!({ "context": deep })), None);
    reads(&html, &["Details as JSON"]);
}

/// Every text contains HTML and control characters.
#[test]
fn no_text_of_a_user_becomes_markup() {
    let evil = "<script>alert(1)</script>\u{202e}\u{1b}\"'&<img src=x onerror=y>";
    let html = card(
        &owner(),
        &request(json!({
            "kind": "input", "actions": ["respond", "reassign"], "question": evil, "title": evil, "step": evil,
            "to": [evil], "options": [evil, "b"], "reason": evil, "assignee": evil,
            "context": {evil: evil, "contact": {"name": evil, "email": evil, evil: evil},
                "emails": [{"subject": evil, evil: evil}], "findings": [evil],
                "conditions": [{"expression": evil, "outcome": evil, "values": {evil: evil}}],
                "recommended_action": evil},
            "task": {"id": "t", "title": evil, "description": evil, "tags": [evil]},
            "late": [{"by": evil, "at": at(), "data": {"outcome": evil, "data": evil}}],
            "history": [{"action": evil, "by": evil, "at": at(), "note": evil}],
        })),
        Some(&RequestAttempt {
            notice: Some(Banner::error(evil, vec![evil.to_owned()])),
            ..RequestAttempt::default()
        }),
    );
    let html = html.into_string();
    assert!(
        !html.contains("<script") && !html.contains("<img"),
        "{html}"
    );
    // A value that returns to the system is unchanged, and shown text is cleaned.
    let shown = html.replace(
        &format!("value=\"{}\"", maud::html! { (evil) }.into_string()),
        "",
    );
    let shown: String = shown
        .split("value=\"")
        .enumerate()
        .map(|(at, part)| {
            if at == 0 {
                part
            } else {
                part.split_once('"').map_or("", |(_, rest)| rest)
            }
        })
        .collect();
    assert!(
        !shown.contains('\u{202e}') && !shown.contains('\u{1b}'),
        "{shown}"
    );
}

/// S0-T2: repeated data in a handoff's context is shown once.
#[test]
fn repeated_context_is_shown_once() {
    let deals = json!([{"name": "Pilot", "value": 12000}]);
    let context = json!({
        "contact": {"name": "Zoe", "deals": deals, "company": "Zimmer"}, "deals": deals,
        "activities": [{"kind": "email_out", "subject": "Introduction", "at": "2025-12-20"}],
        "emails": [{"step": "step-01", "subject": "Introduction"}, {"step": "step-02", "subject": "Offer"}],
        "actions": [{"step": "step-01", "kind": "tool", "tool": "send_email", "status": "completed"}],
        "findings": [{"step": "step-02", "finding": "Uses two tools"}],
    });
    let html = card(&owner(), &request(json!({ "context": context })), None);
    let text = read(&html);
    for once in ["Pilot", "Introduction", "Offer", "Zimmer"] {
        assert_eq!(text.matches(once).count(), 1, "{once} in: {text}");
    }
    reads(
        &html,
        &[
            "Earlier steps 1 step step-01 · send_email · completed",
            "Uses two tools · step-02",
        ],
    );
}

#[test]
fn viewers_and_other_users_see_no_forms() {
    let open = request(json!({}));
    let viewer = SignedInUser::for_test("vi", &["viewer"], at());
    reads(
        &card(&viewer, &open, None),
        &["You can view this request but not decide it."],
    );
    let member = SignedInUser::for_test("mo", &["member"], at());
    reads(&card(&member, &open, None), &["addressed to other people"]);
    let manager = SignedInUser::for_test("ma", &["member", "manager"], at());
    assert!(card(&manager, &open, None).into_string().contains("<form"));
    let agent = SignedInUser::for_test("ro", &["agent", "manager"], at());
    assert!(!card(&agent, &open, None).into_string().contains("<form"));
}

#[test]
fn a_redacted_card_says_so() {
    let viewer = SignedInUser::for_test("vi", &["viewer"], at());
    let shown = card(&viewer, &request(json!({ "redacted": true })), None);
    reads(&shown, &["visible only to the requester"]);
    let whole = card(&viewer, &request(json!({})), None);
    assert!(!whole.into_string().contains("visible only to"));
}

/// Reasons of Holdpoint are identifiers; a card shows a sentence.
#[test]
fn a_reason_is_shown_as_a_sentence() {
    for (reason, shown) in [
        ("uncertain", "never reported"),
        ("missing_input", "The run needs these inputs."),
        ("operator_takeover", "An operator has taken this run over"),
        ("Refunds above 100 EUR", "Refunds above 100 EUR"),
    ] {
        let html = card(&owner(), &request(json!({ "reason": reason })), None);
        reads(&html, &[shown]);
        assert!(!html.into_string().contains(&format!(">{reason}<")) || reason == shown);
    }
}

/// The card has a form for each of `actions[]` and no other.
#[test]
fn a_card_has_a_form_for_each_allowed_action() {
    let handoff = |actions: serde_json::Value, steps_left: u32| {
        let changes = json!({
            "kind": "handoff", "status": "offered", "actions": actions, "steps_left": steps_left,
            "warm_lead": true, "on_timeout": "continue",
        });
        card(&owner(), &request(changes), None)
    };
    let html = handoff(
        json!(["accept", "take_over", "complete", "reassign", "snooze"]),
        2,
    );
    reads(
        &html,
        &[
            "Handoff",
            "Warm lead",
            "Take over",
            "Accept",
            "Let the agent continue – 2 steps left",
            "End the run",
            "No action needed",
            "Reassign",
            "Snooze",
        ],
    );
    assert!(!read(&html).contains("Approve"));
    reads(&handoff(json!(["complete"]), 1), &["1 step left"]);
    let none = handoff(json!([]), 2);
    assert!(!none.into_string().contains("<form"));
    let voting = request(json!({"votes": {"have": 1, "need": 2}}));
    reads(&card(&owner(), &voting, None), &["1 of 2 approvals"]);
}

/// A decided card shows the decision, its effect and late answers.
#[test]
fn a_decided_card_shows_the_decision_and_its_effect() {
    for (effect, shown) in [
        ("applied", "The run continued with this decision."),
        ("on_resume", "takes effect when the run is resumed"),
        ("run_ended", "the decision changed nothing"),
        ("pending", "is not known yet"),
    ] {
        let decided = request(json!({
            "status": "decided", "outcome": "rejected", "decided_by": "bob", "response": "too much",
            "decided_at": "2026-01-01T10:30:00Z", "effect": effect, "actions": [],
            "late": [{"by": "eve", "at": at(), "data": {"outcome": "approved", "data": null}}],
        }));
        let html = card(&owner(), &decided, None);
        reads(
            &html,
            &[
                "Rejected by bob on 1 Jan 2026, 10:30 UTC.",
                "too much",
                shown,
                "Late answers eve",
                "Approved",
            ],
        );
        assert!(!html.into_string().contains("<form"));
    }
}

/// The host where a secret is entered is shown, and the card has no input for it.
#[test]
fn a_link_shows_its_host() {
    let link = json!({"url": "https://vault.example:8443/new?for=\"><script>", "label": "Open <b>the vault</b>"});
    let asked = request(json!({
        "kind": "input", "actions": ["respond"], "options": ["done", "declined"], "link": link,
    }));
    let html = card(&owner(), &asked, None);
    reads(
        &html,
        &[
            "Enter this at vault.example:8443, not here.",
            "Open <b>the vault</b>",
            "(opens in a new tab)",
            "Done: I have entered it",
            "Decline",
        ],
    );
    let html = html.into_string();
    assert!(
        html.contains("target=\"_blank\" rel=\"noopener noreferrer\""),
        "{html}"
    );
    assert!(
        html.contains("href=\"https://vault.example:8443/new?for=%22%3E%3Cscript%3E\""),
        "{html}"
    );
    for forbidden in [
        "<script>",
        "<b>the",
        "<textarea id=\"card-hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1-answer",
    ] {
        assert!(!html.contains(forbidden), "{forbidden} in {html}");
    }
    let evil = request(json!({
        "kind": "input", "actions": ["respond"], "link": {"url": "javascript:alert(1)"},
    }));
    let html = card(&owner(), &evil, None).into_string();
    assert!(!html.contains("javascript:"), "{html}");
}

/// The requester and operators can ask again after a request without an answer.
#[test]
fn an_expired_request_can_be_asked_again() {
    let ended = |by: &str| {
        request(json!({
            "run": null, "status": "expired", "actions": ["ask_again"], "outcome": "timeout",
            "asked_by": [by],
        }))
    };
    let mia = SignedInUser::for_test("mia", &["member"], at());
    reads(
        &card(&mia, &ended("mia"), None),
        &["Ask again…", "optional; otherwise unchanged"],
    );
    assert!(!read(&card(&mia, &ended("eve"), None)).contains("Ask again"));
    reads(&card(&owner(), &ended("eve"), None), &["Ask again…"]);
}

/// D-6: a card without an agent names its requester, and the opener if that is another user.
#[test]
fn a_card_names_the_requester() {
    let asked = |by: serde_json::Value| {
        let request = request(json!({ "run": null, "agent": null, "asked_by": by }));
        read(&card(&owner(), &request, None))
    };
    assert!(asked(json!(["mia"])).contains("Requested by mia"));
    assert!(asked(json!(["deploy-bot", "mia"])).contains("Requested by mia, opened by deploy-bot"));
    assert!(!asked(json!([])).contains("Requested by"));
}

/// Acknowledging does not move the deadline, and the card says so.
#[test]
fn the_acknowledge_hint_names_the_deadline() {
    let seen = request(json!({"actions": ["acknowledge"]}));
    let (until, then) = ("The deadline remains", "and stays open.");
    reads(&card(&owner(), &seen, None), &[until, then]);
    let timeless = request(json!({"actions": ["acknowledge"], "deadline": null}));
    let html = read(&card(&owner(), &timeless, None));
    assert!(!html.contains(until), "{html}");
}

/// An email link stays current until something changes that users see.
#[test]
fn a_snooze_does_not_outdate_an_email_link() {
    let snoozed = request(json!({"version": 5, "unchanged_since": 3}));
    assert!([3, 4, 5].iter().all(|seen| is_current(&snoozed, *seen)));
    assert!(!is_current(&snoozed, 2));
    let changed = request(json!({"version": 5}));
    assert!(is_current(&changed, 5) && !is_current(&changed, 4));
}
