//! The order of the inbox.

use serde_json::json;

use super::super::card::is_for;
use super::super::inbox::sorted;
use super::super::person::Person;
use super::{at, request};

/// People 8: most urgent first, by priority and then by deadline.
#[test]
fn the_most_urgent_comes_first() {
    let asked = |question: &str, priority: &str, deadline: serde_json::Value| {
        request(json!({"question": question, "priority": priority, "deadline": deadline}))
    };
    let all = vec![
        asked("d", "low", json!("2026-01-01T01:00:00Z")),
        asked("c", "normal", json!(null)),
        asked("b", "normal", json!("2026-02-01T00:00:00Z")),
        asked("a", "critical", json!("2026-03-01T00:00:00Z")),
    ];
    let order: String = sorted(all).into_iter().map(|one| one.question).collect();
    assert_eq!(order, "abcd");
}

#[test]
fn a_request_is_for_those_it_is_put_to_until_somebody_has_it() {
    let person = |name: &str, roles: &[&str]| Person::played(name, roles, at());
    let to_role = request(json!({}));
    assert!(is_for(&person("a", &["member", "manager"]), &to_role));
    assert!(!is_for(&person("a", &["operator"]), &to_role));
    let to_bob = request(json!({"to": ["@user.bob"]}));
    assert!(is_for(&person("bob", &["member"]), &to_bob));
    let with_eve = request(json!({"to": ["@user.bob"], "assignee": "eve"}));
    assert!(!is_for(&person("bob", &["member"]), &with_eve));
    assert!(is_for(&person("eve", &["member"]), &with_eve));
    let to_nobody = request(json!({"to": []}));
    assert!(is_for(&person("o", &["owner"]), &to_nobody));
    assert!(!is_for(&person("o", &["admin"]), &to_nobody));
}
