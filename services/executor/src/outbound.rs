//! Effects to messages: translation only.

use std::collections::BTreeMap;

use bytes::Bytes;
use holdpoint_bus::Outgoing;
use holdpoint_contracts::executor::SERVICE;
use holdpoint_contracts::history::{EventType, HistoryItem, Nudge};
use holdpoint_contracts::message::{Command, Envelope};
use holdpoint_contracts::scheduler::{SetTimer, SetTimers};
use holdpoint_contracts::subject;
use holdpoint_ids::{Workspace, partition};
use serde::Serialize;

use crate::domain::Effect;

/// Alarms of one message.
const TIMERS_PER_MESSAGE: usize = 500;

/// The messages of a batch: one a hand-out, and one for the alarms of a workspace and partition.
pub(crate) fn messages(effects: &[Effect]) -> Vec<Outgoing> {
    let mut messages = Vec::new();
    let mut timers: BTreeMap<(&Workspace, u32), Vec<SetTimer>> = BTreeMap::new();
    for effect in effects {
        match effect {
            Effect::HandOut(hand_out) => {
                let subject = subject::steps(&hand_out.workspace, hand_out.tool.as_str());
                messages.extend(outgoing(subject, hand_out));
            }
            Effect::Timer {
                workspace,
                hold,
                rev,
                due,
            } => {
                let id = hold.to_string();
                let wish = SetTimer {
                    rev: *rev,
                    due: *due,
                    id,
                };
                timers
                    .entry((workspace, partition(&wish.id)))
                    .or_default()
                    .push(wish);
            }
            Effect::AgentVersion { .. }
            | Effect::Value { .. }
            | Effect::Step(_)
            | Effect::History { .. } => {}
        }
    }
    for ((workspace, _), timers) in timers {
        for timers in timers.chunks(TIMERS_PER_MESSAGE) {
            let command = SetTimers {
                owner: SERVICE.to_owned(),
                timers: timers.to_vec(),
            };
            let subject = command.subject(workspace);
            let envelope = Envelope::of_service(SERVICE, command);
            messages.extend(outgoing(subject, &envelope));
        }
    }
    messages
}

/// One nudge a workspace: whose history has grown, and up to which number.
pub(crate) fn nudges(effects: &[Effect]) -> Vec<(String, Bytes)> {
    let mut grown: BTreeMap<&Workspace, BTreeMap<_, u64>> = BTreeMap::new();
    for effect in effects {
        if let Effect::History {
            workspace,
            run,
            items,
        } = effect
        {
            items.iter().for_each(log);
            let last = items.last().map_or(0, |item| item.seq);
            grown.entry(workspace).or_default().insert(*run, last);
        }
    }
    grown
        .into_iter()
        .filter_map(|(workspace, runs)| {
            let body = write(&Nudge {
                runs: runs.into_iter().collect(),
            })?;
            Some((subject::live(workspace, SERVICE), Bytes::from(body)))
        })
        .collect()
}

/// What an operator wants to read at night: runs that failed or stand still, and who did what.
fn log(item: &HistoryItem) {
    let HistoryItem {
        run, kind, message, ..
    } = item;
    match kind {
        EventType::RunFailed
        | EventType::RunAwaitingInput
        | EventType::RunIncident
        | EventType::StepLateResult => {
            tracing::warn!(%run, %kind, message);
        }
        EventType::RunPaused | EventType::RunCancelled => tracing::info!(%run, %kind, message),
        EventType::RunStarted
        | EventType::RunWaiting
        | EventType::RunResumed
        | EventType::RunCompleted
        | EventType::StepCalled
        | EventType::StepSucceeded
        | EventType::StepFailed
        | EventType::StepSkipped
        | EventType::InputAnswered => tracing::debug!(%run, %kind, message),
    }
}

fn outgoing<T: Serialize>(subject: String, body: &T) -> Option<Outgoing> {
    Some(Outgoing {
        subject,
        body: write(body)?,
        headers: Vec::new(),
    })
}

/// Our own types always become JSON; should one not, the log says so and sweepers repair it.
fn write<T: Serialize>(body: &T) -> Option<String> {
    serde_json::to_string(body)
        .inspect_err(|error| tracing::error!(%error, "a message that cannot be written"))
        .ok()
}
