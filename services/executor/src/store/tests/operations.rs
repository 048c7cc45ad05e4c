//! Operations, and what they did with each run.

use std::ops::ControlFlow;
use std::time::Duration;

use chrono::TimeDelta;
use holdpoint_contracts::operation::{ResultCounts, RunResult};

use super::*;
use crate::domain::operation::OperationPhase;
use crate::domain::{Input, Operation, OperationInput, OperationResult};
use crate::sweeps::operations_page;

#[tokio::test]
async fn an_operation_keeps_one_result_for_each_run() {
    let (_dir, db) = sqlite().await;
    keep_results(&db).await;
}

#[tokio::test]
async fn pages_have_each_run_that_matches_once() {
    let (_dir, db) = sqlite().await;
    let mut runs: Vec<_> = (0..1_100).map(|_| run()).collect();
    let (later, ended) = (runs.len() - 1, runs.len() - 2);
    runs[later].created_at += TimeDelta::milliseconds(1);
    runs[ended].phase = Phase::Completed {
        at: now(),
        summary: String::new(),
    };
    let mut own = operation();
    let mut states: Vec<_> = runs
        .iter()
        .map(|it| (Aggregate::Run(it.clone()), 0))
        .collect();
    states.push((Aggregate::Operation(own.clone()), 0));
    assert_eq!(save_all(&db, &states).await, []);
    let mut seen = Vec::new();
    let mut flow = ControlFlow::Continue(());
    while flow.is_continue() {
        let inputs = operations_page(&db).await.unwrap();
        for input in inputs {
            if let Input::OperationItem(item) = input {
                seen.push(item.run);
                continue;
            }
            let Input::Operation {
                input: OperationInput::Paged { after, upto, runs },
                ..
            } = input
            else {
                panic!("{input:?}")
            };
            assert_eq!(after, own.cursor);
            own.taken += runs;
            own.cursor = upto;
            own.version += 1;
            if upto.is_none() {
                flow = ControlFlow::Break(());
            }
        }
        let paged = (Aggregate::Operation(own.clone()), own.version - 1);
        assert_eq!(save_all(&db, &[paged]).await, []);
    }
    let expected: Vec<_> = runs[..ended].iter().rev().map(|run| run.id).collect();
    assert_eq!(
        seen, expected,
        "without the run that ended and the later one"
    );
    assert_eq!(own.taken, 1_098);
}

/// One run more is read, so a full last page costs no empty one after it.
#[tokio::test]
async fn a_full_page_knows_that_it_is_the_last() {
    let (_dir, db) = sqlite().await;
    let mut states: Vec<_> = (0..200).map(|_| (Aggregate::Run(run()), 0)).collect();
    states.push((Aggregate::Operation(operation()), 0));
    assert_eq!(save_all(&db, &states).await, []);
    let inputs = operations_page(&db).await.unwrap();
    let Some(Input::Operation { input, .. }) = inputs.last() else {
        panic!("{inputs:?}")
    };
    let last = OperationInput::Paged {
        after: None,
        upto: None,
        runs: 200,
    };
    assert_eq!(input, &last);
}

#[tokio::test]
async fn counts_have_bounds_and_older_operations_come_first() {
    let (_dir, db) = sqlite().await;
    have_bounds(&db).await;
}

pub(super) async fn have_bounds(db: &DatabaseConnection) {
    let mut states: Vec<_> = (0..3).map(|_| (Aggregate::Run(run()), 0)).collect();
    let older = Operation {
        workspace: "umbrella".parse().unwrap(),
        ..operation()
    };
    for operation in [&older, &operation()] {
        states.push((Aggregate::Operation(operation.clone()), 0));
    }
    states.push((Aggregate::Tool(tool()), 0));
    assert_eq!(save_all(db, &states).await, []);
    let workspace = acme();
    for (limit, count) in [(1, 1), (3, 3), (100, 3)] {
        let bounded = Filter {
            limit,
            ..filter(&workspace)
        };
        assert_eq!(count_runs(db, &bounded).await.unwrap(), count);
    }
    let first = unfinished_operations(db, 1).await.unwrap();
    assert_eq!(first, [older]);
    let of = tool().workspace;
    let needs = [
        Need::ToolCount(of.clone()),
        Need::ToolCount("empty".parse().unwrap()),
    ];
    let tx = begin_write(db).await.unwrap();
    let found = executor().find(&tx, &needs).await.unwrap();
    tx.commit().await.unwrap();
    assert!(
        matches!(&found[..], [(Need::ToolCount(it), Fact::Count(1))] if *it == of),
        "{found:?}"
    );
}

