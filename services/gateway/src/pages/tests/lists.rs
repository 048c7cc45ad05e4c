//! The users that a request is addressed to.

use serde_json::json;

use super::super::card::card;
use super::super::request_forms::is_addressed_to;
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
    let of = |to: serde_json::Value, history: serde_json::Value| {
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
