//! Who commands, and whether they still may.

use std::collections::BTreeMap;

use chrono::DateTime;
use holdpoint_contracts::message::Actor;
use holdpoint_ids::RunId;
use serde_json::Value;

use super::world::{acme, user};
use crate::domain::decision::{Decision, Lookup, Undecided};
use crate::domain::{Fact, Input, Need, Refusal, RunInput, ToolInput, decide};

fn ada(input: Input) -> Input {
    Input::OnBehalfOf {
        workspace: acme(),
        user: "ada".parse().unwrap(),
        input: Box::new(input),
    }
}

fn forget() -> Input {
    ada(Input::Tool {
        workspace: acme(),
        name: "payments.refund".parse().unwrap(),
        input: ToolInput::Delete {
            by: Actor("ada".to_owned()),
        },
    })
}

fn start() -> Input {
    let input = RunInput::Start {
        agent: "outreach".parse().unwrap(),
        input: Value::Null,
        contact: None,
        labels: BTreeMap::new(),
        by: Actor("ada".to_owned()),
    };
    ada(Input::Run {
        workspace: acme(),
        run: RunId::fresh(),
        input,
    })
}

fn known(is_active: bool) -> Fact {
    Fact::User(user(is_active, &["member"]))
}

/// What becomes of a command where this is known of its user, and nothing of anything else.
fn given(input: &Input, user: &Lookup) -> Decision {
    let lookup = |need: &Need| {
        let Need::User(workspace, name) = need else {
            return Lookup::NotLoaded;
        };
        assert_eq!((workspace.as_str(), name.as_str()), ("acme", "ada"));
        user.clone()
    };
    decide(None, input, &lookup, DateTime::UNIX_EPOCH)
}

/// DESIGN, read copies: a command that has waited is not carried out for somebody who was disabled since.
#[test]
fn whoever_is_disabled_commands_nothing() {
    let disabled = Lookup::Found(known(false));
    for input in [forget(), start()] {
        let Err(Undecided::Refused(refusal)) = given(&input, &disabled) else {
            panic!("it was carried out");
        };
        assert_eq!(refusal, Refusal::Disabled("ada".parse().unwrap()));
        let problem = refusal.problem();
        assert_eq!((problem.status, problem.code.as_str()), (403, "forbidden"));
    }
}

/// Whoever is active, and whoever the copy has not heard of yet: the gateway knew them.
#[test]
fn whoever_is_active_or_new_is_heard() {
    for user in [Lookup::Found(known(true)), Lookup::Missing] {
        let verdict = given(&forget(), &user);
        assert!(
            matches!(verdict, Err(Undecided::Refused(Refusal::ToolNotFound(_)))),
            "the command itself was decided on: {verdict:?}"
        );
    }
}

/// It is asked for together with what the command needs: no round more.
#[test]
fn a_user_is_looked_up_beside_everything_else() {
    let Err(Undecided::NeedsMore(needs)) = given(&start(), &Lookup::NotLoaded) else {
        panic!("decided without looking");
    };
    let is_user = |need: &&Need| matches!(need, Need::User(..));
    assert_eq!(needs.iter().filter(is_user).count(), 1, "{needs:?}");
    assert!(needs.len() > 1, "{needs:?}");
    let Err(Undecided::NeedsMore(needs)) = given(&forget(), &Lookup::NotLoaded) else {
        panic!("decided without looking");
    };
    assert!(matches!(needs[..], [Need::User(..)]), "{needs:?}");
}
