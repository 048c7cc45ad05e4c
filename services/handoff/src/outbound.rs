//! Effects to desired states and nudges, and desired states to messages: translation only.

use std::collections::BTreeMap;

use bytes::Bytes;
use holdpoint_bus::Outgoing;
use holdpoint_contracts::executor::{HandoffsUpdated, HoldsClosed};
use holdpoint_contracts::handoff::{RequestNudge, SERVICE};
use holdpoint_contracts::hold::{CloseReply, HandoffUpdate, HoldClosed};
use holdpoint_contracts::notification::{RecordRequestEvents, RequestEvent};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::scheduler::{SetTimer, SetTimers};
use holdpoint_contracts::subject;
use holdpoint_ids::{HoldId, Workspace};
use holdpoint_kernel::{
    AfterRefusal, DesiredState, Outbound, SentState, read_first, rows_as_command,
};
use serde::Serialize;
use serde_json::Value;

use crate::domain::{Effect, HandoffDomain, Input, RequestInput};
use crate::service::Handoff;

/// Desired state of a request's timer, for the scheduler.
const TIMER: &str = "timer";

/// End of a request, for the executor.
const CLOSED: &str = "closed";

/// Events of an open handoff, for the executor.
const HANDLED: &str = "handled";

/// Change of a request that users are notified of, for the notification service.
const EVENT: &str = "fact";

impl Outbound<HandoffDomain> for Handoff {
    /// Everything for other services is a desired state.
    fn messages(&self, _: &[Effect]) -> Vec<Outgoing> {
        Vec::new()
    }

    fn desired_states(&self, effects: &[Effect]) -> Vec<DesiredState> {
        effects.iter().filter_map(desired_state).collect()
    }

    fn desired_state_command(
        &self,
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
            EVENT => {
                let facts = read_first::<RequestEvent>(bodies)?;
                let first = RecordRequestEvents { facts };
                rows_as_command(SERVICE, workspace, &first, ("facts", bodies))
            }
            other => Err(serde::ser::Error::custom(format!(
                "unknown kind of desired state `{other}`"
            ))),
        }
    }

    fn acknowledged(&self, sent: &SentState<'_>, reply: &Value) -> Option<Input> {
        let rev = sent.rev;
        let input = match sent.kind {
            CLOSED => {
                let reply: CloseReply = serde_json::from_value(reply.clone())
                    .inspect_err(|error| {
                        let id = sent.id;
                        tracing::warn!(%error, id, "invalid reply to a close; its effect stays unknown");
                    })
                    .ok()?;
                RequestInput::CloseAcked { rev, reply }
            }
            TIMER => RequestInput::TimerAcked { rev },
            HANDLED => RequestInput::HandoffEventsAcked { rev },
            _ => return None,
        };
        Some(Input::Request {
            workspace: sent.workspace.clone(),
            id: sent.id.parse().ok()?,
            input,
        })
    }

    /// A run that the executor does not know was deleted after its retention, or never existed: its request has no
    /// effect. Everything else is kept until the receiver takes it, because a request whose timer or close is lost
    /// would wait for ever.
    fn refused(&self, sent: &SentState<'_>, problem: &Problem) -> AfterRefusal<Input> {
        match (sent.kind, sent.id.parse()) {
            (CLOSED, Ok(id)) if problem.status == 404 => AfterRefusal::Decide(Input::Request {
                workspace: sent.workspace.clone(),
                id,
                input: RequestInput::CloseAcked {
                    rev: sent.rev,
                    reply: CloseReply::RunEnded,
                },
            }),
            (CLOSED | HANDLED, _) if problem.status == 404 => AfterRefusal::Drop,
            _ => AfterRefusal::Keep,
        }
    }

    /// One nudge for each workspace with the changed requests, and one for all user directories.
    fn nudges(&self, effects: &[Effect]) -> Vec<(String, Bytes)> {
        let mut changed: BTreeMap<&Workspace, BTreeMap<HoldId, u64>> = BTreeMap::new();
        for effect in effects {
            if let Effect::Changed {
                workspace,
                id,
                version,
            } = effect
            {
                changed.entry(workspace).or_default().insert(*id, *version);
            }
        }
        let is_of_user = |effect: &Effect| matches!(effect, Effect::UserChanged(..));
        let has_users = effects.iter().any(is_of_user);
        // Nudges follow the commit, so the sweep finds the row of the user.
        if has_users {
            self.reassignment.begin();
        }
        let of_requests = changed.into_iter().filter_map(|(workspace, requests)| {
            let nudge = body(&RequestNudge { requests })?;
            Some((subject::live(workspace, SERVICE), nudge.into()))
        });
        let users = has_users.then(|| (subject::live_users(), Bytes::from_static(b"null")));
        of_requests.chain(users).collect()
    }
}

fn desired_state(effect: &Effect) -> Option<DesiredState> {
    let (kind, workspace, id, rev, body) = match effect {
        Effect::Timer(workspace, timer) => {
            (TIMER, workspace, timer.id.clone(), timer.rev, body(timer)?)
        }
        Effect::Close(workspace, closed) => {
            let id = closed.id.to_string();
            (CLOSED, workspace, id, closed.rev, body(closed)?)
        }
        Effect::HandoffUpdate(workspace, update) => {
            let id = update.id.to_string();
            (HANDLED, workspace, id, update.rev, body(update)?)
        }
        Effect::RequestEvent(workspace, event) => {
            // Every event counts and not only the newest, so each has an id.
            let id = format!("{}#{}", event.id, event.rev);
            (EVENT, workspace, id, event.rev, body(event)?)
        }
        Effect::Changed { .. }
        | Effect::UserChanged(..)
        | Effect::StandingApprovalUsed { .. }
        | Effect::Erased { .. }
        | Effect::DeleteExpired { .. } => {
            return None;
        }
    };
    Some(DesiredState {
        kind,
        workspace: workspace.clone(),
        id,
        rev,
        body,
    })
}

/// These types always become JSON; an error would be a bug, and the effect is then not sent.
fn body(item: &impl Serialize) -> Option<String> {
    serde_json::to_string(item)
        .inspect_err(
            |error| tracing::error!(%error, "desired state cannot be encoded; it will not be sent"),
        )
        .ok()
}

#[cfg(test)]
mod tests {
    use holdpoint_auth::Trust;
    use holdpoint_clock::Clock;

    use super::*;

    /// A decision has no effect on a run that was deleted after its retention, and no other refusal drops a close.
    #[test]
    fn a_close_of_an_unknown_run_has_no_effect() {
        let handoff = Handoff::new(Trust::default(), Clock::system());
        let (id, workspace) = (HoldId::standalone(), "acme".parse().unwrap());
        let refused = |kind, status| {
            let sent = SentState {
                kind,
                workspace: &workspace,
                id: &id.to_string(),
                rev: 7,
            };
            handoff.refused(&sent, &Problem::new(status, "refused", "no"))
        };
        let AfterRefusal::Decide(Input::Request {
            workspace: of,
            id: closed,
            input: RequestInput::CloseAcked { rev, reply },
        }) = refused(CLOSED, 404)
        else {
            panic!("the close of an unknown run is not decided");
        };
        assert_eq!((of, closed, rev), (workspace.clone(), id, 7));
        assert_eq!(reply, CloseReply::RunEnded);
        assert!(matches!(refused(HANDLED, 404), AfterRefusal::Drop));
        for (kind, status) in [(CLOSED, 422), (HANDLED, 409), (TIMER, 404), (EVENT, 404)] {
            assert!(
                matches!(refused(kind, status), AfterRefusal::Keep),
                "{kind} {status}"
            );
        }
    }
}
