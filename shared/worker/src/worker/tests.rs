//! The worker on a real bus, against an executor that says what the test wants.

mod asking;
pub(crate) mod fixture;
mod leases;
mod registration;
mod suspension;

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::AckKind;
use futures_util::StreamExt as _;
use holdpoint_bus::StreamUse;
use holdpoint_contracts::message::Envelope;
use holdpoint_contracts::steps::{Grant, StepDispatch, StepResults};
use holdpoint_contracts::subject::{self, Lane};
use serde_json::{Value, json};

use self::fixture::{Executor, Fixture, Manner, RunningWorker, step, until};
use super::job::FRESH;
use super::{Worker, WorkerError, WorkerOptions};
use crate::tool::{CallCost, Risk, Tool, ToolCall, ToolFailure, tool_fn};
use crate::tools::{CreateTask, UpdateContact, send_over};

/// S4-R2
#[tokio::test]
async fn an_idempotent_fresh_step_starts_without_asking() {
    let fixture = Fixture::new().await;
    let executor = Executor::start(&fixture, Manner::default()).await;
    let working = RunningWorker::start(&fixture, 8, 8);
    let step_dispatch = step(true);
    fixture.publish(std::slice::from_ref(&step_dispatch)).await;
    fixture.all_acked().await;
    {
        let received = executor.received();
        assert_eq!((received.starts.len(), received.results.len()), (0, 1));
        let result = &received.results[0][0];
        assert_eq!((result.run, result.dispatch), (step_dispatch.run, 1));
        assert!(result.result.success && result.error_code.is_none());
        assert_eq!(result.result.data, json!({ "say": "hello" }));
    }
    assert_eq!(working.calls(), 1);
    fixture.end().await;
}

/// S4-R2, P1: what is idempotent and only old asks whether it may still start, and does without a lease;
/// its delivery is acked when its result is confirmed.
#[tokio::test]
async fn an_idempotent_old_step_asks_and_needs_no_lease() {
    for (grant, calls) in [(Grant::GoWithoutLease, 1), (Grant::Drop, 0)] {
        let fixture = Fixture::new().await;
        fixture.publish(&[step(true)]).await;
        tokio::time::sleep(FRESH + Duration::from_millis(50)).await;
        let manner = Manner {
            grant,
            ..Manner::default()
        };
        let executor = Executor::start(&fixture, manner).await;
        let working = RunningWorker::start(&fixture, 8, 8);
        fixture.all_acked().await;
        {
            let received = executor.received();
            assert_eq!((received.starts.len(), received.results.len()), (1, calls));
            assert!(received.starts[0].without_lease);
        }
        assert_eq!(working.calls(), calls);
        fixture.end().await;
    }
}

/// S4-R2
#[tokio::test]
async fn a_step_that_is_not_idempotent_asks_and_is_not_started_after_drop() {
    for (grant, calls) in [(Grant::Drop, 0), (Grant::Uncertain, 0), (Grant::Go, 1)] {
        let fixture = Fixture::new().await;
        let manner = Manner {
            grant,
            ..Manner::default()
        };
        let executor = Executor::start(&fixture, manner).await;
        let working = RunningWorker::start(&fixture, 8, 8);
        fixture.publish(&[step(false)]).await;
        fixture.all_acked().await;
        assert_eq!(
            (executor.received().starts.len(), working.calls()),
            (1, calls)
        );
        assert_eq!(executor.received().starts[0].delivery, 1);
        fixture.end().await;
    }
}

/// S4-R2
#[tokio::test]
async fn a_redelivered_step_asks_before_it_starts() {
    let fixture = Fixture::new().await;
    fixture.publish(&[step(true)]).await;
    let consumer = fixture.bus.queue("work", Lane::Normal).await.unwrap();
    let mut first = consumer.fetch().max_messages(1).messages().await.unwrap();
    let message = first.next().await.unwrap().unwrap();
    message.ack_with(AckKind::Nak(None)).await.unwrap();

    let executor = Executor::start(&fixture, Manner::default()).await;
    let working = RunningWorker::start(&fixture, 8, 8);
    fixture.all_acked().await;
    assert_eq!(executor.received().starts.len(), 1);
    assert_eq!(executor.received().starts[0].delivery, 2);
    assert_eq!(working.calls(), 1);
    fixture.end().await;
}

