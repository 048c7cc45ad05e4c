//! What keeps a step a node's: progress before the grant, heartbeats after it.

use std::time::{Duration, Instant};

use holdpoint_bus::{STEPS_ACK_WAIT, StreamUse};
use holdpoint_contracts::steps::{Grant, LEASE_DEFAULT_MS, ResultReply, StepDispatch, StepRef};
use holdpoint_contracts::subject;

use super::super::DRAIN;
use super::fixture::{Executor, Fixture, Manner, RunningWorker, step, until};

/// A step with a lease of `lease_ms`.
fn leased(idempotent: bool, lease_ms: u64) -> StepDispatch {
    StepDispatch {
        claim_timeout_ms: lease_ms,
        ..step(idempotent)
    }
}

fn claim(of: &StepDispatch) -> StepRef {
    StepRef {
        workspace: of.workspace.clone(),
        run: of.run,
        step: of.step.clone(),
        dispatch: of.dispatch,
    }
}

/// S4-R2: an executor that dies between its grant and its answer has the lease run all the same: it is
/// asked again before its end, or a step that never began would be uncertain.
#[tokio::test]
async fn who_has_granted_and_not_answered_is_asked_again_within_the_lease() {
    const LEASE_MS: u64 = 3_000;
    let fixture = Fixture::new().await;
    let manner = Manner {
        ignored_starts: 1,
        ..Manner::default()
    };
    let executor = Executor::start(&fixture, manner).await;
    let working = RunningWorker::start(&fixture, 8, 8);
    fixture.publish(&[leased(false, LEASE_MS)]).await;
    until(5, "it is asked", async || {
        !executor.received().starts.is_empty()
    })
    .await;
    let granted = Instant::now();
    working.called(1).await;
    let late = granted.elapsed();
    assert!(late < Duration::from_millis(LEASE_MS), "{late:?}");
    assert_eq!(executor.received().starts.len(), 2);
    fixture.all_acked().await;
    fixture.end().await;
}

/// S4-R3: the delivery is gone while the step still runs, and beats name it until it is confirmed.
#[tokio::test]
async fn a_granted_step_is_acked_and_kept_by_heartbeats() {
    let fixture = Fixture::new().await;
    let executor = Executor::start(&fixture, Manner::default()).await;
    let working = RunningWorker::start(&fixture, 8, 0);
    let step_dispatch = leased(false, 1_000);
    fixture.publish(std::slice::from_ref(&step_dispatch)).await;
    working.called(1).await;
    fixture.all_acked().await;
    let is_named = || {
        let heartbeats = executor.received().heartbeats;
        let named = |heartbeat: &holdpoint_contracts::steps::Heartbeat| {
            heartbeat.working == [claim(&step_dispatch)] && heartbeat.lease_ms == 1_000
        };
        heartbeats
            .iter()
            .filter(|heartbeat| named(heartbeat))
            .count()
    };
    until(10, "three beats name it", async || is_named() >= 3).await;
    assert!(executor.received().results.is_empty(), "it still runs");

    working.leaves.add_permits(1);
    until(5, "its result is reported", async || {
        !executor.received().results.is_empty()
    })
    .await;
    let heard = executor.received().heartbeats.len();
    ask_to_beat(&fixture).await;
    until(5, "a beat without it", async || {
        let heartbeats = executor.received().heartbeats;
        heartbeats
            .iter()
            .skip(heard)
            .any(|heartbeat| heartbeat.working.is_empty() && heartbeat.lease_ms == LEASE_DEFAULT_MS)
    })
    .await;
    assert_eq!(working.calls(), 1);
    fixture.end().await;
}

async fn ask_to_beat(fixture: &Fixture) {
    let name = subject::node(&"local-7f3a".parse().unwrap());
    fixture
        .bus
        .client()
        .request(name, "null".into())
        .await
        .unwrap();
}

/// S4-R3
#[tokio::test]
async fn a_node_sends_a_heartbeat_at_its_start_and_after_a_probe() {
    let fixture = Fixture::new().await;
    let executor = Executor::start(&fixture, Manner::default()).await;
    let _working = RunningWorker::start(&fixture, 8, 0);
    executor
        .wait_for_heartbeat("a first beat", |heartbeat| {
            heartbeat.tools == ["work".parse().unwrap()] && heartbeat.working.is_empty()
        })
        .await;
    // S2-R2: the executor knows the tool before it makes the queue.
    let registered = executor.received().registered.clone();
    assert_eq!(
        (registered[0].0[0].name.as_str(), registered[0].1),
        ("work", 0)
    );
    let heard = executor.received().heartbeats.len();
    let since = Instant::now();
    ask_to_beat(&fixture).await;
    until(5, "another beat", async || {
        executor.received().heartbeats.len() > heard
    })
    .await;
    assert!(
        since.elapsed() < Duration::from_secs(3),
        "the next was due in ten"
    );
    fixture.end().await;
}

