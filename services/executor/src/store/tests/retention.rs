//! What is past its retention goes with all its rows.

use chrono::TimeDelta;
use holdpoint_contracts::run::{LeaseAction, LeaseEvent};
use sea_orm::{ConnectionTrait, Statement};

use super::*;
use crate::domain::run::LimitRow;

/// Tables with rows of a run, and the column that names it.
pub(super) const TABLES: [(&str, &str); 8] = [
    ("runs", "id"),
    ("run_values", "run_id"),
    ("steps", "run_id"),
    ("history", "run_id"),
    ("lease_events", "run_id"),
    ("snapshots", "run_id"),
    ("blob_chunks", "run_id"),
    ("run_limits", "run_id"),
];

/// S0-NFR, B-11
#[tokio::test]
async fn runs_are_deleted_after_their_retention() {
    let (_dir, db) = sqlite().await;
    expired_runs_go(&db).await;
}

/// More expired runs than one page has, a run that ended later, and one that has not ended.
pub(super) async fn expired_runs_go(db: &DatabaseConnection) {
    let before = now();
    let ended = |ended_at| Run {
        phase: Phase::Completed {
            at: ended_at,
            summary: "1 step done.".to_owned(),
        },
        ..run()
    };
    let expired: Vec<_> = (1..52)
        .map(|ms| ended(before - TimeDelta::milliseconds(ms)))
        .collect();
    let kept = [ended(before), run()];
    let runs = || expired.iter().chain(&kept);
    let saved: Vec<_> = runs().map(|run| (Aggregate::Run(run.clone()), 0)).collect();
    assert_eq!(save_all(db, &saved).await, []);
    let effects: Vec<_> = runs().flat_map(rows_of).collect();
    record_all(db, &effects).await;
    // A late result of the next run to be deleted is in the same batch, and leaves no row.
    for (left, next) in [(3, 50), (2, 0)] {
        assert!(has_expired(db, before).await.unwrap());
        let late = history_of(&expired[next], 2);
        record_all(db, &[Effect::DeleteExpiredRuns { before }, late]).await;
        for (table, column) in TABLES {
            let sql = format!("SELECT DISTINCT {column} FROM {table}");
            let statement = Statement::from_string(db.get_database_backend(), sql);
            let found = db.query_all_raw(statement).await.unwrap().len();
            assert_eq!(found, left, "{table}");
        }
    }
    assert!(!has_expired(db, before).await.unwrap());
    record_all(db, &[Effect::DeleteExpiredRuns { before }]).await;
    let keys: Vec<_> = kept.iter().map(|run| Key::Run(run.id)).collect();
    assert_eq!(load_all(db, &keys).await.len(), kept.len());
}

pub(super) fn rows_of(run: &Run) -> [Effect; 7] {
    let step = || "step-01".to_owned();
    [
        Effect::Value {
            run: run.id,
            name: step(),
            value: Arc::new(json!(1)),
        },
        Effect::Step(Box::new(StepRow::new(run.id, &run.steps[0]))),
        history_of(run, 1),
        Effect::Snapshot(Arc::new(suspension::snapshot(run.id, "odd"))),
        suspension::chunk_of(run.id, 0, b"half", None),
        Effect::Limits {
            workspace: acme(),
            row: Box::new(LimitRow {
                run: run.id,
                once: Some(run.id.to_string()),
                start: None,
                place: None,
            }),
        },
        Effect::LeaseEvent {
            run: run.id,
            step: step(),
            entry: LeaseEvent {
                action: LeaseAction::Claimed,
                node: "node-a".parse().unwrap(),
                at: now(),
                dispatch: 1,
            },
        },
    ]
}

fn history_of(run: &Run, seq: u64) -> Effect {
    let item = HistoryItem {
        seq,
        kind: EventType::StepCalled,
        at: now(),
        run: run.id,
        step: Some("step-01".to_owned()),
        message: "Call log".to_owned(),
        data: json!(null),
    };
    Effect::History {
        workspace: acme(),
        run: run.id,
        items: vec![item],
    }
}
