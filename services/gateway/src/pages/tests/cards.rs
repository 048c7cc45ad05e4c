//! One request as a card.

use serde_json::json;

use super::super::card::{Notice, Tried, card};
use super::super::email_link::is_still;
use super::super::session::SignedInUser;
use super::{at, owner, read, reads, request};

/// People 8: everything needed to decide is on the card.
#[test]
fn a_card_says_who_asks_what_until_when_and_what_happens_then() {
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
            "Then the next people are told; it stays open.",
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
fn what_happens_then_is_told_for_every_kind_of_end() {
    for (on_timeout, run, told) in [
        ("fail", true, "Then the run fails."),
        ("skip", true, "the step is skipped"),
        ("default", true, "the default answer counts"),
        ("continue", true, "the run goes on without you"),
        ("fail", false, "it ends without an answer"),
    ] {
        let mut changes = json!({"on_timeout": on_timeout});
        if !run {
            changes["run"] = json!(null);
        }
        reads(&card(&owner(), &request(changes), None), &[told]);
    }
    let default =
        request(json!({"kind": "input", "on_timeout": "default", "default": "next week"}));
    reads(
        &card(&owner(), &default, None),
        &["the default answer counts", "The default answer: next week"],
    );
    let paused = request(json!({"deadline": null, "remaining_ms": 3_600_000}));
    reads(&card(&owner(), &paused, None), &["Paused with 1 hour left"]);
    let escalated = request(json!({"escalated_at": "2026-01-01T00:00:00Z"}));
    reads(
        &card(&owner(), &escalated, None),
        &["An answer still counts."],
    );
}

/// S0-T2: context in sections that one reads, and JSON only for what has no other form.
#[test]
fn the_context_is_read_and_not_decoded() {
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

/// People, "Must": HTML and control characters in every text.
#[test]
fn no_text_of_others_becomes_part_of_the_page() {
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
        Some(&Tried {
            notice: Some(Notice {
                is_good: false,
                text: evil.to_owned(),
                lines: vec![evil.to_owned()],
            }),
            ..Tried::default()
        }),
    );
    let html = html.into_string();
    assert!(
        !html.contains("<script") && !html.contains("<img"),
        "{html}"
    );
    // A value that goes back to the system must be what it was; what is shown must not.
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

/// S0-T2: what a handoff's context says twice is told once.
#[test]
fn nothing_is_told_twice() {
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
fn a_viewer_and_somebody_else_see_no_forms() {
    let open = request(json!({}));
    let viewer = SignedInUser::played("vi", &["viewer"], at());
    reads(&card(&viewer, &open, None), &["You may look at this"]);
    let member = SignedInUser::played("mo", &["member"], at());
    reads(&card(&member, &open, None), &["put to others"]);
    let manager = SignedInUser::played("ma", &["member", "manager"], at());
    assert!(card(&manager, &open, None).into_string().contains("<form"));
    let agent = SignedInUser::played("ro", &["agent", "manager"], at());
    assert!(!card(&agent, &open, None).into_string().contains("<form"));
}

/// Issue 4, Deliver 4: whoever is not shown all of it is told so.
#[test]
fn a_card_says_that_something_is_left_out() {
    let viewer = SignedInUser::played("vi", &["viewer"], at());
    let shown = card(&viewer, &request(json!({ "redacted": true })), None);
    reads(&shown, &["is shown to those who are asked"]);
    let whole = card(&viewer, &request(json!({})), None);
    assert!(!whole.into_string().contains("is shown to those"));
}

/// Our own reasons are words for programs; a person reads a sentence.
#[test]
fn a_reason_is_told_as_a_sentence() {
    for (reason, told) in [
        ("uncertain", "never reported"),
        ("missing_input", "The run lacks inputs that its steps need"),
        ("operator_takeover", "An operator has taken this run over"),
        ("Refunds above 100 EUR", "Refunds above 100 EUR"),
    ] {
        let html = card(&owner(), &request(json!({ "reason": reason })), None);
        reads(&html, &[told]);
        assert!(!html.into_string().contains(&format!(">{reason}<")) || reason == told);
    }
}

/// Render by `actions[]`: what the owner says can be done is what is shown.
#[test]
fn what_can_be_done_is_what_is_shown() {
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
            "Let the agent go on – 2 steps left",
            "End the run",
            "No action needed",
            "Reassign",
            "Put away",
        ],
    );
    assert!(!read(&html).contains("Approve"));
    reads(&handoff(json!(["complete"]), 1), &["1 step left"]);
    let none = handoff(json!([]), 2);
    assert!(!none.into_string().contains("<form"));
    let voting = request(json!({"votes": {"have": 1, "need": 2}}));
    reads(&card(&owner(), &voting, None), &["1 of 2 approvals"]);
}

/// DESIGN: deciding says what it did; late answers are kept and shown.
#[test]
fn a_decided_card_says_by_whom_when_and_what_it_did() {
    for (effect, told) in [
        ("applied", "The run went on with it."),
        ("on_resume", "takes effect when the run is resumed"),
        ("run_ended", "it changed nothing"),
        ("pending", "has not said yet"),
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
                told,
                "Came too late eve",
                "Approved",
            ],
        );
        assert!(!html.into_string().contains("<form"));
    }
}