/// S4-R6: the lease of a step can be shorter than the time to the next beat.
#[tokio::test]
async fn a_grant_of_a_shorter_lease_triggers_a_heartbeat() {
    let fixture = Fixture::new().await;
    let executor = Executor::start(&fixture, Manner::default()).await;
    let working = RunningWorker::start(&fixture, 8, 0);
    executor.wait_for_heartbeat("a first beat", |_| true).await;
    fixture.publish(&[leased(false, 2_000)]).await;
    working.called(1).await;
    let since = Instant::now();
    executor
        .wait_for_heartbeat("a beat for it", |heartbeat| heartbeat.lease_ms == 2_000)
        .await;
    assert!(
        since.elapsed() < Duration::from_secs(2),
        "{:?}",
        since.elapsed()
    );
    fixture.end().await;
}

/// S4-R3
#[tokio::test]
async fn an_unanswered_heartbeat_is_sent_again_within_the_lease() {
    let fixture = Fixture::new().await;
    let executor = Executor::start(&fixture, Manner::default()).await;
    let working = RunningWorker::start(&fixture, 8, 0);
    executor.wait_for_heartbeat("a first beat", |_| true).await;
    executor.turn(|manner| manner.ignored_heartbeats = 2);
    fixture.publish(&[leased(false, 3_000)]).await;
    working.called(1).await;
    let since = Instant::now();
    until(10, "it is heard", async || {
        let received = executor.received();
        received
            .heartbeats
            .iter()
            .filter(|heartbeat| heartbeat.lease_ms == 3_000)
            .count()
            >= 3
    })
    .await;
    assert!(
        since.elapsed() < Duration::from_secs(3),
        "{:?}",
        since.elapsed()
    );
    fixture.end().await;
}

/// S4-R3: cancel rides on the reply.
#[tokio::test]
async fn what_a_beat_stops_is_cut_and_never_reported() {
    let fixture = Fixture::new().await;
    let executor = Executor::start(&fixture, Manner::default()).await;
    let working = RunningWorker::start(&fixture, 8, 0);
    fixture.publish(&[step(false)]).await;
    working.called(1).await;
    fixture.all_acked().await;
    executor.turn(|manner| manner.stops = true);
    ask_to_beat(&fixture).await;
    working.cut(1).await;
    executor.turn(|manner| manner.stops = false);

    // The next result is not the stopped step's.
    working.leaves.add_permits(2);
    let next = step(false);
    fixture.publish(std::slice::from_ref(&next)).await;
    until(10, "the next is reported", async || {
        !executor.received().results.is_empty()
    })
    .await;
    assert_eq!(executor.received().results[0][0].run, next.run);
    let heard = executor.received().heartbeats.len();
    ask_to_beat(&fixture).await;
    until(5, "another beat", async || {
        executor.received().heartbeats.len() > heard
    })
    .await;
    assert_eq!(executor.received().heartbeats.last().unwrap().working, []);
    fixture.end().await;
}

/// S4-R2: it asks after half a second, and is kept by its delivery until then.
#[tokio::test]
async fn a_step_that_started_without_asking_asks_when_it_has_run_for_a_while() {
    let fixture = Fixture::new().await;
    let executor = Executor::start(&fixture, Manner::default()).await;
    let working = RunningWorker::start(&fixture, 8, 0);
    let step_dispatch = step(true);
    fixture.publish(std::slice::from_ref(&step_dispatch)).await;
    working.called(1).await;
    assert_eq!(fixture.stored().await, 1, "nobody has granted it");
    fixture.all_acked().await;
    assert_eq!(executor.received().starts.len(), 1);
    ask_to_beat(&fixture).await;
    executor
        .wait_for_heartbeat("it is named", |heartbeat| {
            heartbeat.working == [claim(&step_dispatch)]
        })
        .await;
    working.leaves.add_permits(1);
    until(5, "its result", async || {
        executor.received().results.len() == 1
    })
    .await;
    assert_eq!(working.calls(), 1);
    fixture.end().await;
}

/// S4-R2
#[tokio::test]
async fn drop_stops_a_step_that_started_without_asking() {
    let fixture = Fixture::new().await;
    let manner = Manner {
        grant: Grant::Drop,
        ..Manner::default()
    };
    let executor = Executor::start(&fixture, manner).await;
    let working = RunningWorker::start(&fixture, 8, 0);
    fixture.publish(&[step(true)]).await;
    working.called(1).await;
    working.cut(1).await;
    fixture.all_acked().await;
    assert!(executor.received().results.is_empty());
    fixture.end().await;
}

/// S4-R2: progress acks keep it, and no other delivery comes.
#[tokio::test]
async fn a_step_that_runs_while_no_executor_is_there_keeps_its_delivery() {
    let fixture = Fixture::new().await;
    let working = RunningWorker::start_and_lose_executor(&fixture, 0).await;
    fixture.publish(&[step(true)]).await;
    working.called(1).await;
    let since = Instant::now();
    until(10, "twice the ack wait", async || {
        since.elapsed() > STEPS_ACK_WAIT * 2
    })
    .await;
    assert_eq!((fixture.stored().await, working.calls()), (1, 1));
    let executor = Executor::start(&fixture, Manner::default()).await;
    fixture.all_acked().await;
    let received = executor.received();
    assert!(!received.starts.is_empty() && received.starts.iter().all(|start| start.delivery == 1));
    working.leaves.add_permits(1);
    until(5, "its result", async || {
        executor.received().results.len() == 1
    })
    .await;
    fixture.end().await;
}

