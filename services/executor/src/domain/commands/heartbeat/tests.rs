//! When a node counts as gone, and what a beat is told.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names what it expects; anything else fails it"
)]

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::executor::TimerReply;
use holdpoint_contracts::steps::{Heartbeat, HeartbeatReply, NodeStatus, StepRef};
use holdpoint_ids::RunId;

use super::*;
use crate::domain::decision::{Lookup, Outcome};
use crate::domain::need::{OutFact, RunFact};

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
}

fn name() -> NodeName {
    "node-a".parse().unwrap()
}

/// A node and what it has caused.
struct Mesh {
    node: Option<Node>,
    run: Option<RunFact>,
    effects: Vec<Effect>,
}

impl Mesh {
    fn new() -> Self {
        Self {
            node: None,
            run: None,
            effects: Vec::new(),
        }
    }

    fn give(&mut self, input: &NodeInput, now: i64) -> Reply {
        let lookup = |_: &Need| match &self.run {
            Some(run) => Lookup::Found(Fact::Run(Arc::new(run.clone()))),
            None => Lookup::Missing,
        };
        match change_node(self.node.as_ref(), &name(), input, &lookup, at(now)) {
            Ok(Outcome::Decided(decision)) => {
                let Aggregate::Node(next) = decision.state else {
                    panic!("a node became something else")
                };
                let begin = || u64::try_from(at(now).timestamp_millis()).unwrap();
                let before = self.node.as_ref().map_or_else(begin, |node| node.version);
                assert_eq!(next.version, before + 1);
                self.node = Some(next);
                self.effects = decision.effects;
                decision.reply
            }
            Ok(Outcome::Unchanged(answer)) => {
                self.effects.clear();
                answer
            }
            other => panic!("{other:?}"),
        }
    }

    fn heartbeat(&mut self, working: Vec<StepRef>, lease_ms: u64, now: i64) -> HeartbeatReply {
        let input = NodeInput::Heartbeat(Heartbeat {
            node: name(),
            tools: vec!["log".parse().unwrap()],
            working,
            queue_depth: 0,
            lease_ms,
        });
        match self.give(&input, now) {
            Reply::Heartbeat(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn status(&self) -> NodeStatus {
        self.node.as_ref().unwrap().status
    }

    fn version(&self) -> u64 {
        self.node.as_ref().unwrap().version
    }

    /// What the scheduler is told: number and due time.
    fn timer(&self) -> Option<(u64, Option<DateTime<Utc>>)> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::NodeTimer { rev, due, .. } => Some((*rev, *due)),
            _ => None,
        })
    }
}

fn claimed(run: RunId, step: &str, dispatch: u64) -> StepRef {
    StepRef {
        workspace: "acme".parse().unwrap(),
        run,
        step: step.to_owned(),
        dispatch,
    }
}

/// S4-R3, S4-R6: a third of the shortest lease; the timer is the beat and that lease.
#[test]
fn a_beat_sets_the_timer_of_its_node() {
    let mut mesh = Mesh::new();
    let answer = mesh.heartbeat(Vec::new(), 30_000, 5);
    assert_eq!((answer.stop.len(), answer.again_ms), (0, 10_000));
    assert_eq!(mesh.timer(), Some((5_001, Some(at(35)))));
    assert_eq!(mesh.heartbeat(Vec::new(), 1_000, 6).again_ms, 333);
    assert_eq!(mesh.timer(), Some((5_002, Some(at(7)))));
    // Shorter than any lease: taken as the shortest there is.
    assert_eq!(mesh.heartbeat(Vec::new(), 0, 6).again_ms, 333);
}

/// S4-R3: cancelled, taken over, finished, long overdue: stop. What was started early and not granted yet goes on.
#[test]
fn a_beat_is_told_what_is_not_its_own_any_more() {
    let run = RunId::fresh();
    let out = |step: &str, dispatch, node: Option<&str>| OutFact {
        ends_at: None,
        supplement_until: None,
        step: step.to_owned(),
        dispatch,
        node: node.map(|node| node.parse().unwrap()),
    };
    let mut mesh = Mesh::new();
    mesh.run = Some(RunFact {
        workspace: "acme".parse().unwrap(),
        is_final: false,
        out: vec![
            out("mine", 1, Some("node-a")),
            out("newer", 2, Some("node-a")),
            out("other", 1, Some("node-b")),
            out("early", 1, None),
            OutFact {
                ends_at: Some(at(0)),
                ..out("slow", 1, Some("node-a"))
            },
        ],
    });
    let all = ["mine", "newer", "other", "early", "over", "slow"].map(|step| claimed(run, step, 1));
    let mut foreign = claimed(run, "mine", 1);
    foreign.workspace = "umbrella".parse().unwrap();
    let mut working = all.to_vec();
    working.push(foreign.clone());
    let answer = mesh.heartbeat(working, 30_000, 0);
    let [_, newer, other, _, over, slow] = all;
    assert_eq!(answer.stop, [newer, other, over, slow, foreign]);
}

