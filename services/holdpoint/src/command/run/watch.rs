//! `run watch`: the live history of a run, one line per event, until the run ends.

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
                    // Lines show only the time, so the first line of each day is preceded by the date.
                    let now = item.at.date_naive();
                    if day.replace(now) != Some(now) {
                        output::line(&format!("{now} (UTC)"))?;
                    }
                    output::line(&event_line(&item))?;
                }
                if let Some(kind) = exit_kind(item.kind)
                    && is_over(session, run, &item).await?
                {
                    return Ok(kind);
                }
            }
        }
    }
}

/// Whether an end is the last one. A failed run may have been retried since.
async fn is_over(session: &Session, run: &str, end: &HistoryItem) -> anyhow::Result<bool> {
    if end.kind != EventType::RunFailed {
        return Ok(true);
    }
    let run = session.client.run(run).await?.value;
    Ok(run.ended_at.is_some_and(|at| at <= end.at))
}

pub(super) fn event_line(item: &HistoryItem) -> String {
    let step = item.step.as_deref().unwrap_or("-");
    let kind = item.kind.as_str();
    let at = item.at.format("%H:%M:%S");
    format!("{at}  {step:<10}  {kind:<21}  {}", one_line(&item.message))
        .trim_end()
        .to_owned()
}

/// How the command ends if this event ends the run.
pub(crate) fn exit_kind(kind: EventType) -> Option<ExitKind> {
    let ends = [
        (EventType::RunCompleted, ExitKind::Ok),
        (EventType::RunFailed, ExitKind::Failed),
        (EventType::RunCancelled, ExitKind::Rejected),
    ];
    let end = ends.into_iter().find(|(end, _)| *end == kind);
    end.map(|(_, exit)| exit)
}
