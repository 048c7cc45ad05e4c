//! Effects to desired states and messages: translation only.

use chrono::{DateTime, Utc};
use holdpoint_bus::Outgoing;
use holdpoint_contracts::executor::{TimerFired, TimersFired};
use holdpoint_contracts::handoff::RequestTimersFired;
use holdpoint_contracts::scheduler::SERVICE;
use holdpoint_ids::Workspace;
use holdpoint_kernel::{AfterRefusal, DesiredState, RefusedState, read_first, rows_as_command};
use serde::ser::Error as _;

use crate::domain::{Effect, Input, Owner};

/// Kind of the desired states that tell an owner what has fired. Each owner has its own command.
const fn kind(owner: Owner) -> &'static str {
    match owner {
        Owner::Executor => "fired",
        Owner::Handoff => "fired_handoff",
    }
}

/// What owners have to be told: sent again until each has confirmed it. The id is the timer's own,
/// so that the partition is the one of the owner's aggregate.
pub(crate) fn desired_states(effects: &[Effect]) -> Vec<DesiredState> {
    effects.iter().filter_map(desired_state).collect()
}

fn desired_state(effect: &Effect) -> Option<DesiredState> {
    match effect {
        Effect::Fired { key, rev, due } => {
            let fired = TimerFired {
                id: key.id.clone(),
                rev: *rev,
                due: *due,
            };
            Some(DesiredState {
                kind: kind(key.owner),
                workspace: key.workspace.clone(),
                id: key.id.clone(),
                rev: *rev,
                // Our own types always become JSON; should one not, the log says so.
                body: serde_json::to_string(&fired)
                    .inspect_err(
                        |error| tracing::error!(%error, "a desired state that cannot be written"),
                    )
                    .ok()?,
            })
        }
        Effect::Arm { .. } => None,
    }
}

/// The command that tells an owner what has fired.
pub(crate) fn desired_state_command(
    wanted: &str,
    workspace: &Workspace,
    bodies: &[&str],
) -> Result<Outgoing, serde_json::Error> {
    let fired = read_first::<TimerFired>(bodies)?;
    let owner = Owner::ALL.into_iter().find(|owner| kind(*owner) == wanted);
    match owner {
        Some(Owner::Executor) => rows_as_command(
            SERVICE,
            workspace,
            &TimersFired { fired },
            ("fired", bodies),
        ),
        Some(Owner::Handoff) => {
            let first = RequestTimersFired { fired };
            rows_as_command(SERVICE, workspace, &first, ("fired", bodies))
        }
        None => {
            let text = format!("no desired state of the scheduler is of kind `{wanted}`");
            Err(serde_json::Error::custom(text))
        }
    }
}

/// A timer of a run or request that does not exist wakes nothing. Everything else stays until its owner
/// takes it, for somebody waits for it.
pub(crate) fn refused(desired_state: &RefusedState<'_>) -> AfterRefusal<Input> {
    match desired_state.is_about_nothing() {
        true => AfterRefusal::LetGo,
        false => AfterRefusal::Keep,
    }
}

/// Shard and due time of the timers whose buckets have to be armed.
pub(crate) fn to_arm(effects: &[Effect]) -> impl Iterator<Item = (u32, DateTime<Utc>)> {
    effects.iter().filter_map(|effect| match effect {
        Effect::Arm { shard, due } => Some((*shard, *due)),
        Effect::Fired { .. } => None,
    })
}

/// Our own types always become JSON; should one not, the log says so and sweepers repair it.
pub(crate) fn json<T: serde::Serialize>(subject: String, body: &T) -> Option<Outgoing> {
    Outgoing::json(subject, body)
        .inspect_err(|error| tracing::error!(%error, "a message that cannot be written"))
        .ok()
}

#[cfg(test)]
mod tests {
    use holdpoint_ids::partition;

    use holdpoint_contracts::message::Envelope;

    use super::*;
    use crate::domain::Key;

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
    fn each_owner_is_told_by_its_own_command_in_the_partition_of_the_id() {
        let effects = [
            fired(Owner::Executor, "sys", "node_alpha"),
            fired(Owner::Handoff, "acme", "hold_x"),
            Effect::Arm {
                shard: 0,
                due: DateTime::UNIX_EPOCH,
            },
        ];
        let desired_states = desired_states(&effects);
        let subjects = ["executor", "handoff"].into_iter().zip(&desired_states);
        for (service, desired_state) in subjects {
            let message = desired_state_command(
                desired_state.kind,
                &desired_state.workspace,
                &[&desired_state.body],
            )
            .unwrap();
            let (workspace, place) = (&desired_state.workspace, partition(&desired_state.id));
            let subject = format!("hp.{workspace}.cmd.{service}.{place}.timers_fired");
            assert_eq!(message.subject, subject);
            let told: Envelope<TimersFired> = serde_json::from_str(&message.body).unwrap();
            assert_eq!(told.command.fired.len(), 1);
            assert_eq!(
                (&told.command.fired[0].id, desired_state.rev),
                (&desired_state.id, 7)
            );
        }
        assert_eq!(desired_states.len(), 2);
        assert!(desired_state_command("else", &"acme".parse().unwrap(), &[]).is_err());
    }
}