/// B-6: the overflow has seven of eight slots, so the step of another workspace starts at once.
#[tokio::test]
async fn a_step_of_the_normal_lane_does_not_wait_for_the_overflow() {
    let fixture = Fixture::new().await;
    let _executor = Executor::start(&fixture, Manner::default()).await;
    let working = RunningWorker::start(&fixture, 8, 0);
    let steps: Vec<_> = (0..20).map(|_| step(true)).collect();
    fixture.publish_to(Lane::Overflow, &steps).await;
    working.called(7).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(working.calls(), 7);
    fixture.publish(&[step(true)]).await;
    working.called(8).await;
    working.leaves.add_permits(21);
    fixture.all_acked().await;
    assert_eq!(working.calls(), 21);
    fixture.end().await;
}

/// S4-R2: a second delivery of a granted step would be uncertain, the same one is not.
#[tokio::test]
async fn a_silent_executor_is_asked_again_under_the_same_delivery() {
    let fixture = Fixture::new().await;
    let manner = Manner {
        ignored_starts: 1,
        ..Manner::default()
    };
    let executor = Executor::start(&fixture, manner).await;
    let _working = RunningWorker::start(&fixture, 8, 8);
    fixture.publish(&[step(false)]).await;
    fixture.all_acked().await;
    let received = executor.received();
    assert_eq!(received.starts.len(), 2);
    assert!(received.starts.iter().all(|start| start.delivery == 1));
    fixture.end().await;
}

/// S4-R2
#[tokio::test]
async fn a_step_comes_again_while_there_is_no_executor() {
    let fixture = Fixture::new().await;
    let working = RunningWorker::start_and_lose_executor(&fixture, 8).await;
    fixture.publish(&[step(false)]).await;
    let consumer = subject::steps_consumer("work", Lane::Normal);
    until(5, "it is given back", async || {
        let backlog = fixture.bus.backlog(StreamUse::Steps, &consumer).await;
        backlog.unwrap().unacked == 1
    })
    .await;
    assert_eq!(working.calls(), 0);
    let executor = Executor::start(&fixture, Manner::default()).await;
    fixture.all_acked().await;
    assert_eq!(working.calls(), 1);
    assert!(!executor.received().starts.is_empty());
    fixture.end().await;
}

/// S4-R2
#[tokio::test]
async fn a_result_is_sent_until_it_is_acknowledged_and_only_then_is_the_step_acked() {
    let fixture = Fixture::new().await;
    let manner = Manner {
        refusals: 5,
        ..Manner::default()
    };
    let executor = Executor::start(&fixture, manner).await;
    let working = RunningWorker::start(&fixture, 8, 8);
    fixture.publish(&[step(true)]).await;
    fixture.all_acked().await;
    assert_eq!(executor.received().stored_at_refusal, [1; 5]);
    assert_eq!(executor.received().results.len(), 1);
    assert_eq!(working.calls(), 1, "it was done once");
    fixture.end().await;
}

/// S4-R2
#[tokio::test]
async fn without_an_executor_its_command_stream_keeps_the_result() {
    let fixture = Fixture::new().await;
    let commands = StreamUse::Commands("executor");
    fixture.bus.provide_stream(commands).await.unwrap();
    let _working = RunningWorker::start_and_lose_executor(&fixture, 8).await;
    let step_dispatch = step(true);
    fixture.publish(std::slice::from_ref(&step_dispatch)).await;
    fixture.all_acked().await;
    assert_eq!(fixture.bus.stored(commands).await.unwrap(), 1);
    let filter = subject::commands_filter("executor");
    let mut stored = fixture
        .bus
        .pull(commands, "executor", &filter, Duration::from_secs(5))
        .await
        .unwrap();
    let message = stored.next().await.unwrap().unwrap();
    let envelope: Envelope<StepResults> = serde_json::from_slice(&message.payload).unwrap();
    assert_eq!(envelope.command.results[0].run, step_dispatch.run);
    fixture.end().await;
}

#[tokio::test]
async fn results_that_are_ready_together_share_a_request() {
    let fixture = Fixture::new().await;
    let executor = Executor::start(&fixture, Manner::default()).await;
    let working = RunningWorker::start(&fixture, 64, 0);
    let steps: Vec<_> = (0..60).map(|_| step(true)).collect();
    fixture.publish(&steps).await;
    working.called(60).await;
    working.leaves.add_permits(60);
    fixture.all_acked().await;
    let received = executor.received();
    let sent: usize = received.results.iter().map(Vec::len).sum();
    assert_eq!(sent, 60);
    assert!(
        received.results.len() <= 20,
        "{} requests",
        received.results.len()
    );
    fixture.end().await;
}