/// People, deliverable 3: where a secret is entered is seen before one goes there, and nothing can be
/// typed here.
#[test]
fn a_link_shows_where_it_leads() {
    let link = json!({"url": "https://vault.example:8443/new?for=\"><script>", "label": "Open <b>the vault</b>"});
    let asked = request(json!({
        "kind": "input", "actions": ["respond"], "options": ["done", "declined"], "link": link,
    }));
    let html = card(&owner(), &asked, None);
    reads(
        &html,
        &[
            "This is entered at vault.example:8443, and never here.",
            "Open <b>the vault</b>",
            "(opens in a new tab)",
            "Done: I have entered it there",
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
    for unsafe_one in [
        "<script>",
        "<b>the",
        "<textarea id=\"card-hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1-answer",
    ] {
        assert!(!html.contains(unsafe_one), "{unsafe_one} in {html}");
    }
    let evil = request(json!({
        "kind": "input", "actions": ["respond"], "link": {"url": "javascript:alert(1)"},
    }));
    let html = card(&owner(), &evil, None).into_string();
    assert!(!html.contains("javascript:"), "{html}");
}

/// Issue 4, ask again: whoever asked what nobody answered, or an operator, has a button for it.
#[test]
fn what_nobody_answered_is_asked_again_by_whoever_asked() {
    let ended = |by: &str| {
        request(json!({
            "run": null, "status": "expired", "actions": ["ask_again"], "outcome": "timeout",
            "asked_by": [by],
        }))
    };
    let mia = SignedInUser::played("mia", &["member"], at());
    reads(
        &card(&mia, &ended("mia"), None),
        &["Ask again…", "as before, unless you say"],
    );
    assert!(!read(&card(&mia, &ended("eve"), None)).contains("Ask again"));
    reads(&card(&owner(), &ended("eve"), None), &["Ask again…"]);
}

/// D-6: a card without an agent names its requester, and who opened it where that is another person.
#[test]
fn a_card_says_who_asks() {
    let asked = |by: serde_json::Value| {
        let request = request(json!({ "run": null, "agent": null, "asked_by": by }));
        read(&card(&owner(), &request, None))
    };
    assert!(asked(json!(["mia"])).contains("Requested by mia"));
    assert!(asked(json!(["deploy-bot", "mia"])).contains("Requested by mia, opened by deploy-bot"));
    assert!(!asked(json!([])).contains("Requested by"));
}

/// Issue 4: "I have seen it" promises no quiet beyond the end of its time.
#[test]
fn who_has_seen_it_reads_until_when_it_is_quiet() {
    let seen = request(json!({"actions": ["acknowledge"]}));
    let (until, then) = ("No longer than until its time is up at", "it stays open.");
    reads(&card(&owner(), &seen, None), &[until, then]);
    let timeless = request(json!({"actions": ["acknowledge"], "deadline": null}));
    let html = read(&card(&owner(), &timeless, None));
    assert!(!html.contains(until), "{html}");
}

/// A mail's version counts until something changes that people look at.
#[test]
fn what_others_put_away_does_not_change_what_a_mail_said() {
    let put_away = request(json!({"version": 5, "unchanged_since": 3}));
    assert!([3, 4, 5].iter().all(|seen| is_still(&put_away, *seen)));
    assert!(!is_still(&put_away, 2));
    let changed = request(json!({"version": 5}));
    assert!(is_still(&changed, 5) && !is_still(&changed, 4));
}
