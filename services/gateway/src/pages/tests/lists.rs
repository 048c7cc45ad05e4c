//! Whose a request is.

use serde_json::json;

use super::super::card::{card, is_for};
use super::super::session::SignedInUser;
use super::{at, read, request};

#[test]
fn a_request_is_for_those_it_is_put_to_until_somebody_has_it() {
    let person = |name: &str, roles: &[&str]| SignedInUser::played(name, roles, at());
    let to_role = request(json!({}));
    assert!(is_for(&person("a", &["member", "manager"]), &to_role));
    assert!(!is_for(&person("a", &["operator"]), &to_role));
    let to_bob = request(json!({"to": ["@user.bob"]}));
    assert!(is_for(&person("bob", &["member"]), &to_bob));
    let with_eve = request(json!({"to": ["@user.bob"], "assignee": "eve"}));
    assert!(!is_for(&person("bob", &["member"]), &with_eve));
    assert!(is_for(&person("eve", &["member"]), &with_eve));
    let also_bob = json!({"to": ["@user.eve"], "assignee": "eve", "also": ["@user.bob"]});
    assert!(is_for(&person("bob", &["member"]), &request(also_bob)));
    let to_nobody = request(json!({"to": []}));
    assert!(is_for(&person("o", &["owner"]), &to_nobody));
    assert!(!is_for(&person("o", &["admin"]), &to_nobody));
}

/// S2-R4: whoever accepts what several must agree on takes it from nobody.
#[test]
fn a_vote_is_for_all_who_may_vote_whoever_has_accepted_it() {
    let person = |name: &str, roles: &[&str]| SignedInUser::played(name, roles, at());
    let of = |to: serde_json::Value, history: serde_json::Value| {
        let votes = json!({"have": 0, "need": 2});
        request(json!({"to": to, "assignee": "eve", "votes": votes, "history": history}))
    };
    let (to_role, to_owners) = (
        of(json!(["@role.manager"]), json!([])),
        of(json!([]), json!([])),
    );
    let (mia, eve) = (
        person("mia", &["member", "manager"]),
        person("eve", &["member"]),
    );
    assert!(is_for(&mia, &to_role) && is_for(&eve, &to_role));
    assert!(!is_for(&person("bob", &["member"]), &to_role));
    assert!(is_for(&person("o", &["owner"]), &to_owners));
    assert!(!is_for(&mia, &to_owners));
    let text = read(&card(&mia, &to_role, None));
    assert!(
        text.contains(" Approve ") && !text.contains("put to others"),
        "{text}"
    );
    let voted = json!([{"action": "approved", "by": "mia", "at": at()}]);
    let voted = of(json!(["@role.manager"]), voted);
    let text = read(&card(&mia, &voted, None));
    assert!(
        text.contains("You have approved") && !text.contains(" Approve "),
        "{text}"
    );
    assert!(text.contains("Reject"), "{text}");
    let text = read(&card(&eve, &voted, None));
    assert!(text.contains(" Approve "), "{text}");
}
