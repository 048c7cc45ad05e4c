//! What an erasure does with a contact and its runs.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use holdpoint_contracts::erasure::ErasureState;
use holdpoint_contracts::run::Clocks;
use holdpoint_ids::RunId;
use serde_json::json;

use super::*;
use crate::domain::decision::Undecided;
use crate::domain::model::plan::OnPause;
use crate::domain::model::run::{Phase, Signals};
use crate::domain::model::scope::AppliedScopes;

fn now() -> DateTime<Utc> {
    "2026-03-02T09:00:00Z".parse().unwrap()
}

fn owner() -> Actor {
    Actor("owner".to_owned())
}

fn ada() -> ContactId {
    "ada".parse().unwrap()
}

fn contact() -> Contact {
    let fields = json!({ "name": "Ada", "email": "ada@example.org" });
    Contact {
        workspace: "acme".parse().unwrap(),
        id: ada(),
        version: 3,
        fields: fields.as_object().unwrap().clone(),
        deleted: false,
        erasure: None,
    }
}

fn changed(decision: Decision) -> (Aggregate, Vec<Effect>) {
    let Ok(Outcome::Decided(decided)) = decision else {
        panic!("{decision:?} changes nothing");
    };
    (decided.state, decided.effects)
}

fn erased(known: &Contact) -> Contact {
    let (state, _effects) = changed(erase_contact(Some(known), &ada(), &owner(), now()));
    state.try_as_contact_ref().unwrap().clone()
}

fn is_unchanged(decision: &Decision) -> bool {
    matches!(decision, Ok(Outcome::Unchanged(_)))
}

fn run(phase: Phase) -> Run {
    Run {
        id: RunId::fresh(),
        workspace: "acme".parse().unwrap(),
        agent: "outreach".parse().unwrap(),
        plan: 1,
        has_generated_plan: false,
        contact: Some(ada()),
        labels: BTreeMap::new(),
        started_by: owner(),
        created_at: now(),
        version: 7,
        seq: 2,
        holds: 3,
        phase,
        steps: Vec::new(),
        pauses: Vec::new(),
        suspension: None,
        blobs: Vec::new(),
        followed: AppliedScopes::default(),
        on_pause: OnPause::default(),
        watched: false,
        clocks: Clocks::default(),
        missing_inputs_hold: None,
        takeover_hold: None,
        closed: Vec::new(),
        timed_out: Vec::new(),
        incidents: Vec::new(),
        retries: 0,
        signals: Signals::default(),
        limits: None,
        parent: None,
    }
}

#[test]
fn the_data_is_gone_at_once() {
    let (state, effects) = changed(erase_contact(Some(&contact()), &ada(), &owner(), now()));
    let next = state.try_as_contact_ref().unwrap();
    assert!(next.deleted && next.fields.is_empty() && next.version == 4);
    let view = next.erasure_view().unwrap();
    assert_eq!(view.state, ErasureState::Running);
    assert_eq!(
        (view.requested_by.as_str(), view.requested_at),
        ("owner", now())
    );
    let forgets = |effect: &Effect| matches!(effect, Effect::ForgetActivities { .. });
    assert!(effects.iter().any(forgets));
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::ErasurePending))
    );
}

/// A deleted contact may have runs. An unknown one cannot be erased.
#[test]
fn a_deleted_contact_can_be_erased() {
    let deleted = Contact {
        deleted: true,
        ..contact()
    };
    assert!(erased(&deleted).erasure.is_some());
    let unknown = erase_contact(None, &ada(), &owner(), now());
    let Err(Undecided::Refused(refusal)) = unknown else {
        panic!("{unknown:?}");
    };
    assert_eq!(refusal.problem().status, 404);
}

#[test]
fn a_repetition_begins_again_only_after_the_end() {
    let running = erased(&contact());
    let later = now() + TimeDelta::minutes(1);
    assert!(is_unchanged(&erase_contact(
        Some(&running),
        &ada(),
        &owner(),
        later
    )));
    // The end of another erasure is not the end of this one.
    assert!(is_unchanged(&complete_erasure(
        Some(&running),
        later,
        later
    )));
    let (state, _) = changed(complete_erasure(Some(&running), now(), later));
    let ended = state.try_as_contact_ref().unwrap().clone();
    assert_eq!(ended.erasure_view().unwrap().completed_at, Some(later));
    assert!(is_unchanged(&complete_erasure(Some(&ended), now(), later)));
    assert!(is_unchanged(&complete_erasure(None, now(), later)));
    let again = erased(&ended);
    assert!(again.erasure.unwrap().is_running());
}

/// A put during an erasure brings new data, which the running erasure does not concern.
#[test]
fn data_that_was_put_again_is_erased_by_another_erasure() {
    let put_again = Contact {
        deleted: false,
        fields: contact().fields,
        ..erased(&contact())
    };
    let next = erased(&put_again);
    assert!(next.deleted && next.fields.is_empty());
}

/// Each hold and task is wanted erased with a higher `rev` than anything before, and the run goes.
#[test]
fn an_ended_run_is_deleted_and_its_holds_are_erased() {
    let run = run(Phase::Completed {
        at: now(),
        summary: "done".to_owned(),
    });
    let task = HoldId::task_of("key");
    let (state, effects) = changed(erase_run(&run, &ada(), &[task]));
    assert_eq!(state.try_as_run_ref().unwrap().version, 8);
    let holds: Vec<_> = effects
        .iter()
        .filter_map(|effect| {
            let Effect::Hold { desired_state, .. } = effect else {
                return None;
            };
            Some((desired_state.id, desired_state.rev))
        })
        .collect();
    let own = (1..=3).map(|number| HoldId {
        run: run.id,
        number,
    });
    let wanted: Vec<_> = own.chain([task]).map(|id| (id, 8)).collect();
    assert_eq!(holds, wanted);
    assert!(effects.iter().any(
        |effect| matches!(effect, Effect::RunEnded { end, .. } if end.erased && end.message.is_empty())
    ));
    assert!(
        matches!(effects.last(), Some(Effect::DeleteRun { run: deleted, .. }) if *deleted == run.id)
    );
}

/// The sweep read the run before it was retried, or before its contact was known.
#[test]
fn a_live_run_and_a_run_of_another_contact_stay() {
    assert!(is_unchanged(&erase_run(&run(Phase::Live), &ada(), &[])));
    let other = Run {
        contact: None,
        ..run(Phase::Completed {
            at: now(),
            summary: String::new(),
        })
    };
    assert!(is_unchanged(&erase_run(&other, &ada(), &[])));
}
