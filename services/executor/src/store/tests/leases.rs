//! Leases, handovers and queued steps, on both databases.

use chrono::TimeDelta;
use holdpoint_contracts::run::{LeaseAction, LeaseEvent, StepStatus};
use holdpoint_contracts::steps::{NodeStatus, StepRef};
use holdpoint_ids::RunId;
use sea_orm::{ConnectionTrait, DatabaseConnection};
use serde_json::json;

use super::samples::{acme, node, now};
use super::{record_all, save_all, sqlite};
use crate::domain::{Aggregate, Effect, Key, Lease, Node, StepRow};
use crate::store::{
    due_leases, forgettable_nodes, lease_events_of, leases, list_leases, list_nodes, queued_steps,
};

fn a_lease(run: RunId, step: &str, node: &str) -> Lease {
    Lease {
        workspace: acme(),
        run,
        step: step.to_owned(),
        dispatch: 1,
        node: node.parse().unwrap(),
        claimed_at: now(),
        heartbeat_at: now(),
        lease_ms: 1_000,
    }
}

fn stand(lease: &Lease) -> Effect {
    Effect::Lease(Box::new(lease.clone()))
}

/// S4-R3, S4-R4, S4-R12
#[tokio::test]
async fn leases_stand_until_they_run_out_or_are_forgotten() {
    let (_dir, db) = sqlite().await;
    stand_and_end(&db).await;
    handed_over(&db).await;
}

/// DESIGN, "The tables are enough"
#[tokio::test]
async fn queued_steps_come_in_pages() {
    let (_dir, db) = sqlite().await;
    queued_in_pages(&db).await;
}

/// Mend B-2: a queued step whose row cannot be read is passed over, and the steps after it are found.
#[tokio::test]
async fn an_unreadable_step_is_passed_over_by_its_page() {
    let (_dir, db) = sqlite().await;
    unreadable_step(&db).await;
}

pub(super) async fn stand_and_end(db: &DatabaseConnection) {
    let run = RunId::fresh();
    let (one, two) = (
        a_lease(run, "step-01", "node-a"),
        a_lease(run, "step-02", "node-b"),
    );
    record_all(db, &[stand(&one), stand(&two)]).await;
    assert_eq!(list_leases(db, &acme(), 10).await.unwrap().len(), 2);
    let at = |ms| now() + TimeDelta::milliseconds(ms);
    let due = async |ms| {
        let due = due_leases(db, at(ms), ("", 10)).await.unwrap();
        due.into_iter().map(|lease| lease.step).collect::<Vec<_>>()
    };
    assert!(due(999).await.is_empty());
    let gone = Node {
        status: NodeStatus::Down,
        ..node("node-b")
    };
    assert_eq!(save_all(db, &[(Aggregate::Node(gone), 0)]).await, []);
    assert_eq!(due(999).await, ["step-02"], "its node is down");
    assert_eq!(due(1_000).await, ["step-01", "step-02"]);
    let after = due_leases(db, at(1_000), ("", 1)).await.unwrap();
    let cursor = crate::store::lease_id(after[0].run, &after[0].step);
    let rest = due_leases(db, at(1_000), (&cursor, 10)).await.unwrap();
    assert_eq!(rest[0].step, "step-02");

    let handed = Lease {
        dispatch: 2,
        heartbeat_at: at(-500),
        ..one.clone()
    };
    // A newer lease replaces the older one; one that ends in the same batch is not there.
    record_all(
        db,
        &[
            Effect::LeaseEnded {
                run,
                step: "step-01".to_owned(),
            },
            stand(&handed),
            Effect::LeaseEnded {
                run,
                step: "step-02".to_owned(),
            },
        ],
    )
    .await;
    let ids = ["step-01", "step-02"].map(|step| crate::store::lease_id(run, step));
    assert_eq!(leases(db, &ids).await.unwrap(), [handed]);
    assert_eq!(due(500).await, ["step-01"]);
    // A beat begins it anew, from the batch's time on.
    let claimed = StepRef {
        workspace: acme(),
        run,
        step: "step-01".to_owned(),
        dispatch: 2,
    };
    record_all(
        db,
        &[Effect::LeasesRenewed {
            working: vec![claimed],
        }],
    )
    .await;
    assert!(due(500).await.is_empty());
    let standing = leases(db, &ids).await.unwrap();
    assert_eq!(standing[0].heartbeat_at, now());
}