#[tokio::test]
async fn a_worker_takes_only_steps_that_can_start() {
    let fixture = Fixture::new().await;
    // Without a grant the deliveries stay where they can be counted.
    let manner = Manner {
        ignored_starts: usize::MAX,
        ..Manner::default()
    };
    let _executor = Executor::start(&fixture, manner).await;
    let working = RunningWorker::start(&fixture, 2, 0);
    let steps: Vec<_> = (0..5).map(|_| step(true)).collect();
    fixture.publish(&steps).await;
    working.called(2).await;
    let consumer = subject::steps_consumer("work", Lane::Normal);
    let backlog = fixture
        .bus
        .backlog(StreamUse::Steps, &consumer)
        .await
        .unwrap();
    assert_eq!((backlog.unacked, backlog.pending), (2, 3));
    working.leaves.add_permits(5);
    fixture.all_acked().await;
    assert_eq!(working.calls(), 5);
    fixture.end().await;
}

/// Mend A-C1: the executor makes it again, when the worker asks with a beat.
#[tokio::test]
async fn a_lost_stream_is_created_again_and_its_queues_are_reopened() {
    let fixture = Fixture::new().await;
    let _executor = Executor::start(&fixture, Manner::default()).await;
    let working = RunningWorker::start(&fixture, 8, 8);
    fixture.publish(&[step(true)]).await;
    fixture.all_acked().await;
    let jetstream = async_nats::jetstream::new(fixture.bus.client().clone());
    jetstream.delete_stream(subject::STEPS).await.unwrap();
    until(15, "the stream is back", async || {
        fixture.bus.stored(StreamUse::Steps).await.is_ok()
    })
    .await;
    fixture.publish(&[step(true)]).await;
    fixture.all_acked().await;
    assert_eq!(working.calls(), 2);
    fixture.end().await;
}

/// S0-R5
#[tokio::test]
async fn a_panic_in_a_tool_fails_its_step_and_nothing_else() {
    let fixture = Fixture::new().await;
    let executor = Executor::start(&fixture, Manner::default()).await;
    let _working = RunningWorker::start(&fixture, 8, 8);
    let mut bad = step(true);
    bad.args = json!({ "say": "panic" });
    fixture.publish(&[bad]).await;
    fixture.all_acked().await;
    fixture.publish(&[step(true)]).await;
    fixture.all_acked().await;
    let received = executor.received();
    let codes: Vec<_> = received
        .results
        .iter()
        .map(|it| it[0].error_code.as_deref())
        .collect();
    assert_eq!(codes, [Some("tool_panicked"), None]);
    fixture.end().await;
}

#[tokio::test]
async fn a_stopped_worker_finishes_what_runs_and_takes_nothing_more() {
    let fixture = Fixture::new().await;
    let executor = Executor::start(&fixture, Manner::default()).await;
    let working = RunningWorker::start(&fixture, 1, 0);
    fixture.publish(&[step(true), step(true)]).await;
    working.called(1).await;
    working.stop.cancel();
    working.leaves.add_permits(2);
    let calls = Arc::clone(&working.calls);
    working.ended().await;
    assert_eq!(executor.received().results.len(), 1);
    assert_eq!(calls.load(std::sync::atomic::Ordering::SeqCst), 1);
    // The server has the ack by then, and handles it a little later.
    until(5, "one of two is acked", async || {
        fixture.stored().await == 1
    })
    .await;
    fixture.end().await;
}

#[tokio::test]
async fn a_contact_is_patched_under_the_key_of_the_step() {
    let fixture = Fixture::new().await;
    let executor = Executor::start(&fixture, Manner::default()).await;
    let tool = UpdateContact {
        patch_contact: send_over(fixture.bus.clone()),
    };
    let patch = json!({ "contact": "ann", "set": { "replied": true } });
    tool.call(&call("step-01", patch)).await.unwrap();
    let received = executor.received();
    assert_eq!(received.patches.len(), 1);
    assert_eq!(received.patches[0].actor.0, "service:worker");
    assert_eq!(
        received.patches[0].key.as_ref().unwrap().key,
        "run_01920000000070008000000000000001/step-01:contact"
    );
    fixture.end().await;
}

