//! A worker process: whether it is there.
//!
//! A node that falls silent is asked first and given up after: moving the clock never takes work
//! from one that lives. What becomes of its leases is decided run by run, never here.

#[cfg(test)]
mod tests;

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::TimerAnswer;
use holdpoint_contracts::steps::{BeatAnswer, Claimed, LEASE_MIN_MS, NodeStatus};
use holdpoint_ids::{NodeName, ToolName};
use serde::{Deserialize, Serialize};

use super::decide::{Decision, Verdict};
use super::effect::{Answer, Effect};
use super::input::NodeInput;
use super::need::{Aggregate, Fact, Found, Lookup, Need};
use super::run::after;

/// Longest lease: 90 days, as the longest wait.
const LEASE_MAX_MS: u64 = 90 * 24 * 60 * 60 * 1_000;

/// A node's control state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its mesh name.
    pub name: NodeName,
    /// Rises by one with every decision; also the number of its alarm.
    pub version: u64,
    /// Whether it is there.
    pub status: NodeStatus,
    /// When it last beat.
    pub last_seen: DateTime<Utc>,
    /// When its status last changed.
    pub changed_at: DateTime<Utc>,
    /// What it can do.
    pub tools: Vec<ToolName>,
    /// Steps that wait at it for a place.
    pub queue_depth: u64,
    /// How long it may be silent: the shortest of its leases, in milliseconds.
    pub lease_ms: u64,
    /// Whether its row is to be removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forgotten: bool,
}

/// Versions of a node that is new begin with the time in milliseconds. A node of that name may have been
/// forgotten, and its alarms are still compared with the last number that it had.
fn version_before(known: Option<&Node>, now: DateTime<Utc>) -> u64 {
    let begin = || u64::try_from(now.timestamp_millis()).unwrap_or(0);
    known.map_or_else(begin, |node| node.version)
}

/// Decides what an input does to a node.
pub(crate) fn decide(
    known: Option<&Node>,
    name: &NodeName,
    input: &NodeInput,
    look: Lookup<'_>,
    now: DateTime<Utc>,
) -> Verdict {
    match (known, input) {
        (
            _,
            NodeInput::Beat {
                tools,
                working,
                queue_depth,
                lease_ms,
            },
        ) => {
            let fresh = Node {
                name: name.clone(),
                version: version_before(known, now) + 1,
                status: NodeStatus::Up,
                last_seen: now,
                changed_at: known
                    .filter(|node| node.status == NodeStatus::Up)
                    .map_or(now, |node| node.changed_at),
                tools: tools.clone(),
                queue_depth: *queue_depth,
                lease_ms: (*lease_ms).clamp(LEASE_MIN_MS, LEASE_MAX_MS),
                forgotten: false,
            };
            beat(fresh, working, look)
        }
        (Some(node), NodeInput::Goodbye) => match node.status {
            NodeStatus::Up | NodeStatus::Suspect | NodeStatus::Draining => {
                let next = moved(node, NodeStatus::Down, now);
                let alarm = Effect::NodeAlarm {
                    node: name.clone(),
                    rev: next.version,
                    due: None,
                };
                decided(next, vec![alarm], Answer::Nothing(()))
            }
            NodeStatus::Down => Verdict::Unchanged(Answer::Nothing(())),
        },
        (Some(node), NodeInput::Silent { rev }) => match node.status {
            NodeStatus::Up | NodeStatus::Draining if node.version == *rev => {
                let ask = Effect::AskToBeat { node: name.clone() };
                let next = moved(node, NodeStatus::Suspect, now);
                decided(next, vec![ask], Answer::Timer(TimerAnswer::Applied))
            }
            NodeStatus::Up | NodeStatus::Draining | NodeStatus::Suspect | NodeStatus::Down => {
                Verdict::Unchanged(Answer::Timer(TimerAnswer::Stale))
            }
        },
        (Some(node), NodeInput::Unheard { rev }) => match node.status {
            NodeStatus::Suspect if node.version == *rev => {
                let next = moved(node, NodeStatus::Down, now);
                decided(next, Vec::new(), Answer::Nothing(()))
            }
            NodeStatus::Up | NodeStatus::Draining | NodeStatus::Suspect | NodeStatus::Down => {
                Verdict::Unchanged(Answer::Nothing(()))
            }
        },
        (Some(node), NodeInput::Forget { rev }) => forget(node, *rev, now),
        (None, NodeInput::Silent { .. }) => Verdict::Unchanged(Answer::Timer(TimerAnswer::Stale)),
        (None, NodeInput::Goodbye | NodeInput::Unheard { .. } | NodeInput::Forget { .. }) => {
            Verdict::Unchanged(Answer::Nothing(()))
        }
    }
}

/// Has the row of a node removed that is down and was not seen since.
fn forget(node: &Node, rev: u64, now: DateTime<Utc>) -> Verdict {
    if node.status != NodeStatus::Down || node.version != rev || node.forgotten {
        return Verdict::Unchanged(Answer::Nothing(()));
    }
    let next = Node {
        forgotten: true,
        ..moved(node, NodeStatus::Down, now)
    };
    decided(next, Vec::new(), Answer::Nothing(()))
}

/// Takes a beat in, and tells the node what is not its own any more.
fn beat(node: Node, working: &[Claimed], look: Lookup<'_>) -> Verdict {
    let mut needs = Vec::new();
    let (mut own, mut stop) = (Vec::new(), Vec::new());
    for claimed in working {
        let need = Need::Run(claimed.run);
        match look(&need) {
            Found::Unknown => needs.push(need),
            Found::Here(Fact::Run(run)) if run.lets(&node.name, claimed) => {
                own.push(claimed.clone());
            }
            Found::Absent | Found::Here(_) => stop.push(claimed.clone()),
        }
    }
    if !needs.is_empty() {
        needs.sort();
        needs.dedup();
        return Verdict::Need(needs);
    }
    let alarm = Effect::NodeAlarm {
        node: node.name.clone(),
        rev: node.version,
        due: Some(after(node.last_seen, node.lease_ms)),
    };
    let beaten = Effect::Beaten { working: own };
    let answer = BeatAnswer {
        stop,
        again_ms: node.lease_ms / 3,
    };
    decided(node, vec![alarm, beaten], Answer::Beat(answer))
}

fn moved(node: &Node, status: NodeStatus, now: DateTime<Utc>) -> Node {
    Node {
        version: node.version + 1,
        status,
        changed_at: now,
        ..node.clone()
    }
}

fn decided(node: Node, effects: Vec<Effect>, answer: Answer) -> Verdict {
    Verdict::Decided(Box::new(Decision {
        state: Aggregate::Node(node),
        effects,
        facts: Vec::new(),
        answer,
    }))
}
