//! Translates effects into messages and desired states. It decides only which lane of its queue a dispatch takes.

pub(crate) mod child_runs;
mod json;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_auth::{StepClaims, StepKey};
use holdpoint_bus::Outgoing;
use holdpoint_contracts::executor::{ChildRunsEnded, SERVICE, SetChildRuns};
use holdpoint_contracts::handoff::SetHolds;
use holdpoint_contracts::history::{EventType, HistoryItem, Nudge};
use holdpoint_contracts::hold::{HoldOutcome, HoldState};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::notification::{
    ContactEvent, RecordContactEvents, RecordRunEnds, RunEndRecorded,
};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::scheduler::{SetTimer, SetTimers};
use holdpoint_contracts::steps::{HTTP_QUEUE, StepDispatch};
use holdpoint_contracts::subject;
use holdpoint_ids::{ContactId, HoldId, Workspace};
use holdpoint_kernel::{
    AfterRefusal, DesiredState, Outbound, SentState, count_unacknowledged, read_first,
    rows_as_command,
};
use holdpoint_store::StoreError;
use sea_orm::ConnectionTrait;
use serde::Serialize;
use serde_json::{Value, json};

use crate::domain::run::person_hold::HoldClosure;
use crate::domain::{Effect, ExecutorDomain, Input, RunInput};
use crate::executor::Executor;
use child_runs::{
    CHILD_RUN, CHILD_RUN_CANCEL, CHILD_RUN_END, child_run_state, refused_cancel, refused_child_run,
    refused_end,
};
use json::write;

/// How long a step token is valid: longer than any tool runs.
const STEP_TOKEN_LIFE: TimeDelta = TimeDelta::days(7);

const TIMER: &str = "timer";
const HOLD: &str = "hold";
const ENDED: &str = "ended";
const CONTACT_EVENT: &str = "contact_event";

/// Prefix of the id of a node's timer. No id of a hold begins with it.
pub(crate) const NODE_TIMER: &str = "node_";

impl Outbound<ExecutorDomain> for Executor {
    /// One message for each dispatch.
    fn messages(&self, effects: &[Effect]) -> Vec<Outgoing> {
        let dispatches = effects.iter().filter_map(|effect| {
            let Effect::StepDispatch(out) = effect else {
                return None;
            };
            step_dispatch(self, out, out.at)
        });
        dispatches.collect()
    }

