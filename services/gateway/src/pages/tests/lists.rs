//! The users that a request is addressed to, and the waits of runs in lists.

use chrono_tz::Tz;
use holdpoint_contracts::run::RunView;
use serde_json::{Value, json};

use super::super::card::card;
use super::super::request_forms::is_addressed_to;
use super::super::runs::next_end;
use super::super::session::SignedInUser;
use super::{at, read, request};

#[test]
fn a_request_is_addressed_to_its_recipients_until_it_has_an_assignee() {
    let user = |name: &str, roles: &[&str]| SignedInUser::for_test(name, roles, at());
    let to_role = request(json!({}));
    assert!(is_addressed_to(
        &user("a", &["member", "manager"]),
        &to_role
    ));
    assert!(!is_addressed_to(&user("a", &["operator"]), &to_role));
    let to_bob = request(json!({"to": ["@user.bob"]}));
    assert!(is_addressed_to(&user("bob", &["member"]), &to_bob));
    let with_eve = request(json!({"to": ["@user.bob"], "assignee": "eve"}));
    assert!(!is_addressed_to(&user("bob", &["member"]), &with_eve));
    assert!(is_addressed_to(&user("eve", &["member"]), &with_eve));
    let also_bob = json!({"to": ["@user.eve"], "assignee": "eve", "also": ["@user.bob"]});
    assert!(is_addressed_to(
        &user("bob", &["member"]),
        &request(also_bob)
    ));
    let without_recipients = request(json!({"to": []}));
    assert!(is_addressed_to(&user("o", &["owner"]), &without_recipients));
    assert!(!is_addressed_to(
        &user("o", &["admin"]),
        &without_recipients
    ));
}

/// S2-R4: accepting a request that several people must approve does not take it from the others.
#[test]
fn an_assignee_does_not_exclude_other_voters() {
    let user = |name: &str, roles: &[&str]| SignedInUser::for_test(name, roles, at());
    let of = |to: Value, history: Value| {
        let votes = json!({"have": 0, "need": 2});
        request(json!({"to": to, "assignee": "eve", "votes": votes, "history": history}))
    };
    let (to_role, to_owners) = (
        of(json!(["@role.manager"]), json!([])),
        of(json!([]), json!([])),
    );
    let (mia, eve) = (
        user("mia", &["member", "manager"]),
        user("eve", &["member"]),
    );
    assert!(is_addressed_to(&mia, &to_role) && is_addressed_to(&eve, &to_role));
    assert!(!is_addressed_to(&user("bob", &["member"]), &to_role));
    assert!(is_addressed_to(&user("o", &["owner"]), &to_owners));
    assert!(!is_addressed_to(&mia, &to_owners));
    let text = read(&card(&mia, &to_role, None));
    assert!(
        text.contains(" Approve ") && !text.contains("addressed to other people"),
        "{text}"
    );
    let voted = json!([{"action": "approved", "by": "mia", "at": at()}]);
    let voted = of(json!(["@role.manager"]), voted);
    let text = read(&card(&mia, &voted, None));
    assert!(
        text.contains("You approved") && !text.contains(" Approve "),
        "{text}"
    );
    assert!(text.contains("Reject"), "{text}");
    let text = read(&card(&eve, &voted, None));
    assert!(text.contains(" Approve "), "{text}");
}

/// Words 7: a list shows the wait that ends next, and counts the others.
#[test]
fn a_list_shows_the_next_end_and_counts_the_other_waits() {
    let of = |ends: &[Option<&str>]| {
        let waits = ends.iter().enumerate().map(|(number, until)| {
            json!({
                "id": format!("hold_00000000000000000000000000000001-{}", number + 1),
                "kind": if number == 0 { "approval" } else { "timer" }, "step": "s",
                "since": at(), "until": until, "remaining_ms": null, "then": "",
            })
        });
        let run: RunView = serde_json::from_value(json!({
            "id": "run_00000000000000000000000000000001", "agent": "outreach", "version": 1,
            "status": "waiting", "message": "", "contact": null, "labels": {},
            "waiting_on": waits.collect::<Vec<Value>>(), "paused_by": [], "result": null,
            "failure": null, "clocks": { "active_ms": 0, "queued_ms": 0, "human_ms": 0 },
            "created_at": at(),
        }))
        .unwrap();
        read(&next_end(&run, at(), Tz::UTC))
    };
    let (passed, soon, late) = (
        Some("2025-12-31T00:00:00Z"),
        Some("2026-01-02T00:00:00Z"),
        Some("2026-01-06T00:00:00Z"),
    );
    assert_eq!(of(&[]), "");
    assert_eq!(of(&[passed]), "", "a request may go on after its deadline");
    let one = of(&[soon]);
    assert!(
        one.starts_with("Deadline ") && !one.contains("more"),
        "{one}"
    );
    let three = of(&[passed, late, soon]);
    assert!(
        three.starts_with("Waits until ") && three.contains("2 Jan"),
        "{three}"
    );
    assert!(three.ends_with(", and 2 more"), "{three}");
    let open = of(&[None, late]);
    assert!(open.ends_with(", and 1 more"), "{open}");
}
