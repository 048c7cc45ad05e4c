//! Effects to desired states, and desired states to messages: translation only.

use std::collections::BTreeMap;

use bytes::Bytes;
use holdpoint_bus::Outgoing;
use holdpoint_contracts::executor::{HandoffsUpdated, HoldsClosed};
use holdpoint_contracts::handoff::{RequestNudge, SERVICE};
use holdpoint_contracts::hold::{CloseReply, HandoffUpdate, HoldClosed};
use holdpoint_contracts::notification::{RecordRequestEvents, RequestEvent};
use holdpoint_contracts::scheduler::{SetTimer, SetTimers};
use holdpoint_contracts::subject;
use holdpoint_ids::{HoldId, Workspace};
use holdpoint_kernel::{
    Acknowledged, AfterRefusal, DesiredState, RefusedState, read_first, rows_as_command,
};
use serde::Serialize;

use crate::domain::{Effect, Input, RequestInput};

/// The timer of a request, to the scheduler.
const TIMER: &str = "timer";

/// How a request ended, to the executor.
const CLOSED: &str = "closed";

/// What was done with a handoff that stands, to the executor.
const HANDLED: &str = "handled";

/// What people are told of a request, to the notification service.
const FACT: &str = "fact";

/// What effects want of other services.
pub(crate) fn desired_states(effects: &[Effect]) -> Vec<DesiredState> {
    effects.iter().filter_map(desired_state).collect()
}

fn desired_state(effect: &Effect) -> Option<DesiredState> {
    match effect {
        Effect::Timer {
            workspace,
            id,
            rev,
            due,
        } => {
            let timer = SetTimer {
                id: id.to_string(),
                rev: *rev,
                due: *due,
            };
            Some(DesiredState {
                kind: TIMER,
                workspace: workspace.clone(),
                id: timer.id.clone(),
                rev: *rev,
                body: body(&timer)?,
            })
        }
        Effect::Close { workspace, closed } => Some(DesiredState {
            kind: CLOSED,
            workspace: workspace.clone(),
            id: closed.id.to_string(),
            rev: closed.rev,
            body: body(closed)?,
        }),
        Effect::RequestHistoryEntry { workspace, handled } => Some(DesiredState {
            kind: HANDLED,
            workspace: workspace.clone(),
            id: handled.id.to_string(),
            rev: handled.rev,
            body: body(handled)?,
        }),
        Effect::Fact { workspace, fact } => Some(DesiredState {
            kind: FACT,
            workspace: workspace.clone(),
            // Each counts, not the newest only.
            id: format!("{}#{}", fact.id, fact.rev),
            rev: fact.rev,
            body: body(fact)?,
        }),
        Effect::Changed { .. } | Effect::UserChanged { .. } => None,
    }
}

/// One nudge a workspace: which requests have changed. And one for all who keep copies of users.
pub(crate) fn nudges(effects: &[Effect]) -> Vec<(String, Bytes)> {
    let mut changed: BTreeMap<&Workspace, BTreeMap<HoldId, u64>> = BTreeMap::new();
    let mut has_users = false;
    for effect in effects {
        match effect {
            Effect::Changed {
                workspace,
                id,
                version,
            } => {
                changed.entry(workspace).or_default().insert(*id, *version);
            }
            Effect::UserChanged { .. } => has_users = true,
            Effect::Timer { .. }
            | Effect::Close { .. }
            | Effect::RequestHistoryEntry { .. }
            | Effect::Fact { .. } => {}
        }
    }
    let of_requests = changed.into_iter().filter_map(|(workspace, requests)| {
        let nudge = body(&RequestNudge { requests })?;
        Some((subject::live(workspace, SERVICE), nudge.into()))
    });
    let users = has_users.then(|| (subject::live_users(), Bytes::from_static(b"null")));
    of_requests.chain(users).collect()
}

/// Our own types always become JSON; should one not, the log says so.
fn body(item: &impl Serialize) -> Option<String> {
    serde_json::to_string(item)
        .inspect_err(|error| tracing::error!(%error, "a desired state that cannot be written"))
        .ok()
}

/// The command that carries desired states of one kind.
pub(crate) fn desired_state_command(
    kind: &str,
    workspace: &Workspace,
    bodies: &[&str],
) -> Result<Outgoing, serde_json::Error> {
    match kind {
        TIMER => {
            let first = SetTimers {
                owner: SERVICE.to_owned(),
                timers: read_first::<SetTimer>(bodies)?,
            };
            rows_as_command(SERVICE, workspace, &first, ("timers", bodies))
        }
        CLOSED => {
            let closed = read_first::<HoldClosed>(bodies)?;
            let first = HoldsClosed { closed };
            rows_as_command(SERVICE, workspace, &first, ("closed", bodies))
        }
        HANDLED => {
            let handled = read_first::<HandoffUpdate>(bodies)?;
            let first = HandoffsUpdated { handled };
            rows_as_command(SERVICE, workspace, &first, ("handled", bodies))
        }
        FACT => {
            let facts = read_first::<RequestEvent>(bodies)?;
            let first = RecordRequestEvents { facts };
            rows_as_command(SERVICE, workspace, &first, ("facts", bodies))
        }
        other => Err(serde::ser::Error::custom(format!(
            "no desired state is of kind `{other}`"
        ))),
    }
}

/// The executor does not know the run: nothing waits for its word. Everything else stays until the
/// receiver takes it, for a request whose timer or close is lost would wait for ever.
pub(crate) fn refused(desired_state: &RefusedState<'_>) -> AfterRefusal<Input> {
    match desired_state.kind {
        CLOSED | HANDLED if desired_state.is_target_missing() => AfterRefusal::Drop,
        _ => AfterRefusal::Keep,
    }
}

/// What a confirmed desired state means for its request: the executor's word on a close, that it knows what was
/// done with a handoff, and that a timer is set as it was wanted.
pub(crate) fn confirmed(desired_state: &Acknowledged<'_>) -> Option<Input> {
    let input = match desired_state.kind {
        CLOSED => {
            let answer: CloseReply = serde_json::from_value(desired_state.reply.clone())
                .inspect_err(
                    |error| tracing::warn!(%error, id = desired_state.id, "no word on a close"),
                )
                .ok()?;
            RequestInput::CloseAcked {
                rev: desired_state.rev,
                answer,
            }
        }
        TIMER => RequestInput::TimerAcked {
            rev: desired_state.rev,
        },
        HANDLED => RequestInput::HandoffEventsAcked {
            rev: desired_state.rev,
        },
        _ => return None,
    };
    Some(Input::Request {
        workspace: desired_state.workspace.clone(),
        id: desired_state.id.parse().ok()?,
        input,
    })
}
