//! The newest runs of an agent, for its statistics.

use chrono::TimeDelta;
use holdpoint_contracts::run::{Clocks, Failure, FailureClass};

use super::*;

#[tokio::test]
async fn statistics_have_the_newest_runs_of_one_agent() {
    let (_dir, db) = sqlite().await;
    have_newest(&db).await;
}

pub(super) async fn have_newest(db: &DatabaseConnection) {
    let clocks = Clocks {
        active_ms: 7,
        queued_ms: 8,
        human_ms: 9,
    };
    let failed = Phase::Failed {
        at: now(),
        failure: Failure {
            class: FailureClass::HumanTimeout,
            code: "human_timeout".to_owned(),
            message: String::new(),
        },
    };
    let old = Run {
        created_at: now() - TimeDelta::days(1),
        ..run()
    };
    let other = Run {
        agent: "other".parse().unwrap(),
        ..run()
    };
    let first = Run {
        phase: failed,
        clocks,
        ..run()
    };
    let runs = [old, first, run(), other];
    let states: Vec<_> = runs
        .iter()
        .map(|run| (Aggregate::Run(run.clone()), 0))
        .collect();
    assert_eq!(save_all(db, &states).await, []);
    let (workspace, agent) = (acme(), "outreach".parse().unwrap());
    let found = newest_run_stats(db, &workspace, &agent, now(), 10)
        .await
        .unwrap();
    let statuses: Vec<_> = found.iter().map(|run| run.status.as_str()).collect();
    assert_eq!(statuses, ["waiting", "failed"]);
    let failed = &found[1];
    assert_eq!(failed.class.as_deref(), Some("human_timeout"));
    let clocks = (failed.active_ms, failed.queued_ms, failed.human_ms);
    assert_eq!(clocks, (7, 8, 9));
    assert_eq!(found[0].class, None);
    let newest = newest_run_stats(db, &workspace, &agent, now(), 1)
        .await
        .unwrap();
    assert_eq!(newest, [found.into_iter().next().unwrap()]);
    let versions = agent_versions(db, &workspace, &agent).await.unwrap();
    assert_eq!(versions, [], "none is stored");
}
