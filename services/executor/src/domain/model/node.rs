//! A worker process: whether it is there.
//!
//! A node that falls silent is asked first and given up after: moving the clock never takes work
//! from one that lives. What becomes of its leases is decided run by run, never here.

#[cfg(test)]
mod tests;

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::TimerReply;
use holdpoint_contracts::steps::{HeartbeatReply, LEASE_MIN_MS, NodeStatus, StepRef};
use holdpoint_ids::{NodeName, ToolName};
use serde::{Deserialize, Serialize};

use super::effect::{Effect, Reply};
use super::input::NodeInput;
use super::need::{Aggregate, Fact, Need};
use super::run::after;
use crate::domain::decision::{Decided, Decision, Lookup, LookupFn, Outcome, Undecided};

/// Longest lease: 90 days, as the longest wait.
const LEASE_MAX_MS: u64 = 90 * 24 * 60 * 60 * 1_000;

/// A node's control state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub name: NodeName,
    /// Rises by one with every decision; also the number of its timer.
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
/// forgotten, and its timers are still compared with the last number that it had.
fn version_before(known: Option<&Node>, now: DateTime<Utc>) -> u64 {
    let begin = || u64::try_from(now.timestamp_millis()).unwrap_or(0);
    known.map_or_else(begin, |node| node.version)
}

/// Decides what an input does to a node.
pub(crate) fn decide(
    known: Option<&Node>,
    name: &NodeName,
    input: &NodeInput,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    match (known, input) {
        (
            _,
            NodeInput::Heartbeat {
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
            heartbeat(fresh, working, lookup)
        }
        (Some(node), NodeInput::Deregister) => match node.status {
            NodeStatus::Up | NodeStatus::Suspect | NodeStatus::Draining => {
                let next = moved(node, NodeStatus::Down, now);
                let timer = Effect::NodeTimer {
                    node: name.clone(),
                    rev: next.version,
                    due: None,
                };
                decided(next, vec![timer], Reply::Nothing(()))
            }
            NodeStatus::Down => Ok(Outcome::Unchanged(Reply::Nothing(()))),
        },
        (Some(node), NodeInput::Silent { rev }) => match node.status {
            NodeStatus::Up | NodeStatus::Draining if node.version == *rev => {
                let ask = Effect::AskToBeat { node: name.clone() };
                let next = moved(node, NodeStatus::Suspect, now);
                decided(next, vec![ask], Reply::Timer(TimerReply::Applied))
            }
            NodeStatus::Up | NodeStatus::Draining | NodeStatus::Suspect | NodeStatus::Down => {
                Ok(Outcome::Unchanged(Reply::Timer(TimerReply::Stale)))
            }
        },
        (Some(node), NodeInput::Unheard { rev }) => match node.status {
            NodeStatus::Suspect if node.version == *rev => {
                let next = moved(node, NodeStatus::Down, now);
                decided(next, Vec::new(), Reply::Nothing(()))
            }
            NodeStatus::Up | NodeStatus::Draining | NodeStatus::Suspect | NodeStatus::Down => {
                Ok(Outcome::Unchanged(Reply::Nothing(())))
            }
        },
        (Some(node), NodeInput::Forget { rev }) => forget(node, *rev, now),
        (None, NodeInput::Silent { .. }) => Ok(Outcome::Unchanged(Reply::Timer(TimerReply::Stale))),
        (None, NodeInput::Deregister | NodeInput::Unheard { .. } | NodeInput::Forget { .. }) => {
            Ok(Outcome::Unchanged(Reply::Nothing(())))
        }
    }
}

/// Has the row of a node removed that is down and was not seen since.
fn forget(node: &Node, rev: u64, now: DateTime<Utc>) -> Decision {
    if node.status != NodeStatus::Down || node.version != rev || node.forgotten {
        return Ok(Outcome::Unchanged(Reply::Nothing(())));
    }
    let next = Node {
        forgotten: true,
        ..moved(node, NodeStatus::Down, now)
    };
    decided(next, Vec::new(), Reply::Nothing(()))
}

/// Takes a beat in, and tells the node what is not its own any more.
fn heartbeat(node: Node, working: &[StepRef], lookup: LookupFn<'_>) -> Decision {
    let mut needs = Vec::new();
    let (mut own, mut stop) = (Vec::new(), Vec::new());
    for claimed in working {
        let need = Need::Run(claimed.run);
        match lookup(&need) {
            Lookup::NotLoaded => needs.push(need),
            Lookup::Found(Fact::Run(run)) if run.lets(&node.name, claimed) => {
                own.push(claimed.clone());
            }
            Lookup::Missing | Lookup::Found(_) => stop.push(claimed.clone()),
        }
    }
    if !needs.is_empty() {
        needs.sort();
        needs.dedup();
        return Err(Undecided::NeedsMore(needs));
    }
    let timer = Effect::NodeTimer {
        node: node.name.clone(),
        rev: node.version,
        due: Some(after(node.last_seen, node.lease_ms)),
    };
    let beaten = Effect::Beaten { working: own };
    let answer = HeartbeatReply {
        stop,
        again_ms: node.lease_ms / 3,
    };
    decided(node, vec![timer, beaten], Reply::Heartbeat(answer))
}

fn moved(node: &Node, status: NodeStatus, now: DateTime<Utc>) -> Node {
    Node {
        version: node.version + 1,
        status,
        changed_at: now,
        ..node.clone()
    }
}

fn decided(node: Node, effects: Vec<Effect>, answer: Reply) -> Decision {
    Ok(Outcome::Decided(Box::new(Decided {
        state: Aggregate::Node(node),
        effects,
        facts: Vec::new(),
        reply: answer,
    })))
}
