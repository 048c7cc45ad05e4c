//! Stored states of every variant: a row that a release has written can be read for ever.

use std::collections::BTreeSet;

use holdpoint_contracts::handoff::{Effect as DecisionEffect, PolicyRules, StopOn, UserView};
use holdpoint_contracts::hold::{Assign, HandoffEventKind, HoldOutcome, OnTimeout, RungAct};
use holdpoint_contracts::run::HoldKind;
use holdpoint_testkit::stored_states;
use serde::Serialize;
use serde_json::Value;

use crate::domain::{Owner, Phase, Policy, Request, StandingApproval, User};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// The JSON texts of values, sorted.
fn texts<T: Serialize>(values: impl IntoIterator<Item = T>) -> BTreeSet<String> {
    let texts = values.into_iter();
    texts
        .map(|one| serde_json::to_string(&one).unwrap())
        .collect()
}

/// Requires that each field of the states, at any depth, has a value in at least one of them.
fn assert_each_field_is_set<T: Serialize>(states: &[T]) {
    let (mut all, mut set) = (BTreeSet::new(), BTreeSet::new());
    for state in states {
        collect_fields(
            "",
            &serde_json::to_value(state).unwrap(),
            &mut all,
            &mut set,
        );
    }
    assert_eq!(&all - &set, BTreeSet::new(), "fields without a value");
}

fn collect_fields(
    pointer: &str,
    value: &Value,
    all: &mut BTreeSet<String>,
    set: &mut BTreeSet<String>,
) {
    all.insert(pointer.to_owned());
    let children: Vec<_> = match value {
        Value::Null => return,
        Value::Object(fields) => fields.iter().collect(),
        Value::Array(items) if items.is_empty() => return,
        Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    set.insert(pointer.to_owned());
    for (name, child) in children {
        collect_fields(&format!("{pointer}/{name}"), child, all, set);
    }
}

/// The name of a phase. A new phase needs a new golden file.
const fn phase_name(phase: &Phase) -> &'static str {
    match phase {
        Phase::Open { .. } => "open",
        Phase::Frozen { .. } => "frozen",
        Phase::Decided { .. } => "decided",
        Phase::TimedOut { .. } => "timed_out",
        Phase::Withdrawn { .. } => "withdrawn",
    }
}

#[test]
fn stored_requests_cover_every_variant() {
    let requests = stored_states::<Request>(CRATE, "requests");
    let phases: BTreeSet<_> = requests.iter().map(|one| phase_name(&one.phase)).collect();
    let every = ["open", "frozen", "decided", "timed_out", "withdrawn"];
    assert_eq!(phases, every.into());
    let owners = requests.iter().map(|one| one.owner);
    assert_eq!(texts(owners), texts([None, Some(Owner::Executor)]));
    let effects = requests.iter().map(|one| one.effect);
    let every = [
        None,
        Some(DecisionEffect::Applied),
        Some(DecisionEffect::OnResume),
        Some(DecisionEffect::RunEnded),
        Some(DecisionEffect::Pending),
    ];
    assert_eq!(texts(effects), texts(every));
    let outcomes = requests.iter().filter_map(|one| one.end());
    let every = [
        HoldOutcome::Answered,
        HoldOutcome::Approved,
        HoldOutcome::Rejected,
        HoldOutcome::Completed,
        HoldOutcome::Cancelled,
        HoldOutcome::Timeout,
        HoldOutcome::Fired,
    ];
    let outcomes = texts(outcomes.map(|end| end.outcome));
    assert!(texts(every).is_subset(&outcomes), "{outcomes:?}");
    assert!(requests.iter().any(|one| one.spec.is_none()), "a tombstone");
    assert_each_field_is_set(&requests);
}

#[test]
fn stored_specs_and_progress_cover_every_variant() {
    let requests = stored_states::<Request>(CRATE, "requests");
    let specs: Vec<_> = requests
        .iter()
        .filter_map(|one| one.spec.as_ref())
        .collect();
    let every = [
        HoldKind::Timer,
        HoldKind::Approval,
        HoldKind::Input,
        HoldKind::Handoff,
    ];
    assert_eq!(texts(specs.iter().map(|spec| spec.kind)), texts(every));
    let every = [
        OnTimeout::Fail,
        OnTimeout::Skip,
        OnTimeout::Default,
        OnTimeout::Continue,
        OnTimeout::Escalate,
    ];
    let found = specs.iter().map(|spec| spec.on_timeout);
    assert_eq!(texts(found), texts(every));
    let found = specs.iter().map(|spec| spec.assign);
    assert_eq!(texts(found), texts([Assign::Anyone, Assign::LeastLoaded]));
    let rungs = specs.iter().flat_map(|spec| &spec.ladder);
    let every = [
        RungAct::Notify,
        RungAct::Reassign,
        RungAct::Raise,
        RungAct::Broaden,
        RungAct::AnswerDefault,
        RungAct::Fail,
    ];
    assert_eq!(texts(rungs.map(|rung| rung.act)), texts(every));
    let events = requests
        .iter()
        .flat_map(|one| &one.progress.pending_events.handoff_events);
    let every = [
        HandoffEventKind::Accepted,
        HandoffEventKind::TakenOver,
        HandoffEventKind::Reassigned,
        HandoffEventKind::Timed,
    ];
    assert_eq!(texts(events.map(|event| event.kind)), texts(every));
}

#[test]
fn stored_policies_cover_every_variant() {
    let policies = stored_states::<Policy>(CRATE, "policies");
    let mut kinds = BTreeSet::new();
    let (mut acts, mut stops) = (Vec::new(), Vec::<StopOn>::new());
    for policy in &policies {
        match &policy.rules {
            PolicyRules::Approval(_) => drop(kinds.insert("approval")),
            PolicyRules::Escalation(rules) => {
                kinds.insert("escalation");
                acts.extend(rules.rungs.iter().map(|rung| rung.act));
                stops.extend(&rules.stop_on);
            }
        }
    }
    assert_eq!(kinds, ["approval", "escalation"].into());
    assert_eq!(texts(acts).len(), 6, "every act of a rung");
    assert_eq!(texts(stops), texts([StopOn::Accept, StopOn::Acknowledge]));
    let deleted: BTreeSet<_> = policies.iter().map(|one| one.deleted).collect();
    assert_eq!(deleted, [false, true].into());
    assert_each_field_is_set(&policies);
}

#[test]
fn stored_standing_approvals_cover_every_variant() {
    let all = stored_states::<StandingApproval>(CRATE, "standing_approvals");
    assert_each_field_is_set(&all);
}

#[test]
fn stored_users_cover_every_variant() {
    let users = stored_states::<User>(CRATE, "users");
    let states: BTreeSet<_> = users
        .iter()
        .map(|one| (one.active, one.is_leaving))
        .collect();
    assert_eq!(
        states,
        [(true, false), (false, true), (false, false)].into()
    );
    assert_each_field_is_set(&users);
    let changes = stored_states::<UserView>(CRATE, "user_changes");
    let active: BTreeSet<_> = changes.iter().map(|one| one.active).collect();
    assert_eq!(active, [false, true].into());
    assert_each_field_is_set(&changes);
}