    fn desired_states(&self, effects: &[Effect]) -> Vec<DesiredState> {
        effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Timer {
                    workspace,
                    hold,
                    rev,
                    due,
                } => timer(workspace.clone(), hold.to_string(), *rev, *due),
                Effect::NodeTimer { node, rev, due } => {
                    let system = subject::SYSTEM_WORKSPACE.parse().ok()?;
                    timer(system, format!("{NODE_TIMER}{node}"), *rev, *due)
                }
                Effect::Hold {
                    workspace,
                    desired_state,
                } => Some(DesiredState {
                    kind: HOLD,
                    workspace: workspace.clone(),
                    id: desired_state.id.to_string(),
                    rev: desired_state.rev,
                    body: write(desired_state)?,
                }),
                Effect::RunEnded { workspace, end } => Some(DesiredState {
                    kind: ENDED,
                    workspace: workspace.clone(),
                    id: end.run.to_string(),
                    // The erasure counts before the end itself.
                    rev: u64::try_from(end.ended_at.timestamp_millis()).ok()?
                        + u64::from(end.erased),
                    body: write(end)?,
                }),
                Effect::ContactEvent { workspace, event } => contact_event(workspace, event),
                Effect::ChildRun { .. } | Effect::ChildRunEnded { .. } => child_run_state(effect),
                Effect::AgentVersion { .. }
                | Effect::ContactFields { .. }
                | Effect::Value { .. }
                | Effect::Activity { .. }
                | Effect::ForgetActivities { .. }
                | Effect::EraseContactTraces { .. }
                | Effect::ErasurePending
                | Effect::DeleteRun { .. }
                | Effect::Step(_)
                | Effect::StepDispatch(_)
                | Effect::Lease(_)
                | Effect::LeaseEnded { .. }
                | Effect::LeaseEvent { .. }
                | Effect::LeasesRenewed { .. }
                | Effect::ProbeNode { .. }
                | Effect::Snapshot(_)
                | Effect::Blob { .. }
                | Effect::DeleteExpiredBlobs { .. }
                | Effect::ScopeSyncPending
                | Effect::Limits { .. }
                | Effect::PlacesChanged { .. }
                | Effect::ReplyPending { .. }
                | Effect::OperationPending
                | Effect::OperationResult(_)
                | Effect::Users(_)
                | Effect::DeleteExpiredRuns { .. }
                | Effect::History { .. } => None,
            })
            .collect()
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
                    timers: read_first(bodies)?,
                };
                rows_as_command(SERVICE, workspace, &first, ("timers", bodies))
            }
            HOLD => {
                let first = SetHolds {
                    owner: SERVICE.to_owned(),
                    holds: read_first(bodies)?,
                };
                rows_as_command(SERVICE, workspace, &first, ("holds", bodies))
            }
            ENDED => {
                let first = RecordRunEnds {
                    ends: read_first(bodies)?,
                };
                rows_as_command(SERVICE, workspace, &first, ("ends", bodies))
            }
            CONTACT_EVENT => {
                let first = RecordContactEvents {
                    events: read_first(bodies)?,
                };
                rows_as_command(SERVICE, workspace, &first, ("events", bodies))
            }
            CHILD_RUN | CHILD_RUN_CANCEL => {
                let first = SetChildRuns {
                    children: read_first(bodies)?,
                };
                rows_as_command(SERVICE, workspace, &first, ("children", bodies))
            }
            CHILD_RUN_END => {
                let first = ChildRunsEnded {
                    ends: read_first(bodies)?,
                };
                rows_as_command(SERVICE, workspace, &first, ("ends", bodies))
            }
            other => Err(serde::ser::Error::custom(format!(
                "unknown kind of desired state: `{other}`"
            ))),
        }
    }

    /// If the notification service has no watcher of the ends of an agent, or of the workspace, the rows of
    /// these ends are not wanted any more. If it has neither, the reply to the next end concerns the agent.
    fn acknowledged(&self, sent: &SentState<'_>, reply: &Value) -> Option<Input> {
        if sent.kind != ENDED {
            return None;
        }
        let (agent, watch) = match serde_json::from_value(reply.clone()).ok()? {
            RunEndRecorded::Nobody {
                workspace_watch: watch @ 1..,
                ..
            } => (None, watch),
            RunEndRecorded::Nobody { agent, watch, .. } => (Some(agent), watch),
            RunEndRecorded::Told | RunEndRecorded::Known => return None,
        };
        (watch > 0).then(|| Input::UnwatchedEnds {
            workspace: sent.workspace.clone(),
            agent,
            watch,
        })
    }

    /// A refused hold ends as a withdrawn one, so its step fails. A refused child run, or a refused end of one, is one
    /// that has failed. A refused timer is an incident of the run.
    fn refused(&self, sent: &SentState<'_>, problem: &Problem) -> AfterRefusal<Input> {
        match sent.kind {
            CHILD_RUN => return refused_child_run(sent, problem),
            CHILD_RUN_CANCEL => return refused_cancel(problem),
            CHILD_RUN_END => return refused_end(sent, problem, self.clock.now()),
            _ => {}
        }
        let Ok(hold) = sent.id.parse::<HoldId>() else {
            return AfterRefusal::Keep;
        };
        let input = match sent.kind {
            HOLD => RunInput::HoldClosed {
                hold,
                closing: HoldClosure {
                    outcome: HoldOutcome::Cancelled,
                    data: json!({
                        "code": "request_refused",
                        "message": format!("The request was refused: {problem}"),
                    }),
                    by: Actor::service(holdpoint_contracts::handoff::SERVICE).to_string(),
                    at: self.clock.now(),
                    handoff_events: Vec::new(),
                    by_rung: None,
                    approval: None,
                },
            },
            TIMER => RunInput::Incident {
                reason: format!("the scheduler refused the timer of {hold}: {problem}"),
            },
            _ => return AfterRefusal::Keep,
        };
        AfterRefusal::Decide(Input::Run {
            workspace: sent.workspace.clone(),
            run: hold.run,
            input,
        })
    }

    /// One nudge for each workspace, with the last number of each history that has grown, one for each node that has to
    /// send a heartbeat, and one about ended calls for the other replicas.
    fn nudges(&self, effects: &[Effect]) -> Vec<(String, Bytes)> {
        let mut probes = Vec::new();
        let mut grown: BTreeMap<&Workspace, BTreeMap<_, u64>> = BTreeMap::new();
        let (mut has_pending_scope, mut has_operation) = (false, false);
        let (mut freed, mut replies) = (Vec::new(), Vec::new());
        let mut has_erasure = false;
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
            } else if let Effect::ProbeNode { node } = effect {
                probes.push((subject::node(node), Bytes::from_static(b"null")));
            } else if let Effect::PlacesChanged { key } = effect {
                freed.push(key.clone());
            } else if let Effect::ReplyPending { workspace, contact } = effect {
                replies.push((workspace.clone(), contact.clone()));
            }
            has_pending_scope |= matches!(effect, Effect::ScopeSyncPending);
            has_operation |= matches!(effect, Effect::OperationPending);
            has_erasure |= matches!(effect, Effect::ErasurePending);
        }
        // Nudges follow the commit, so the sweeps find the rows of the scope, the operation and the contact.
        if has_pending_scope {
            self.pages.begin();
        }
        if has_operation {
            self.operations.begin();
        }
        if has_erasure {
            self.erasures.begin();
        }
        self.places.add(freed);
        self.replies.add(replies);
        let rows = effects.iter().filter_map(|effect| {
            let Effect::Step(row) = effect else {
                return None;
            };
            Some(row.as_ref())
        });
        let ended = self.shares.note(rows);
        let ended = ended.map(|body| (subject::ended_calls(), body));
        let histories = grown.into_iter().filter_map(|(workspace, runs)| {
            let body = write(&Nudge {
                runs: runs.into_iter().collect(),
            })?;
            Some((subject::live(workspace, SERVICE), Bytes::from(body)))
        });
        histories.chain(probes).chain(ended).collect()
    }
}