/// Two replicas delete the same page of results. The operation outlasts the results that are left.
pub(super) async fn outlasts_its_results(one: &DatabaseConnection, other: &DatabaseConnection) {
    let own = ended(operation());
    assert_eq!(
        save_all(one, &[(Aggregate::Operation(own.clone()), 0)]).await,
        []
    );
    let results: Vec<_> = (0..20_001)
        .map(|_| {
            Effect::OperationResult(OperationResult {
                operation: own.id,
                run: RunId::fresh(),
                result: RunResult::Changed,
                code: None,
                at: now(),
            })
        })
        .collect();
    record_all(one, &results).await;
    let effects = [Effect::DeleteExpiredRuns { before: now() }];
    let first = begin_write(one).await.unwrap();
    executor().record(&first, &effects, now()).await.unwrap();
    let mut second = std::pin::pin!(record_all(other, &effects));
    let early = tokio::time::timeout(Duration::from_millis(300), &mut second).await;
    assert!(early.is_err(), "it waits for the rows of the first");
    first.commit().await.unwrap();
    second.await;
    let left = result_counts(one, own.id).await.unwrap().total();
    let found = super::super::operation(one, &acme(), own.id).await;
    assert_eq!((left, found.unwrap().is_some()), (1, true));
    record_all(one, &effects).await;
    assert!(!has_expired(one, now()).await.unwrap());
}

fn ended(operation: Operation) -> Operation {
    Operation {
        phase: OperationPhase::Completed {
            at: now() - TimeDelta::days(1),
            limit_reached: false,
        },
        ..operation
    }
}

pub(super) async fn keep_results(db: &DatabaseConnection) {
    let own = operation();
    let other = Operation {
        workspace: "umbrella".parse().unwrap(),
        ..operation()
    };
    let states = [&own, &other].map(|it| (Aggregate::Operation(it.clone()), 0));
    assert_eq!(save_all(db, &states).await, []);
    let runs: Vec<_> = (0..3).map(|_| RunId::fresh()).collect();
    let result = |run, result, code: Option<&str>| {
        Effect::OperationResult(OperationResult {
            operation: own.id,
            run,
            result,
            code: code.map(str::to_owned),
            at: now(),
        })
    };
    let first = [
        result(runs[0], RunResult::Changed, None),
        result(runs[1], RunResult::Refused, Some("run_final")),
    ];
    record_all(db, &first).await;
    let second = [
        result(runs[0], RunResult::Unchanged, None),
        result(runs[2], RunResult::Unchanged, None),
    ];
    record_all(db, &second).await;
    let expected = ResultCounts {
        changed: 1,
        unchanged: 1,
        refused: 1,
    };
    assert_eq!(
        result_counts(db, own.id).await.unwrap(),
        expected,
        "the first result counts"
    );
    assert_eq!(
        result_counts(db, other.id).await.unwrap(),
        ResultCounts::default()
    );
    let all = list_results(db, own.id, None, None, 2).await.unwrap();
    assert_eq!(all.iter().map(|it| it.run).collect::<Vec<_>>(), runs[..2]);
    let next = list_results(db, own.id, None, Some(runs[1]), 2).await;
    assert_eq!(next.unwrap()[0].run, runs[2]);
    let is_refused = Some(RunResult::Refused);
    let refused = list_results(db, own.id, is_refused, None, 9).await.unwrap();
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].code.as_deref(), Some("run_final"));
    find_facts(db, &own, &runs).await;
    expire(db, own).await;
}

async fn find_facts(db: &DatabaseConnection, own: &Operation, runs: &[RunId]) {
    let needs = [
        Need::OperationResult(own.id, runs[0]),
        Need::OperationResult(own.id, RunId::fresh()),
        Need::RunningOperations(acme()),
    ];
    let tx = begin_write(db).await.unwrap();
    let found = executor().find(&tx, &needs).await.unwrap();
    tx.commit().await.unwrap();
    let known: Vec<_> = found.iter().map(|(need, _)| need.clone()).collect();
    assert_eq!(known, [needs[0].clone(), needs[2].clone()]);
    assert!(matches!(found[1].1, Fact::Count(1)), "{found:?}");
    assert!(
        super::super::operation(db, &acme(), own.id)
            .await
            .unwrap()
            .is_some()
    );
    let other = "other".parse().unwrap();
    assert!(
        super::super::operation(db, &other, own.id)
            .await
            .unwrap()
            .is_none()
    );
}

/// An operation goes with its results after its retention.
async fn expire(db: &DatabaseConnection, own: Operation) {
    assert!(!has_expired(db, now()).await.unwrap());
    let ended = Operation {
        version: 2,
        ..ended(own)
    };
    assert_eq!(
        save_all(db, &[(Aggregate::Operation(ended.clone()), 1)]).await,
        []
    );
    assert!(has_expired(db, now()).await.unwrap());
    record_all(db, &[Effect::DeleteExpiredRuns { before: now() }]).await;
    assert!(!has_expired(db, now()).await.unwrap());
    let none = result_counts(db, ended.id).await.unwrap();
    assert_eq!(none, ResultCounts::default());
}
