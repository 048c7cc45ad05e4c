//! Users: who may change them, and the owner who always remains.

use std::collections::BTreeSet;

use super::world::{World, signed, unsigned};
use crate::domain::UserInput;

fn put(roles: &[&str]) -> UserInput {
    UserInput::Put {
        email: None,
        roles: roles.iter().map(|role| role.parse().unwrap()).collect(),
    }
}

fn mail(email: &str) -> UserInput {
    UserInput::Put {
        email: Some(email.to_owned()),
        roles: BTreeSet::new(),
    }
}

fn code(result: Result<bool, holdpoint_contracts::Problem>) -> String {
    result.unwrap_err().code
}

/// API, People: there is always an owner.
#[test]
fn the_last_active_owner_keeps_the_role_and_is_not_disabled() {
    let mut world = World::new();
    let olga = world.caller("olga");
    assert_eq!(
        code(world.user_input("olga", &olga, UserInput::Disable)),
        "last_owner"
    );
    assert_eq!(
        code(world.user_input("olga", &olga, put(&["admin"]))),
        "last_owner"
    );
    assert_eq!(world.user_input("ada", &olga, put(&["owner"])), Ok(true));
    assert_eq!(
        world.user_input("olga", &olga, UserInput::Disable),
        Ok(true)
    );
    let ada = world.caller("ada");
    assert_eq!(
        code(world.user_input("ada", &ada, UserInput::Disable)),
        "last_owner"
    );
}

#[test]
fn only_an_owner_adds_and_removes_owners() {
    let mut world = World::new();
    world.user("adam", &["admin"]);
    world.user("oliver", &["owner"]);
    let adam = world.caller("adam");
    assert_eq!(
        world.user_input("new", &adam, put(&["member", "ops"])),
        Ok(true)
    );
    assert_eq!(
        code(world.user_input("new", &adam, put(&["owner"]))),
        "forbidden"
    );
    assert_eq!(
        code(world.user_input("oliver", &adam, UserInput::Disable)),
        "forbidden"
    );
    assert_eq!(
        code(world.user_input("oliver", &adam, put(&["member"]))),
        "forbidden"
    );
    let olga = world.caller("olga");
    assert_eq!(
        world.user_input("oliver", &olga, UserInput::Disable),
        Ok(true)
    );
    // Enabling a former owner adds an owner.
    assert_eq!(
        code(world.user_input("oliver", &adam, put(&["owner"]))),
        "forbidden"
    );
}

#[test]
fn members_and_unsigned_callers_change_no_user() {
    let mut world = World::new();
    let ada = world.caller("ada");
    for caller in [
        &ada,
        &signed("ada", &["owner"]),
        &unsigned("ada"),
        &unsigned("service:gateway"),
    ] {
        assert_eq!(
            code(world.user_input("new", caller, put(&["owner"]))),
            "forbidden"
        );
        assert_eq!(
            code(world.user_input("bob", caller, UserInput::Disable)),
            "forbidden"
        );
    }
}

#[test]
fn a_service_creates_the_first_user_who_is_an_owner() {
    let mut world = World::new();
    world.users.clear();
    let gateway = unsigned("service:gateway");
    assert_eq!(
        code(world.user_input("owner", &unsigned("ada"), put(&["owner"]))),
        "forbidden"
    );
    assert_eq!(
        world
            .user_input("owner", &gateway, put(&["member"]))
            .unwrap_err()
            .status,
        422
    );
    assert_eq!(
        world.user_input("owner", &gateway, put(&["owner"])),
        Ok(true)
    );
    assert_eq!(
        code(world.user_input("second", &gateway, put(&["owner"]))),
        "forbidden"
    );
}

#[test]
fn mail_addresses_and_roles_are_validated() {
    let mut world = World::new();
    let olga = world.caller("olga");
    let long = format!("{}@x", "a".repeat(319));
    for bad in ["ada", "@x", "ada@", "a\n@x", "a b@x", &long] {
        assert_eq!(
            world
                .user_input("ada", &olga, mail(bad))
                .unwrap_err()
                .status,
            422,
            "{bad}"
        );
    }
    assert_eq!(
        world.user_input("ada", &olga, mail("ada@acme.example")),
        Ok(true)
    );
    assert_eq!(
        world.user_input("ada", &olga, mail("ada@acme.example")),
        Ok(false),
        "twice is once"
    );
    let many: Vec<_> = (0..51).map(|n| format!("r{n}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    assert_eq!(
        world
            .user_input("ada", &olga, put(&many))
            .unwrap_err()
            .status,
        422
    );
    assert_eq!(
        code(world.user_input("nobody", &olga, UserInput::Disable)),
        "not_found"
    );
}
