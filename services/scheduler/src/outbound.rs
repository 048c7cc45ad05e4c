//! Effects to messages: translation only.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_bus::Outgoing;
use holdpoint_contracts::executor::{TimerFired, TimersFired};
use holdpoint_contracts::message::{Command, Envelope};
use holdpoint_contracts::scheduler::SERVICE;
use holdpoint_ids::{Workspace, partition};

use crate::domain::{Effect, Owner};

/// Alarms of one message.
const FIRED_PER_MESSAGE: usize = 500;

/// The commands that tell owners what has fired: one for each workspace and partition.
pub(crate) fn fired(effects: &[Effect]) -> Vec<Outgoing> {
    let mut groups: BTreeMap<(&Workspace, u32), Vec<TimerFired>> = BTreeMap::new();
    for effect in effects {
        match effect {
            Effect::Fired { key, rev, due } => match key.owner {
                Owner::Executor => {
                    let group = groups.entry((&key.workspace, partition(&key.id)));
                    group.or_default().push(TimerFired {
                        id: key.id.clone(),
                        rev: *rev,
                        due: *due,
                    });
                }
            },
            Effect::Arm { .. } => {}
        }
    }
    let mut messages = Vec::new();
    for ((workspace, _), fired) in groups {
        for fired in fired.chunks(FIRED_PER_MESSAGE) {
            let command = TimersFired {
                fired: fired.to_vec(),
            };
            let subject = command.subject(workspace);
            let envelope = Envelope::of_service(SERVICE, command);
            messages.extend(json(subject, &envelope));
        }
    }
    messages
}

/// Shard and due time of the alarms whose buckets have to be armed.
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
    use holdpoint_ids::{HoldId, RunId};

    use super::*;
    use crate::domain::Key;

    fn of(workspace: &str, id: String) -> Effect {
        Effect::Fired {
            key: Key {
                workspace: workspace.parse().unwrap(),
                owner: Owner::Executor,
                id,
            },
            rev: 1,
            due: DateTime::UNIX_EPOCH,
        }
    }

    fn hold(number: u32) -> String {
        let run = RunId::fresh();
        HoldId { run, number }.to_string()
    }

    #[test]
    fn what_fires_goes_to_the_partition_of_its_id_in_bounded_messages() {
        let mut effects: Vec<_> = (0..20_000).map(|n| of("acme", hold(n))).collect();
        effects.push(of("other", hold(1)));
        effects.push(of("acme", "nonsense".into()));
        let mut told = 0;
        for message in fired(&effects) {
            let envelope: Envelope<TimersFired> = serde_json::from_str(&message.body).unwrap();
            let fired = envelope.command.fired;
            assert!(fired.len() <= FIRED_PER_MESSAGE);
            let place = message.subject.split('.').nth(4).unwrap();
            for one in &fired {
                assert_eq!(place, partition(&one.id.to_string()).to_string());
            }
            told += fired.len();
        }
        assert_eq!(told, 20_001);
    }
}
