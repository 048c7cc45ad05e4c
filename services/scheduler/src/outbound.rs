//! Translates effects into desired states and messages.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use holdpoint_bus::Outgoing;
use holdpoint_contracts::executor::{
    ScheduledStart, ScheduledStartReply, StartScheduled, TimerFired, TimersFired,
};
use holdpoint_contracts::handoff::RequestTimersFired;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::scheduler::SERVICE;
use holdpoint_ids::Workspace;
use holdpoint_kernel::{
    AfterRefusal, DesiredState, Outbound, SentState, read_first, rows_as_command,
};
use serde::Deserialize as _;
use serde::ser::Error as _;
use serde_json::Value;

use crate::domain::{Effect, Input, Key, Owner, SchedulerDomain, StartAnswer};
use crate::service::Scheduler;

/// Desired state of a fired timer, for the executor.
const FIRED: &str = "fired";

/// Desired state of a fired timer, for the handoff service.
const FIRED_HANDOFF: &str = "fired_handoff";

/// Start of the newest fire of a schedule, for the executor.
const START: &str = "start";

impl Outbound<SchedulerDomain> for Scheduler {
    fn messages(&self, effects: &[Effect]) -> Vec<Outgoing> {
        self.arming.messages(timers_to_arm(effects))
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
        let rows = ("fired", bodies);
        match kind {
            FIRED => {
                let fired = read_first::<TimerFired>(bodies)?;
                rows_as_command(SERVICE, workspace, &TimersFired { fired }, rows)
            }
            FIRED_HANDOFF => {
                let fired = read_first::<TimerFired>(bodies)?;
                rows_as_command(SERVICE, workspace, &RequestTimersFired { fired }, rows)
            }
            START => {
                let starts = read_first::<ScheduledStart>(bodies)?;
                let first = StartScheduled { starts };
                rows_as_command(SERVICE, workspace, &first, ("starts", bodies))
            }
            other => Err(serde_json::Error::custom(format!(
                "unknown kind of desired state: `{other}`"
            ))),
        }
    }

    /// A schedule records what became of its start.
    fn acknowledged(&self, sent: &SentState<'_>, reply: &Value) -> Option<Input> {
        if sent.kind != START {
            return None;
        }
        let answer = ScheduledStartReply::deserialize(reply)
            .inspect_err(|error| tracing::warn!(%error, id = sent.id, "invalid reply to a start"))
            .map_or(StartAnswer::Unreadable, StartAnswer::Replied);
        Some(start_answered(sent, answer))
    }

    /// A timer of a run or request that does not exist wakes nothing. All others stay until their owner has
    /// accepted them, because a hold waits for each. A start that a rule refuses is shown on its schedule.
    fn refused(&self, sent: &SentState<'_>, problem: &Problem) -> AfterRefusal<Input> {
        if sent.kind == START {
            if problem.status >= 500 {
                return AfterRefusal::Keep;
            }
            let answer = StartAnswer::Refused(problem.detail.clone());
            return AfterRefusal::Decide(start_answered(sent, answer));
        }
        if problem.status == 404 {
            AfterRefusal::Drop
        } else {
            AfterRefusal::Keep
        }
    }

    /// Sends nothing. The kernel calls it after the commit: only then are the schedules safe in the outbox,
    /// and their buckets count as armed.
    fn nudges(&self, effects: &[Effect]) -> Vec<(String, Bytes)> {
        self.arming.set_armed(timers_to_arm(effects));
        Vec::new()
    }
}

fn start_answered(sent: &SentState<'_>, answer: StartAnswer) -> Input {
    let key = Key {
        workspace: sent.workspace.clone(),
        owner: Owner::Scheduler,
        id: sent.id.to_owned(),
    };
    let rev = sent.rev;
    Input::StartAnswered { key, rev, answer }
}

/// The id is the timer's id, so that the partition is the one of the owner's aggregate.
fn desired_state(effect: &Effect) -> Option<DesiredState> {
    let (kind, key, rev, body) = match effect {
        Effect::Fired { key, rev, due } => {
            let kind = match key.owner {
                Owner::Executor => FIRED,
                Owner::Handoff => FIRED_HANDOFF,
                // A schedule fires by a start.
                Owner::Scheduler => return None,
            };
            let fired = TimerFired {
                id: key.id.clone(),
                rev: *rev,
                due: *due,
            };
            (kind, key, *rev, serde_json::to_string(&fired))
        }
        Effect::Start { key, rev, start } => (START, key, *rev, serde_json::to_string(start)),
        Effect::Arm { .. } => return None,
    };
    Some(DesiredState {
        kind,
        workspace: key.workspace.clone(),
        id: key.id.clone(),
        rev,
        // Our own types can always be serialized.
        body: body
            .inspect_err(|error| tracing::error!(%error, "desired state not serialized"))
            .ok()?,
    })
}

/// Shard and due time of the timers whose buckets must be armed.
fn timers_to_arm(effects: &[Effect]) -> impl Iterator<Item = (u32, DateTime<Utc>)> {
    effects.iter().filter_map(|effect| match effect {
        Effect::Arm { shard, due } => Some((*shard, *due)),
        Effect::Fired { .. } | Effect::Start { .. } => None,
    })
}

#[cfg(test)]
mod tests {
    use holdpoint_auth::Trust;
    use holdpoint_clock::Clock;
    use holdpoint_contracts::message::Envelope;
    use holdpoint_ids::partition;

    use super::*;

    fn fired(owner: Owner, workspace: &str, id: &str) -> Effect {
        Effect::Fired {
            key: Key {
                workspace: workspace.parse().unwrap(),
                owner,
                id: id.to_owned(),
            },
            rev: 7,
            due: DateTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn each_owner_is_notified_by_its_own_command_in_the_partition_of_the_id() {
        let effects = [
            fired(Owner::Executor, "sys", "node_alpha"),
            fired(Owner::Handoff, "acme", "hold_x"),
            Effect::Arm {
                shard: 0,
                due: DateTime::UNIX_EPOCH,
            },
        ];
        let scheduler = Scheduler::new(Trust::default(), Clock::standing_at(DateTime::UNIX_EPOCH));
        let desired_states = scheduler.desired_states(&effects);
        let subjects = ["executor", "handoff"].into_iter().zip(&desired_states);
        for (service, state) in subjects {
            let bodies = [state.body.as_str()];
            let command = scheduler.desired_state_command(state.kind, &state.workspace, &bodies);
            let message = command.unwrap();
            let (workspace, place) = (&state.workspace, partition(&state.id));
            let subject = format!("hp.{workspace}.cmd.{service}.{place}.timers_fired");
            assert_eq!(message.subject, subject);
            let sent: Envelope<TimersFired> = serde_json::from_str(&message.body).unwrap();
            assert_eq!(sent.command.fired.len(), 1);
            assert_eq!((&sent.command.fired[0].id, state.rev), (&state.id, 7));
        }
        assert_eq!(desired_states.len(), 2);
        let acme = "acme".parse().unwrap();
        let unknown = scheduler.desired_state_command("else", &acme, &[]);
        assert!(unknown.is_err());
    }
}
