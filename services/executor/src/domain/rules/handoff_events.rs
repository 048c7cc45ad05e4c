//! What its owner says of a hold that stands: what people do with a handoff, for the run's history and for
//! who owns the run; and how long a policy lets it wait.

use std::time::Duration;

use chrono::{DateTime, Utc};
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{HandoffEvent, HandoffEventKind, HandoffUpdateReply, HoldOutcome};
use holdpoint_contracts::instant;
use holdpoint_ids::HoldId;
use serde_json::json;

use crate::domain::effect::Reply;
use crate::domain::plan::people::whom;
use crate::domain::run::people::{HoldClosure, PersonHold, Taken};

use super::super::transition::RunTransition;
use super::step_of;
use crate::domain::decision::{Decision, Outcome};

/// Something was done with a handoff that stands. Twice is once.
pub(in crate::domain::decide) fn handled(
    mut transition: RunTransition<'_>,
    hold: HoldId,
    handoff_events: &[HandoffEvent],
) -> Decision {
    let open = transition.run.people().find(|(_, on)| on.id == hold);
    let Some(on) = open.map(|(_, on)| on.clone()) else {
        return Ok(Outcome::Unchanged(Reply::Handled(
            HandoffUpdateReply::Stale,
        )));
    };
    let answer = Reply::Handled(HandoffUpdateReply::EventRecorded);
    match note(&mut transition, &on, handoff_events.iter()) {
        true => transition.decided(answer),
        false => Ok(Outcome::Unchanged(answer)),
    }
}

/// What was done before a close and has not been told: whether any of it is news.
pub(super) fn before(
    transition: &mut RunTransition<'_>,
    on: &PersonHold,
    closing: &HoldClosure,
) -> bool {
    // That one is told by the close itself.
    let is_close = |handoff_event: &&HandoffEvent| {
        handoff_event.kind == HandoffEventKind::TakenOver
            && closing.outcome == HoldOutcome::TakenOver
    };
    let handoff_events = closing
        .handoff_events
        .iter()
        .filter(|handoff_event| !is_close(handoff_event));
    note(transition, on, handoff_events)
}

fn note<'d>(
    transition: &mut RunTransition<'_>,
    on: &PersonHold,
    handoff_events: impl Iterator<Item = &'d HandoffEvent>,
) -> bool {
    let step = step_of(transition, on.id);
    let mut told = on.told;
    for handoff_event in handoff_events.filter(|handoff_event| handoff_event.rev > on.told) {
        told = told.max(handoff_event.rev);
        let HandoffEvent { by, at, to, .. } = handoff_event;
        let owner = match handoff_event.kind {
            HandoffEventKind::Reassigned => Some(owner(to)),
            HandoffEventKind::TakenOver => Some(by.clone()),
            HandoffEventKind::Accepted | HandoffEventKind::Timed => None,
        };
        let is_other = owner.is_some_and(|owner| pass_on(transition, on.id, &owner, *at));
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
                timed(transition, on, handoff_event.within_ms);
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
    if told == on.told {
        return false;
    }
    if let Some(on) = transition.run.people_mut().find(|one| one.id == on.id) {
        on.told = told;
    }
    true
}

/// Who owns a run that was given away: whoever it was given to, or all of them until somebody takes it.
fn owner(to: &[String]) -> String {
    match to {
        [one] => one.strip_prefix("@user.").unwrap_or(one).to_owned(),
        _ => whom(to),
    }
}

/// Somebody else owns the run from then on, where a person does. Whether that is news.
pub(super) fn pass_on(
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
    *taken = Taken { by, at };
    true
}

/// A policy says how long it waits, and its step does not.
fn timed(transition: &mut RunTransition<'_>, on: &PersonHold, within_ms: Option<u64>) {
    let open = transition.run.people_mut().find(|one| one.id == on.id);
    let (Some(open), Some(ms)) = (open, within_ms) else {
        return;
    };
    if !open.within(ms) {
        return;
    }
    let deadline = open.deadline().map(instant::write);
    let step = step_of(transition, on.id);
    let length = describe(Duration::from_millis(ms));
    let message = format!("It is to be decided within {length}, as its policy says.");
    let data = json!({ "hold": on.id, "kind": on.kind, "deadline": deadline });
    transition.event(EventType::RunWaiting, step.as_deref(), message, data);
}