/// The message of a dispatch, signed here because the domain knows no keys.
pub(crate) fn step_dispatch(
    service: &Executor,
    out: &StepDispatch,
    now: DateTime<Utc>,
) -> Option<Outgoing> {
    let queue = out.http.as_ref().map_or(out.tool.as_str(), |_| HTTP_QUEUE);
    let lane = service.shares.assign_lane(out, queue);
    let signed = signed(out, &service.keys.steps, now);
    outgoing(subject::steps(&out.workspace, queue, lane), &signed)
}

/// A dispatch with its step token, which authorizes the tool to ask, report and act for the step.
pub(crate) fn signed(out: &StepDispatch, key: &StepKey, now: DateTime<Utc>) -> StepDispatch {
    let claims = StepClaims {
        workspace: out.workspace.clone(),
        run: out.run,
        step: out.step.clone(),
        dispatch: out.dispatch,
        expires_at: now + STEP_TOKEN_LIFE,
    };
    let token = key
        .sign(&claims)
        .inspect_err(|error| tracing::error!(%error, "step token cannot be signed; its tool cannot ask or report"));
    StepDispatch {
        token: token.ok(),
        ..out.clone()
    }
}

/// How much of the erasure of a contact is not confirmed: its holds by the handoff service, and its events by the
/// notification service.
pub(crate) async fn unconfirmed_erasures(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    contact: &ContactId,
) -> Result<u64, StoreError> {
    let state = HoldState::Erased {
        contact: contact.clone(),
    };
    let text = serde_json::to_string(&state);
    let text = text.map_err(|error| StoreError::broken("desired_states", error))?;
    let of_contact = serde_json::to_string(contact);
    let of_contact = of_contact.map_err(|error| StoreError::broken("desired_states", error))?;
    let of_contact = format!("\"contact\":{of_contact}");
    let holds = count_unacknowledged(db, HOLD, workspace, &text).await?;
    Ok(holds + count_unacknowledged(db, CONTACT_EVENT, workspace, &of_contact).await?)
}

fn timer(
    workspace: Workspace,
    id: String,
    rev: u64,
    due: Option<DateTime<Utc>>,
) -> Option<DesiredState> {
    let body = write(&SetTimer {
        id: id.clone(),
        rev,
        due,
    })?;
    Some(DesiredState {
        kind: TIMER,
        workspace,
        id,
        rev,
        body,
    })
}

/// Logs what an operator needs at night: runs that failed or wait, and the actions of users.
fn log(item: &HistoryItem) {
    let HistoryItem {
        run,
        kind,
        message,
        data,
        ..
    } = item;
    let is_uncertain = data
        .get("reason")
        .is_some_and(|reason| reason == "uncertain");
    match kind {
        EventType::RunAwaitingInput if !is_uncertain => tracing::info!(%run, %kind, message),
        EventType::RunFailed
        | EventType::RunAwaitingInput
        | EventType::RunIncident
        | EventType::StepLateResult => {
            tracing::warn!(%run, %kind, message);
        }
        EventType::RunPaused
        | EventType::RunPlanGenerated
        | EventType::RunAwaitingApproval
        | EventType::RunCancelled
        | EventType::RunRetried
        | EventType::StepRevised
        | EventType::StepContinued
        | EventType::RunSuspended
        | EventType::RunMigrated
        | EventType::RunContextChanged
        | EventType::HandoffOffered
        | EventType::HandoffAccepted
        | EventType::HandoffReassigned
        | EventType::HandoffTakenOver
        | EventType::HandoffCompleted
        | EventType::HandoffExpired
        | EventType::HandoffWithdrawn => tracing::info!(%run, %kind, message),
        EventType::RunStarted
        | EventType::RunWaiting
        | EventType::RunResumed
        | EventType::RunCompleted
        | EventType::StepCalled
        | EventType::StepAttemptFailed
        | EventType::StepSucceeded
        | EventType::StepFailed
        | EventType::StepSkipped
        | EventType::InputAnswered
        | EventType::SignalReceived => tracing::debug!(%run, %kind, message),
    }
}

fn outgoing<T: Serialize>(subject: String, body: &T) -> Option<Outgoing> {
    Some(Outgoing {
        subject,
        body: write(body)?,
        headers: Vec::new(),
    })
}

/// Every event counts and not only the newest, so each has an id.
fn contact_event(workspace: &Workspace, event: &ContactEvent) -> Option<DesiredState> {
    Some(DesiredState {
        kind: CONTACT_EVENT,
        workspace: workspace.clone(),
        id: format!("{}#{}", event.contact, event.number()),
        rev: event.number(),
        body: write(event)?,
    })
}
