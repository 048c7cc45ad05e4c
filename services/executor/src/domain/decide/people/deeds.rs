//! What people do with a handoff short of ending it, for the run's history. It changes nothing else: a
//! person who has taken the run over closes it, as far as the run is concerned.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{Deed, DeedKind, HandledAnswer, HoldOutcome};
use holdpoint_contracts::instant;
use holdpoint_ids::HoldId;
use serde_json::json;

use crate::domain::effect::Answer;
use crate::domain::plan::people::whom;
use crate::domain::run::people::{Closing, OnPeople};

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
        let (kind, message) = match deed.kind {
            DeedKind::Accepted => (EventType::HandoffAccepted, format!("{by} has accepted.")),
            DeedKind::Reassigned => (
                EventType::HandoffReassigned,
                format!("{by} has given it to {}.", whom(to)),
            ),
            DeedKind::TakenOver if on.taken.is_some() => continue,
            DeedKind::TakenOver => (EventType::HandoffTakenOver, format!("{by} has taken over.")),
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
