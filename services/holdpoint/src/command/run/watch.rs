//! `run watch`: the live history of a run, a line an event, until the run has ended.

use chrono::NaiveDate;
use holdpoint_contracts::history::{EventType, HistoryItem};

use super::super::Session;
use crate::client::Live;
use crate::exit::Outcome;
use crate::output;
use crate::table::one_line;

pub(super) async fn watch(session: &Session, run: &str) -> anyhow::Result<Outcome> {
    let mut events = session.client.events(run, 0)?;
    let mut day = None;
    loop {
        match events.next().await? {
            Live::Reset => output::note("earlier events are no longer kept"),
            Live::Item(item, text) => {
                if session.json {
                    output::line(&text)?;
                } else {
                    note_new_day(&mut day, item.at.date_naive());
                    output::line(&event_line(&item))?;
                }
                if let Some(outcome) = ending(item.kind) {
                    return Ok(outcome);
                }
            }
        }
    }
}

/// Lines show the time only, so a wait over days says where the next one begins.
fn note_new_day(day: &mut Option<NaiveDate>, now: NaiveDate) {
    if day.replace(now) != Some(now) {
        output::note(&format!("{now} (UTC)"));
    }
}

/// One event on one line: time, step, type, sentence.
pub(super) fn event_line(item: &HistoryItem) -> String {
    let step = item.step.as_deref().unwrap_or("-");
    let kind = item.kind.as_str();
    let at = item.at.format("%H:%M:%S");
    format!("{at}  {step:<10}  {kind:<18}  {}", one_line(&item.message))
        .trim_end()
        .to_owned()
}

/// How the command ends at this event, if the run does.
pub(super) const fn ending(kind: EventType) -> Option<Outcome> {
    match kind {
        EventType::RunCompleted => Some(Outcome::Ok),
        EventType::RunFailed => Some(Outcome::Failed),
        EventType::RunCancelled => Some(Outcome::Rejected),
        EventType::RunStarted
        | EventType::RunWaiting
        | EventType::RunResumed
        | EventType::RunPaused
        | EventType::RunAwaitingInput
        | EventType::StepCalled
        | EventType::StepSucceeded
        | EventType::StepFailed
        | EventType::StepSkipped
        | EventType::StepLateResult
        | EventType::InputAnswered
        | EventType::HandoffOffered
        | EventType::HandoffAccepted
        | EventType::HandoffReassigned
        | EventType::HandoffTakenOver
        | EventType::HandoffCompleted
        | EventType::HandoffExpired
        | EventType::HandoffWithdrawn
        | EventType::RunIncident => None,
    }
}
