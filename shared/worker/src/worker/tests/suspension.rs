//! Suspension: what a worker reports of its steps, and of those that it has when it stops (S1).

use std::sync::Arc;

use futures_util::StreamExt as _;
use holdpoint_contracts::message::{Query as _, Reply};
use holdpoint_contracts::suspension::EndedRuns;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::super::sandbox_removal::remove_page;
use super::super::{Worker, WorkerError, WorkerOptions};
use super::fixture::{Executor, Fixture, Manner, RunningWorker, step, until};
use crate::suspension::sandbox::Sandboxes;
use crate::tool::{Risk, ToolCall, ToolFailure, ToolResult, tool_fn};

type Running = AbortOnDropHandle<Result<(), WorkerError>>;

/// A worker whose tool saves a checkpoint, and stops when it is asked to.
fn stoppable(fixture: &Fixture) -> (CancellationToken, Running) {
    let tool = tool_fn("work", Risk::Low, |call: ToolCall| async move {
        call.suspension.save_checkpoint(json!({ "page": 7 }));
        call.suspension.requested().await;
        ToolResult::Err(ToolFailure::suspended())
    });
    let stop = CancellationToken::new();
    let options = WorkerOptions::new("local-7f3a".parse().unwrap());
    let worker = Worker::new(fixture.bus.clone(), options).tool(Arc::new(tool));
    let running = tokio::spawn(worker.run(stop.clone()));
    (stop, AbortOnDropHandle::new(running))
}

/// S1-R2: the worker reports a step of a suspended run once, and its tool may continue.
#[tokio::test]
async fn a_step_of_a_suspended_run_is_reported_once() {
    let fixture = Fixture::new().await;
    let manner = Manner {
        suspends: true,
        again_ms: 50,
        ..Manner::default()
    };
    let executor = Executor::start(&fixture, manner).await;
    let working = RunningWorker::start(&fixture, 8, 0);
    fixture.publish(&[step(false)]).await;
    working.called(1).await;
    until(15, "the report", async || {
        !executor.received().suspended.is_empty()
    })
    .await;
    let beats = executor.received().heartbeats.len();
    until(15, "further heartbeats", async || {
        executor.received().heartbeats.len() > beats + 5
    })
    .await;
    let suspended = executor.received().suspended;
    assert_eq!(suspended.len(), 1, "{suspended:?}");
    assert!(!suspended[0].stopped && !suspended[0].shutdown);
    assert_eq!(suspended[0].supplement, None);
    working.leaves.add_permits(1);
    until(15, "the result", async || {
        !executor.received().results.is_empty()
    })
    .await;
    fixture.end().await;
}

/// S1-R2: a tool that stops has no result. Its step is reported with what it has saved.
#[tokio::test]
async fn a_tool_that_stops_at_a_suspension_is_reported() {
    let fixture = Fixture::new().await;
    let manner = Manner {
        suspends: true,
        again_ms: 50,
        ..Manner::default()
    };
    let executor = Executor::start(&fixture, manner).await;
    let (_stop, _running) = stoppable(&fixture);
    fixture.publish(&[step(false)]).await;
    until(15, "the tool stops", async || {
        executor.received().suspended.iter().any(|one| one.stopped)
    })
    .await;
    fixture.all_acked().await;
    let received = executor.received();
    let stopped = received.suspended.iter().find(|one| one.stopped).unwrap();
    assert!(!stopped.shutdown);
    let known = stopped.supplement.as_ref().unwrap();
    assert_eq!(known.checkpoint, json!({ "page": 7 }));
    assert!(received.results.is_empty(), "{:?}", received.results);
    fixture.end().await;
}

/// S1-R5: before it exits, a worker reports the steps that it still has. A tool that can stop is not waited for.
#[tokio::test]
async fn a_stopping_worker_reports_its_steps() {
    let fixture = Fixture::new().await;
    let executor = Executor::start(&fixture, Manner::default()).await;
    let (stop, running) = stoppable(&fixture);
    let stuck = RunningWorker::start(&fixture, 8, 0);
    let steps = [step(false), step(false), step(false), step(false)];
    fixture.publish(&steps).await;
    until(15, "all are granted", async || {
        executor.received().starts.len() == 4
    })
    .await;
    stop.cancel();
    // A double signal.
    stop.cancel();
    stuck.stop.cancel();
    let began = std::time::Instant::now();
    running.await.unwrap().unwrap();
    stuck.ended().await;
    assert!(began.elapsed() < std::time::Duration::from_secs(14));
    let received = executor.received();
    assert_eq!(received.suspended.len(), 4, "{:?}", received.suspended);
    assert!(
        received
            .suspended
            .iter()
            .all(|one| one.shutdown && one.stopped)
    );
    assert_eq!(received.deregistrations.len(), 2);
    assert!(received.results.is_empty());
    fixture.end().await;
}

/// A tool that says that it stops, and was not asked to, has failed.
#[tokio::test]
async fn a_tool_that_stops_without_a_wish_has_failed() {
    let fixture = Fixture::new().await;
    let executor = Executor::start(&fixture, Manner::default()).await;
    let tool = tool_fn("work", Risk::Low, |_: ToolCall| async {
        ToolResult::Err(ToolFailure::suspended())
    });
    let options = WorkerOptions::new("local-7f3a".parse().unwrap());
    let worker = Worker::new(fixture.bus.clone(), options).tool(Arc::new(tool));
    let _running = AbortOnDropHandle::new(tokio::spawn(worker.run(CancellationToken::new())));
    fixture.publish(&[step(false)]).await;
    until(15, "the result", async || {
        !executor.received().results.is_empty()
    })
    .await;
    let received = executor.received();
    let result = &received.results[0][0];
    assert_eq!(result.error_code.as_deref(), Some("suspended"));
    assert!(received.suspended.is_empty());
    fixture.end().await;
}

/// S1-R8: the sandboxes of a run go when it has ended, and stay while the executor does not reply.
#[tokio::test]
async fn sandboxes_of_ended_runs_are_removed() {
    let fixture = Fixture::new().await;
    let root = tempfile::tempdir().unwrap();
    let all = Sandboxes::new(root.path().to_owned(), "node-a".parse().unwrap());
    let (ended, open) = (step(true), step(true));
    for dispatch in [&ended, &open] {
        let sandbox = all.of(dispatch);
        std::fs::write(sandbox.create().unwrap().join("file"), "x").unwrap();
    }
    remove_page(&fixture.bus, &all, None).await;
    assert_eq!(all.runs(None, 9).len(), 2);
    let query = EndedRuns { runs: Vec::new() };
    let subject = query.subject(&ended.workspace);
    let mut asked = fixture.bus.client().subscribe(subject).await.unwrap();
    fixture.bus.flush(std::time::Duration::from_secs(5)).await;
    let (bus, run) = (fixture.bus.clone(), ended.run);
    let answering = tokio::spawn(async move {
        let message = asked.next().await.unwrap();
        let query: EndedRuns = serde_json::from_slice(&message.payload).unwrap();
        assert_eq!(query.runs.len(), 2);
        let reply = serde_json::to_vec(&Reply::Ok(vec![run])).unwrap();
        let inbox = message.reply.unwrap().to_string();
        bus.send(inbox, reply.into()).await.unwrap();
    });
    remove_page(&fixture.bus, &all, None).await;
    answering.await.unwrap();
    let left = all.runs(None, 9);
    assert_eq!(left, [(open.workspace.clone(), open.run)]);
    fixture.end().await;
}