/// S4-R2: what the command stream keeps may be lost with it.
#[tokio::test]
async fn a_stored_result_is_sent_until_the_executor_acknowledges_it() {
    let fixture = Fixture::new().await;
    let commands = StreamUse::Commands("executor");
    fixture.bus.provide_stream(commands).await.unwrap();
    let _working = RunningWorker::start_and_lose_executor(&fixture, 8).await;
    let step_dispatch = step(true);
    fixture.publish(std::slice::from_ref(&step_dispatch)).await;
    fixture.all_acked().await;
    let jetstream = async_nats::jetstream::new(fixture.bus.client().clone());
    let stream = subject::commands_stream("executor");
    jetstream.delete_stream(stream).await.unwrap();
    let manner = Manner {
        result: ResultReply::Known,
        ..Manner::default()
    };
    let executor = Executor::start(&fixture, manner).await;
    until(10, "the result", async || {
        !executor.received().results.is_empty()
    })
    .await;
    assert_eq!(executor.received().results[0][0].run, step_dispatch.run);
    fixture.end().await;
}

/// S4-R11: deregistration is leaving at once; it is the last word.
#[tokio::test]
async fn a_stop_is_bounded_and_ends_with_a_deregistration() {
    let fixture = Fixture::new().await;
    let executor = Executor::start(&fixture, Manner::default()).await;
    let working = RunningWorker::start(&fixture, 8, 0);
    fixture.publish(&[step(false)]).await;
    working.called(1).await;
    fixture.all_acked().await;
    working.stop.cancel();
    let since = Instant::now();
    let left = std::sync::Arc::clone(&working.left);
    working.ended().await;
    assert!(since.elapsed() >= DRAIN && since.elapsed() < DRAIN + Duration::from_secs(5));
    until(5, "the tool is cut", async || {
        left.load(std::sync::atomic::Ordering::SeqCst) == 1
    })
    .await;
    let received = executor.received();
    let (deregister, beats_before) = &received.deregistrations[0];
    assert_eq!(deregister.node.as_str(), "local-7f3a");
    assert_eq!(*beats_before, received.heartbeats.len(), "no beat after it");
    assert!(received.results.is_empty());
    fixture.end().await;
}

/// S4-R11
#[tokio::test]
async fn an_unanswered_deregistration_does_not_delay_the_stop() {
    let fixture = Fixture::new().await;
    let working = RunningWorker::start(&fixture, 8, 0);
    // Somebody listens and says nothing.
    let filter = subject::asks_filter("executor");
    let _deaf = fixture.bus.client().subscribe(filter).await.unwrap();
    let since = Instant::now();
    working.stop.cancel();
    working.ended().await;
    assert!(
        since.elapsed() < Duration::from_secs(5),
        "{:?}",
        since.elapsed()
    );
    fixture.end().await;
}

/// S4-R2: the executor publishes a dispatch again when it is not sure that it arrived.
#[tokio::test]
async fn the_same_hand_out_again_is_not_started_again() {
    let fixture = Fixture::new().await;
    let _executor = Executor::start(&fixture, Manner::default()).await;
    let working = RunningWorker::start(&fixture, 8, 2);
    working.leaves.forget_permits(2);
    let step_dispatch = step(true);
    fixture
        .publish(&[step_dispatch.clone(), step_dispatch.clone()])
        .await;
    working.called(1).await;
    fixture.all_acked().await;
    fixture.publish(std::slice::from_ref(&step_dispatch)).await;
    fixture.all_acked().await;
    assert_eq!(working.calls(), 1);
    fixture.end().await;
}

/// A server may forget an ack and deliver anew what has ended, as if for the first time; the executor
/// would take the question of the same node for one whose answer was lost, and say `go`.
#[tokio::test]
async fn a_dispatch_that_is_redelivered_after_its_end_is_not_executed_again() {
    for (idempotent, asked) in [(true, 0), (false, 2)] {
        let fixture = Fixture::new().await;
        let executor = Executor::start(&fixture, Manner::default()).await;
        let working = RunningWorker::start(&fixture, 8, 8);
        let reported = async |count: usize| {
            until(10, "results are reported", async || {
                executor.received().results.iter().flatten().count() >= count
            })
            .await;
            fixture.all_acked().await;
        };
        let step_dispatch = leased(idempotent, 10_000);
        fixture.publish(std::slice::from_ref(&step_dispatch)).await;
        reported(1).await;
        fixture
            .publish(&[step_dispatch, leased(idempotent, 10_000)])
            .await;
        reported(2).await;
        assert_eq!(working.calls(), 2, "one call a dispatch");
        assert_eq!(
            executor.received().starts.len(),
            asked,
            "nor asked for again"
        );
        fixture.end().await;
    }
}
