//! Which leases end, and how often a dispatch is sent again.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_contracts::steps::NodeStatus;
use holdpoint_ids::RunId;
use holdpoint_testkit::{NatsProcess, until};

use super::leases::{Leases, RECONNECT_GRACE};
use super::redispatch::is_due_in;
use crate::domain::{Lease, LeaseStatus, Node, lease_status};

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
}

fn lease() -> Lease {
    Lease {
        workspace: "acme".parse().unwrap(),
        run: RunId::fresh(),
        step: "step-01".to_owned(),
        dispatch: 1,
        node: "node-a".parse().unwrap(),
        claimed_at: at(0),
        heartbeat_at: at(0),
        lease_ms: 30_000,
    }
}

fn node(status: NodeStatus, last_seen: i64, changed_at: i64) -> Node {
    Node {
        name: "node-a".parse().unwrap(),
        version: 7,
        status,
        last_seen: at(last_seen),
        changed_at: at(changed_at),
        tools: Vec::new(),
        queue_depth: 0,
        lease_ms: 30_000,
        forgotten: false,
    }
}

/// S4-R4, S4-R12, and DESIGN "Time": moving the clock never takes work from a live node.
#[test]
fn a_lease_ends_only_when_its_node_is_gone_or_has_forgotten_it() {
    use NodeStatus::{Down, Suspect, Up};
    let cases = [
        ("a node that never beat", None, 29, LeaseStatus::Valid),
        ("and its time is up", None, 30, LeaseStatus::Ended),
        ("it lives", Some(node(Up, 0, 0)), 29, LeaseStatus::Valid),
        (
            "silent: asked",
            Some(node(Up, 0, 0)),
            30,
            LeaseStatus::ProbeNode(7),
        ),
        (
            "five days on",
            Some(node(Up, 5, 0)),
            432_000,
            LeaseStatus::ProbeNode(7),
        ),
        (
            "being asked",
            Some(node(Suspect, 0, 30)),
            31,
            LeaseStatus::Valid,
        ),
        ("given up", Some(node(Down, 0, 2)), 3, LeaseStatus::Ended),
        (
            "granted since",
            Some(node(Down, 0, -1)),
            3,
            LeaseStatus::Valid,
        ),
        (
            "granted since",
            Some(node(Down, 0, -1)),
            30,
            LeaseStatus::Ended,
        ),
        (
            "beats without it",
            Some(node(Up, 20, 0)),
            30,
            LeaseStatus::Ended,
        ),
    ];
    for (name, node, now, wanted) in cases {
        assert_eq!(
            lease_status(&lease(), node.as_ref(), at(now)),
            wanted,
            "{name}"
        );
    }
}

/// DESIGN, "The tables are enough": again after 20 s, and ever more seldom, down to 10 minutes.
#[test]
fn a_hand_out_is_sent_again_ever_more_seldom() {
    let turns: Vec<_> = (1..=95).filter(|passes| is_due_in(*passes)).collect();
    assert_eq!(turns, [2, 4, 8, 16, 30, 60, 90]);
}

/// S4-R4: with the bus away a silence says nothing of a node, nor does one right after it.
#[tokio::test]
async fn no_node_is_judged_while_it_cannot_be_heard() {
    let patience = Duration::from_secs(20);
    let mut nats = NatsProcess::start("").await.unwrap();
    let bus = Bus::connect(&nats.url, "test").await.unwrap();
    let mut leases = Leases::new(Clock::system(), bus.clone());
    assert!(!leases.is_deaf(Instant::now()));
    nats.stop().await.unwrap();
    let is_deaf = async || leases.is_deaf(Instant::now()).then_some(());
    until(patience, "the bus to be away", is_deaf)
        .await
        .unwrap();
    nats.go_on().await.unwrap();
    let back = async || bus.is_connected().then_some(());
    until(patience, "the bus to be back", back).await.unwrap();
    let now = Instant::now();
    assert!(
        leases.is_deaf(now),
        "nodes are given time to be heard again"
    );
    assert!(!leases.is_deaf(now + RECONNECT_GRACE));
}