/// API, Tools: however often a step is tried, its task has one id, under which its owner opens it once.
#[tokio::test]
async fn a_task_is_opened_under_an_id_of_the_step() {
    let fixture = Fixture::new().await;
    let client = fixture.bus.client().clone();
    let mut asked = client
        .subscribe(subject::asks_filter("handoff"))
        .await
        .unwrap();
    client.flush().await.unwrap();
    let owner = tokio::spawn(async move {
        let mut commands = Vec::new();
        while commands.len() < 3 {
            let message = asked.next().await.unwrap();
            let body: Value = serde_json::from_slice(&message.payload).unwrap();
            let view = opened(&body["command"]["id"]).to_string();
            let reply = message.reply.unwrap();
            client.publish(reply, view.into()).await.unwrap();
            commands.push(body);
        }
        commands
    });
    let tool = CreateTask {
        open_hold: send_over(fixture.bus.clone()),
    };
    let mut ids = Vec::new();
    for (step_id, days) in [("step-01", 2), ("step-01", 1), ("step-02", 2)] {
        let task = json!({
            "title": "Call Ann", "assignee": "bob", "due": format!("{days} days"),
            "priority": "high", "tags": ["pilot"],
        });
        let done = tool.call(&call(step_id, task)).await.unwrap();
        ids.push(done.data["task_id"].clone());
    }
    assert_eq!(ids[0], ids[1], "tried twice");
    assert_ne!(ids[0], ids[2], "of another step");
    let commands = owner.await.unwrap();
    let spec = &commands[0]["command"]["spec"];
    assert_eq!(commands[0]["actor"], "worker");
    assert_eq!(
        (
            &spec["kind"],
            &spec["question"],
            &spec["on_timeout"],
            &spec["to"]
        ),
        (
            &json!("handoff"),
            &json!("Call Ann"),
            &json!("escalate"),
            &json!(["@user.bob"])
        )
    );
    assert_eq!(spec["task"]["id"], ids[0]);
    assert_eq!(commands[0]["command"]["timeout_ms"], 172_800_000);
    assert_eq!(
        spec, &commands[1]["command"]["spec"],
        "else it would be taken for another"
    );
    fixture.end().await;
}

/// A call outside of the worker.
fn call(step_id: &str, args: Value) -> ToolCall {
    ToolCall {
        dispatch: StepDispatch {
            run: "run_01920000000070008000000000000001".parse().unwrap(),
            step: step_id.to_owned(),
            args,
            ..step(true)
        },
        bus: None,
        run_changes: crate::run_changes::RunChanges::default(),
        now: "2026-03-01T09:00:00Z".parse().unwrap(),
        stop: tokio_util::sync::CancellationToken::new(),
        suspension: crate::suspension::CallSuspension::default(),
        cost: CallCost::default(),
    }
}

/// The reply of the owner of tasks.
fn opened(id: &Value) -> Value {
    json!({"ok": {
        "id": id, "kind": "handoff", "run": null, "step": null, "agent": null, "status": "offered",
        "version": 1, "to": [], "question": "?", "options": [], "reason": null, "context": null,
        "deadline": null, "remaining_ms": null, "on_timeout": "escalate", "actions": [],
        "outcome": null, "response": null, "decided_by": null, "decided_at": null, "late": [],
        "created_at": "2026-03-01T09:00:00.000Z",
    }})
}

/// The tool ends, and its worker reports: the step is still held.
#[tokio::test]
async fn a_tool_that_does_not_end_in_time_is_stopped() {
    let stopped = Arc::new(std::sync::Mutex::new(None));
    let kept = Arc::clone(&stopped);
    let tool = tool_fn("slow", Risk::Low, move |call: ToolCall| {
        *kept.lock().unwrap() = Some(call.stop);
        std::future::pending()
    });
    let mut call = call("step-01", json!({}));
    call.dispatch.timeout_ms = Some(10);
    let held = call.stop.clone();
    let done = super::outcome::call(Arc::new(tool), call, 1_000).await;
    assert_eq!(done.error_code.as_deref(), Some("timeout"));
    assert!(!done.result.success && !done.parks);
    let stopped = stopped.lock().unwrap().clone().unwrap();
    assert!(stopped.is_cancelled() && !held.is_cancelled());
}

#[tokio::test]
async fn a_worker_says_what_is_wrong_with_its_tools() {
    let fixture = Fixture::new().await;
    let run = async |names: &[&str]| {
        let mut worker = Worker::new(
            fixture.bus.clone(),
            WorkerOptions::new("n".parse().unwrap()),
        );
        for name in names {
            let tool = tool_fn(*name, Risk::Low, |_| async {
                Err(ToolFailure::new("no", "no"))
            });
            worker = worker.tool(Arc::new(tool) as Arc<dyn Tool>);
        }
        worker.run(tokio_util::sync::CancellationToken::new()).await
    };
    assert!(matches!(run(&[]).await, Err(WorkerError::NoTools)));
    assert!(matches!(run(&["a", "a"]).await, Err(WorkerError::TwoTools { name }) if name == "a"));
    assert!(matches!(run(&["a b"]).await, Err(WorkerError::Name(_))));
    fixture.end().await;
}