pub(super) async fn handed_over(db: &DatabaseConnection) {
    let run = RunId::fresh();
    let entry = |action, dispatch| LeaseEvent {
        action,
        node: "node-a".parse().unwrap(),
        at: now(),
        dispatch,
    };
    let wanted = [
        entry(LeaseAction::Claimed, 1),
        entry(LeaseAction::Released, 1),
        entry(LeaseAction::TakenOver, 2),
    ];
    for entry in &wanted {
        let claim = Effect::LeaseEvent {
            run,
            step: "step-01".to_owned(),
            entry: entry.clone(),
        };
        record_all(db, &[claim]).await;
    }
    assert_eq!(lease_events_of(db, run).await.unwrap()["step-01"], wanted);
}

fn a_step(run: RunId, step: &str, status: StepStatus) -> Effect {
    Effect::Step(Box::new(StepRow {
        run,
        step: step.to_owned(),
        status,
        tool: Some("log".to_owned()),
        called: None,
        request: Some(json!({})),
        response: None,
        error_code: None,
        failed_attempts: Vec::new(),
        raw_error: None,
        claimed_by: None,
        claimed_at: None,
        started_at: Some(now()),
        ended_at: None,
        attempts: 1,
        dispatch: 1,
        is_reset: false,
    }))
}

pub(super) async fn unreadable_step(db: &DatabaseConnection) {
    let run = RunId::fresh();
    let steps = ["a", "b", "c"].map(|step| a_step(run, step, StepStatus::Queued));
    record_all(db, &steps).await;
    let broken = "UPDATE steps SET request = '{' WHERE step_id = 'b'";
    db.execute_unprepared(broken).await.unwrap();
    let names = |rows: &[StepRow]| rows.iter().map(|row| row.step.clone()).collect::<Vec<_>>();
    let full = queued_steps(db, None, &[], 2).await.unwrap();
    assert_eq!(names(&full), ["a", "c"], "a short page would mean the end");
    let rest = queued_steps(db, Some((run, "a")), &[], 1).await.unwrap();
    assert_eq!(names(&rest), ["c"]);
    let end = queued_steps(db, Some((run, "c")), &[], 1).await.unwrap();
    assert!(end.is_empty());
}

pub(super) async fn queued_in_pages(db: &DatabaseConnection) {
    let run = RunId::fresh();
    let row = |step, status| a_step(run, step, status);
    let steps = [
        row("a", StepStatus::Queued),
        row("b", StepStatus::Completed),
        row("c", StepStatus::Queued),
        row("d", StepStatus::Queued),
    ];
    record_all(db, &steps).await;
    let first = queued_steps(db, None, &[], 2).await.unwrap();
    let names = |rows: &[StepRow]| rows.iter().map(|row| row.step.clone()).collect::<Vec<_>>();
    assert_eq!(names(&first), ["a", "c"]);
    let rest = queued_steps(db, Some((run, "c")), &[], 2).await.unwrap();
    assert_eq!(names(&rest), ["d"]);
}

/// Mend B-10: live nodes come first in the list, and one that is long down goes unless it holds a lease.
pub(in crate::store) async fn nodes_go(db: &DatabaseConnection) {
    let down = |name: &str, days: i64| Node {
        name: name.parse().unwrap(),
        status: NodeStatus::Down,
        last_seen: now() - TimeDelta::days(days),
        ..node("a")
    };
    let live = Node {
        name: "z-lives".parse().unwrap(),
        last_seen: now() - TimeDelta::days(9),
        ..node("a")
    };
    let (long, just) = (down("a-long", 2), down("b-just", 0));
    let all = [&long, &just, &live].map(|node| (Aggregate::Node(node.clone()), 0));
    assert_eq!(save_all(db, &all).await, []);
    let listed = list_nodes(db, 2).await.unwrap();
    let names: Vec<_> = listed.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["z-lives", "b-just"]);
    let before = now() - TimeDelta::days(1);
    let found = forgettable_nodes(db, before, 10).await.unwrap();
    assert_eq!(found, std::slice::from_ref(&long));
    let gone = Node {
        version: long.version + 1,
        forgotten: true,
        ..long.clone()
    };
    let gone = Aggregate::Node(gone);
    let stale = save_all(db, &[(gone.clone(), long.version + 5)]).await;
    assert_eq!(stale, [Key::Node(long.name.clone())]);
    assert_eq!(save_all(db, &[(gone, long.version)]).await, []);
    assert_eq!(list_nodes(db, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn nodes_that_are_long_down_go() {
    let (_dir, db) = sqlite().await;
    nodes_go(&db).await;
}
