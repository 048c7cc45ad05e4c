//! `executor.heartbeat`, `deregister`: a node renews its leases or leaves; the sweep reports its silence.
//!
//! A silent node is asked before it is given up, so that a moved clock never takes work from a live node.
//! The leases are decided run by run, never here.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::TimerReply;
use holdpoint_contracts::steps::{HeartbeatReply, LEASE_MIN_MS, NodeStatus, StepRef};
use holdpoint_ids::NodeName;

use crate::domain::decision::{Decision, Lookup, LookupFn, Outcome, Undecided, decided};
use crate::domain::effect::{Effect, Reply};
use crate::domain::input::NodeInput;
use crate::domain::model::node::Node;
use crate::domain::model::time::after;
use crate::domain::need::{Aggregate, Fact, Key, Need};

/// Longest lease: 90 days, as the longest wait.
const LEASE_MAX_MS: u64 = 90 * 24 * 60 * 60 * 1_000;

pub(crate) fn change_node(
    known: Option<&Node>,
    name: &NodeName,
    input: &NodeInput,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let with_rev = |rev: &u64| known.filter(|node| node.version == *rev);
    let changed = |node: &Node, status| Aggregate::Node(with_status(node, status, now));
    let nothing = || Reply::Nothing(());
    let unchanged = |reply| Ok(Outcome::Unchanged(reply));
    match input {
        NodeInput::Heartbeat(heartbeat) => {
            // Versions of a new node begin with the time in milliseconds. A node of that name may have been deleted,
            // and its timers are still compared with its last number.
            let begin = || u64::try_from(now.timestamp_millis()).unwrap_or(0);
            let fresh = Node {
                name: name.clone(),
                version: known.map_or_else(begin, |node| node.version) + 1,
                status: NodeStatus::Up,
                last_seen: now,
                changed_at: known
                    .filter(|node| node.status == NodeStatus::Up)
                    .map_or(now, |node| node.changed_at),
                tools: heartbeat.tools.clone(),
                queue_depth: heartbeat.queue_depth,
                lease_ms: heartbeat.lease_ms.clamp(LEASE_MIN_MS, LEASE_MAX_MS),
                forgotten: false,
            };
            renew_leases(fresh, &heartbeat.working, lookup)
        }
        NodeInput::Deregister => match known.filter(|node| node.is_live()) {
            Some(node) => {
                let timer = Effect::NodeTimer {
                    node: name.clone(),
                    rev: node.version + 1,
                    due: None,
                };
                decided(changed(node, NodeStatus::Down), vec![timer], nothing())
            }
            None => unchanged(nothing()),
        },
        NodeInput::HeartbeatMissed { rev } => match with_rev(rev) {
            Some(node) if matches!(node.status, NodeStatus::Up | NodeStatus::Draining) => {
                let probe = Effect::ProbeNode { node: name.clone() };
                let reply = Reply::Timer(TimerReply::Applied);
                decided(changed(node, NodeStatus::Suspect), vec![probe], reply)
            }
            Some(_) | None => unchanged(Reply::Timer(TimerReply::Stale)),
        },
        NodeInput::ProbeTimedOut { rev } => match with_rev(rev) {
            Some(node) if node.status == NodeStatus::Suspect => {
                decided(changed(node, NodeStatus::Down), Vec::new(), nothing())
            }
            Some(_) | None => unchanged(nothing()),
        },
        // It is down and sent no heartbeat since: its row is deleted.
        NodeInput::Forget { rev } => match with_rev(rev) {
            Some(node) if node.status == NodeStatus::Down && !node.forgotten => {
                let next = Node {
                    forgotten: true,
                    ..with_status(node, NodeStatus::Down, now)
                };
                decided(Aggregate::Node(next), Vec::new(), nothing())
            }
            Some(_) | None => unchanged(nothing()),
        },
    }
}

/// Renews the leases of a node, and tells it which steps are no longer its own.
fn renew_leases(node: Node, working: &[StepRef], lookup: LookupFn<'_>) -> Decision {
    let mut needs = Vec::new();
    let (mut own, mut stop, mut suspend) = (Vec::new(), Vec::new(), Vec::new());
    for claimed in working {
        let need = Need::State(Key::Run(claimed.run));
        match lookup(&need) {
            Lookup::NotLoaded => needs.push(need),
            Lookup::Found(Fact::Run(run))
                if run.may_continue(&node.name, claimed, node.last_seen) =>
            {
                if run.wants_supplement(claimed, node.last_seen) {
                    suspend.push(claimed.clone());
                }
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
    let beaten = Effect::LeasesRenewed { working: own };
    let answer = HeartbeatReply {
        stop,
        suspend,
        again_ms: node.lease_ms / 3,
    };
    decided(
        Aggregate::Node(node),
        vec![timer, beaten],
        Reply::Heartbeat(answer),
    )
}

fn with_status(node: &Node, status: NodeStatus, now: DateTime<Utc>) -> Node {
    Node {
        version: node.version + 1,
        status,
        changed_at: now,
        ..node.clone()
    }
}

#[cfg(test)]
mod tests;
