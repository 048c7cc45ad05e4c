//! `run watch`: the live history of a run, one line per event, until the run ends.

use chrono::NaiveDate;
use holdpoint_contracts::history::{EventType, HistoryItem};

use super::super::Session;
use crate::client::Live;
use crate::exit::ExitKind;
use crate::output;
use crate::table::one_line;

pub(super) async fn watch(session: &Session, run: &str) -> anyhow::Result<ExitKind> {
    let mut events = session.client.run_events(run)?;
    let mut day = None;
    loop {
        match events.next().await? {
            Live::Reset => output::note("Earlier events are no longer kept."),
            Live::Item(item, text) => {
                if session.json {
                    output::line(&text)?;
                } else {
                    note_new_day(&mut day, item.at.date_naive());
                    output::line(&event_line(&item))?;
                }
                if let Some(kind) = exit_kind(item.kind) {
                    return Ok(kind);
                }
            }
        }
    }
}

/// Lines show only the time, so the first line of each day is preceded by the date.
fn note_new_day(day: &mut Option<NaiveDate>, now: NaiveDate) {
    if day.replace(now) != Some(now) {
        output::note(&format!("{now} (UTC)"));
    }
}

pub(super) fn event_line(item: &HistoryItem) -> String {
    let step = item.step.as_deref().unwrap_or("-");
    let kind = item.kind.as_str();
    let at = item.at.format("%H:%M:%S");
    format!("{at}  {step:<10}  {kind:<18}  {}", one_line(&item.message))
        .trim_end()
        .to_owned()
}

/// How the command ends if this event ends the run.
pub(super) const fn exit_kind(kind: EventType) -> Option<ExitKind> {
    match kind {
        EventType::RunCompleted => Some(ExitKind::Ok),
        EventType::RunFailed => Some(ExitKind::Failed),
        EventType::RunCancelled => Some(ExitKind::Rejected),
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