/// S1-R2: the worker of a suspended run is told to report what it knows, while that still counts.
#[test]
fn a_beat_is_told_of_suspended_steps() {
    let run = RunId::fresh();
    let mut mesh = Mesh::new();
    mesh.run = Some(RunFact {
        workspace: "acme".parse().unwrap(),
        is_final: false,
        out: vec![OutFact {
            step: "mine".to_owned(),
            dispatch: 1,
            node: Some("node-a".parse().unwrap()),
            ends_at: None,
            supplement_until: Some(at(60)),
        }],
    });
    let mine = claimed(run, "mine", 1);
    let answer = mesh.heartbeat(vec![mine.clone()], 30_000, 60);
    assert_eq!((answer.stop.len(), answer.suspend), (0, vec![mine.clone()]));
    let answer = mesh.heartbeat(vec![mine], 30_000, 61);
    assert!(answer.suspend.is_empty());
}

/// S4-R4, DESIGN "Time": asked first, given up after, and not if it beat meanwhile.
#[test]
fn a_silent_node_is_asked_before_it_is_given_up() {
    let mut mesh = Mesh::new();
    mesh.heartbeat(Vec::new(), 30_000, 0);
    let stale = mesh.give(&NodeInput::HeartbeatMissed { rev: 0 }, 30);
    assert!(matches!(stale, Reply::Timer(TimerReply::Stale)));
    mesh.give(&NodeInput::HeartbeatMissed { rev: 1 }, 30);
    assert_eq!(mesh.status(), NodeStatus::Suspect);
    assert!(matches!(mesh.effects[..], [Effect::ProbeNode { .. }]));
    let asked = mesh.version();

    mesh.heartbeat(Vec::new(), 30_000, 31);
    assert_eq!(mesh.status(), NodeStatus::Up);
    mesh.give(&NodeInput::ProbeTimedOut { rev: asked }, 32);
    assert_eq!(mesh.status(), NodeStatus::Up, "it has answered");

    let rev = mesh.version();
    mesh.give(&NodeInput::HeartbeatMissed { rev }, 61);
    let rev = mesh.version();
    mesh.give(&NodeInput::ProbeTimedOut { rev }, 62);
    assert_eq!(mesh.status(), NodeStatus::Down);
    mesh.heartbeat(Vec::new(), 30_000, 70);
    assert_eq!(mesh.status(), NodeStatus::Up, "it is back");
}

/// S4-R11: deregistration is leaving at once, and nobody is woken for it any more.
#[test]
fn a_node_that_says_goodbye_is_down_at_once() {
    let mut mesh = Mesh::new();
    mesh.give(&NodeInput::Deregister, 0);
    assert_eq!(mesh.node, None, "nobody knows it");
    mesh.heartbeat(Vec::new(), 30_000, 0);
    mesh.give(&NodeInput::Deregister, 1);
    assert_eq!(
        (mesh.status(), mesh.timer()),
        (NodeStatus::Down, Some((2, None)))
    );
    mesh.give(&NodeInput::Deregister, 2);
    assert!(mesh.effects.is_empty());
}

/// Mend B-10: a node that is down is forgotten once, by the version that was seen; one of its name begins
/// with a higher number, for the scheduler knows the last timer.
#[test]
fn a_node_that_is_down_is_forgotten() {
    let mut mesh = Mesh::new();
    mesh.heartbeat(Vec::new(), 30_000, 5);
    let forget = |mesh: &mut Mesh, rev| {
        mesh.give(&NodeInput::Forget { rev }, 90_000);
        mesh.node.as_ref().unwrap().forgotten
    };
    let rev = mesh.version();
    assert!(!forget(&mut mesh, rev), "it lives");
    mesh.give(&NodeInput::Deregister, 6);
    let rev = mesh.version();
    assert!(!forget(&mut mesh, rev - 1), "it was seen since");
    assert!(forget(&mut mesh, rev));
    let last = mesh.version();
    mesh.node = None;
    mesh.heartbeat(Vec::new(), 30_000, 90_001);
    assert!(mesh.version() > last);
    assert!(!mesh.node.as_ref().unwrap().forgotten);
}
