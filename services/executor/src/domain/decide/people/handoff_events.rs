//! What its owner says of a hold that stands: what people do with a handoff, for the run's history and for
//! who owns the run; and how long a policy lets it wait.

use std::time::Duration;

use chrono::{DateTime, Utc};
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{Deed, DeedKind, HandledAnswer, HoldOutcome};
use holdpoint_contracts::instant;
use holdpoint_ids::HoldId;
use serde_json::json;

use crate::domain::effect::Answer;
use crate::domain::plan::people::whom;
use crate::domain::run::people::{Closing, OnPeople, Taken};

use super::super::Verdict;
use super::super::turn::Turn;
use super::step_of;

/// Something was done with a handoff that stands. Twice is once.
pub(in crate::domain::decide) fn handled(
    mut turn: Turn<'_>,
    hold: HoldId,
    deeds: &[Deed],
) -> Verdict {
    let open = turn.run.people().find(|(_, on)| on.id == hold);
    let Some(on) = open.map(|(_, on)| on.clone()) else {
        return Verdict::Unchanged(Answer::Handled(HandledAnswer::Stale));
    };
    let answer = Answer::Handled(HandledAnswer::Noted);
    match note(&mut turn, &on, deeds.iter()) {
        true => turn.decided(answer),
        false => Verdict::Unchanged(answer),
    }
}

/// What was done before a close and has not been told: whether any of it is news.
pub(super) fn before(turn: &mut Turn<'_>, on: &OnPeople, closing: &Closing) -> bool {
    // That one is told by the close itself.
    let is_close = |deed: &&Deed| {
        deed.kind == DeedKind::TakenOver && closing.outcome == HoldOutcome::TakenOver
    };
    let deeds = closing.deeds.iter().filter(|deed| !is_close(deed));
    note(turn, on, deeds)
}

fn note<'d>(turn: &mut Turn<'_>, on: &OnPeople, deeds: impl Iterator<Item = &'d Deed>) -> bool {
    let step = step_of(turn, on.id);
    let mut told = on.told;
    for deed in deeds.filter(|deed| deed.rev > on.told) {
        told = told.max(deed.rev);
        let Deed { by, at, to, .. } = deed;
        let owner = match deed.kind {
            DeedKind::Reassigned => Some(owner(to)),
            DeedKind::TakenOver => Some(by.clone()),
            DeedKind::Accepted | DeedKind::Timed => None,
        };
        let is_other = owner.is_some_and(|owner| pass_on(turn, on.id, &owner, *at));
        let (kind, message) = match deed.kind {
            DeedKind::Accepted => (EventType::HandoffAccepted, format!("{by} has accepted.")),
            DeedKind::Reassigned => (
                EventType::HandoffReassigned,
                format!("{by} has given it to {}.", whom(to)),
            ),
            DeedKind::TakenOver if on.taken.is_some() && !is_other => continue,
            DeedKind::TakenOver => (EventType::HandoffTakenOver, format!("{by} has taken over.")),
            DeedKind::Timed => {
                timed(turn, on, deed.within_ms);
                continue;
            }
        };
        let mut data = json!({ "request": on.id, "by": by, "at": instant::write(*at) });
        if let (DeedKind::Reassigned, Some(fields)) = (deed.kind, data.as_object_mut()) {
            fields.insert("to".to_owned(), json!(to));
        }
        turn.event(kind, step.as_deref(), message, data);
    }
    if told == on.told {
        return false;
    }
    if let Some(on) = turn.run.people_mut().find(|one| one.id == on.id) {
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
pub(super) fn pass_on(turn: &mut Turn<'_>, hold: HoldId, by: &str, at: DateTime<Utc>) -> bool {
    let on = turn.run.people_mut().find(|one| one.id == hold);
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
fn timed(turn: &mut Turn<'_>, on: &OnPeople, within_ms: Option<u64>) {
    let open = turn.run.people_mut().find(|one| one.id == on.id);
    let (Some(open), Some(ms)) = (open, within_ms) else {
        return;
    };
    if !open.within(ms) {
        return;
    }
    let deadline = open.deadline().map(instant::write);
    let step = step_of(turn, on.id);
    let length = describe(Duration::from_millis(ms));
    let message = format!("It is to be decided within {length}, as its policy says.");
    let data = json!({ "hold": on.id, "kind": on.kind, "deadline": deadline });
    turn.event(EventType::RunWaiting, step.as_deref(), message, data);
}
