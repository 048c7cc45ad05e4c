//! Users' actions on a handoff, for the history of its run and for its ownership.

use std::time::Duration;

use chrono::{DateTime, Utc};
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{HandoffEvent, HandoffEventKind, HoldOutcome};
use holdpoint_contracts::instant;
use holdpoint_ids::HoldId;
use serde_json::json;

use crate::domain::model::plan::person_steps::whom;
use crate::domain::model::run::{HoldClosure, Ownership, PersonHold};
use crate::domain::rules::end_person_step::step_of_hold;
use crate::domain::transition::RunTransition;

/// Records events before a closure that the run does not have yet. Returns whether there are any.
pub(crate) fn record_events_before_close(
    transition: &mut RunTransition<'_>,
    on: &PersonHold,
    closing: &HoldClosure,
) -> bool {
    // The closure itself reports this one.
    let is_close = |handoff_event: &&HandoffEvent| {
        handoff_event.kind == HandoffEventKind::TakenOver
            && closing.outcome == HoldOutcome::TakenOver
    };
    let handoff_events = closing
        .handoff_events
        .iter()
        .filter(|handoff_event| !is_close(handoff_event));
    record_events(transition, on, handoff_events)
}

pub(crate) fn record_events<'d>(
    transition: &mut RunTransition<'_>,
    on: &PersonHold,
    handoff_events: impl Iterator<Item = &'d HandoffEvent>,
) -> bool {
    let step = step_of_hold(transition, on.id);
    let mut newest_rev = on.recorded_rev;
    for handoff_event in handoff_events.filter(|handoff_event| handoff_event.rev > on.recorded_rev)
    {
        newest_rev = newest_rev.max(handoff_event.rev);
        let HandoffEvent { by, at, to, .. } = handoff_event;
        let owner = match handoff_event.kind {
            HandoffEventKind::Reassigned => Some(owner_name(to)),
            HandoffEventKind::TakenOver => Some(by.clone()),
            HandoffEventKind::Accepted | HandoffEventKind::Timed => None,
        };
        let is_other = owner.is_some_and(|owner| pass_ownership(transition, on.id, &owner, *at));
        let (kind, message) = match handoff_event.kind {
            HandoffEventKind::Accepted => {
                (EventType::HandoffAccepted, format!("{by} has accepted."))
            }
            HandoffEventKind::Reassigned => (
                EventType::HandoffReassigned,
                format!("{by} has given it to {}.", whom(to)),
            ),
            HandoffEventKind::TakenOver if on.taken.is_some() && !is_other => continue,
            HandoffEventKind::TakenOver => {
                (EventType::HandoffTakenOver, format!("{by} has taken over."))
            }
            HandoffEventKind::Timed => {
                set_policy_timeout(transition, on, handoff_event.within_ms);
                continue;
            }
        };
        let mut data = json!({ "request": on.id, "by": by, "at": instant::write(*at) });
        if let (HandoffEventKind::Reassigned, Some(fields)) =
            (handoff_event.kind, data.as_object_mut())
        {
            fields.insert("to".to_owned(), json!(to));
        }
        transition.event(kind, step.as_deref(), message, data);
    }
    if newest_rev == on.recorded_rev {
        return false;
    }
    if let Some(on) = transition.run.people_mut().find(|one| one.id == on.id) {
        on.recorded_rev = newest_rev;
    }
    true
}

/// The owner of a reassigned run: its new recipient, or all of them until one takes it over.
fn owner_name(to: &[String]) -> String {
    match to {
        [one] => one.strip_prefix("@user.").unwrap_or(one).to_owned(),
        _ => whom(to),
    }
}

/// Changes the owner of the run, if a person owns it. Returns whether the owner has changed.
pub(crate) fn pass_ownership(
    transition: &mut RunTransition<'_>,
    hold: HoldId,
    by: &str,
    at: DateTime<Utc>,
) -> bool {
    let on = transition.run.people_mut().find(|one| one.id == hold);
    let Some(taken) = on.and_then(|on| on.taken.as_mut()) else {
        return false;
    };
    if taken.by == by || at < taken.at {
        return false;
    }
    let by = by.to_owned();
    *taken = Ownership { by, at };
    true
}

/// A policy sets the time that its step leaves open.
fn set_policy_timeout(transition: &mut RunTransition<'_>, on: &PersonHold, within_ms: Option<u64>) {
    let open = transition.run.people_mut().find(|one| one.id == on.id);
    let (Some(open), Some(ms)) = (open, within_ms) else {
        return;
    };
    if !open.set_timeout(ms) {
        return;
    }
    let deadline = open.deadline().map(instant::write);
    let step = step_of_hold(transition, on.id);
    let length = describe(Duration::from_millis(ms));
    let message = format!("It must be decided within {length}, as its policy says.");
    let data = json!({ "hold": on.id, "kind": on.kind, "deadline": deadline });
    transition.event(EventType::RunWaiting, step.as_deref(), message, data);
}
