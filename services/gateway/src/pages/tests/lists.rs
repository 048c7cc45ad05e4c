//! Whose a request is.

use serde_json::json;

use super::super::card::is_for;
use super::super::person::Person;
use super::{at, request};

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
    let also_bob = json!({"to": ["@user.eve"], "assignee": "eve", "also": ["@user.bob"]});
    assert!(is_for(&person("bob", &["member"]), &request(also_bob)));
    let to_nobody = request(json!({"to": []}));
    assert!(is_for(&person("o", &["owner"]), &to_nobody));
    assert!(!is_for(&person("o", &["admin"]), &to_nobody));
}
