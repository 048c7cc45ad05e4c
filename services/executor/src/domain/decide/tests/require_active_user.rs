//! Who commands, and whether they still may.

use std::collections::BTreeMap;

use chrono::DateTime;
use holdpoint_contracts::message::Actor;
use holdpoint_ids::RunId;
use serde_json::Value;

use super::world::acme;
use crate::domain::{Fact, Found, Input, Need, Refusal, RunInput, ToolInput, Verdict, decide};

fn ada(input: Input) -> Input {
    Input::Vouched {
        workspace: acme(),
        user: "ada".parse().unwrap(),
        input: Box::new(input),
    }
}

fn forget() -> Input {
    ada(Input::Tool {
        workspace: acme(),
        name: "payments.refund".parse().unwrap(),
        input: ToolInput::Delete,
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

/// What becomes of a command where this is known of its user, and nothing of anything else.
fn given(input: &Input, user: &Found) -> Verdict {
    let look = |need: &Need| {
        let Need::User(workspace, name) = need else {
            return Found::Unknown;
        };
        assert_eq!((workspace.as_str(), name.as_str()), ("acme", "ada"));
        user.clone()
    };
    decide(None, input, &look, DateTime::UNIX_EPOCH)
}

/// DESIGN, read copies: a command that has waited is not carried out for somebody who was disabled since.
#[test]
fn whoever_is_disabled_commands_nothing() {
    let disabled = Found::Here(Fact::User(false));
    for input in [forget(), start()] {
        let Verdict::Refused(refusal) = given(&input, &disabled) else {
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
    for user in [Found::Here(Fact::User(true)), Found::Absent] {
        let verdict = given(&forget(), &user);
        assert!(
            matches!(verdict, Verdict::Refused(Refusal::ToolNotFound(_))),
            "the command itself was decided on: {verdict:?}"
        );
    }
}

/// It is asked for together with what the command needs: no round more.
#[test]
fn a_user_is_looked_up_beside_everything_else() {
    let Verdict::Need(needs) = given(&start(), &Found::Unknown) else {
        panic!("decided without looking");
    };
    let is_user = |need: &&Need| matches!(need, Need::User(..));
    assert_eq!(needs.iter().filter(is_user).count(), 1, "{needs:?}");
    assert!(needs.len() > 1, "{needs:?}");
    let Verdict::Need(needs) = given(&forget(), &Found::Unknown) else {
        panic!("decided without looking");
    };
    assert!(matches!(needs[..], [Need::User(..)]), "{needs:?}");
}
