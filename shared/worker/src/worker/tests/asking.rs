//! Tools that wait for people, many at once, against an executor that the test plays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use holdpoint_bus::Bus;
use holdpoint_contracts::asking::RequestInput;
use holdpoint_contracts::executor::SERVICE;
use holdpoint_contracts::history::Nudge;
use holdpoint_contracts::message::Envelope;
use holdpoint_contracts::subject;
use holdpoint_ids::RunId;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use super::fixture::{Fixture, step, until, workspace};
use crate::run_changes::RunChanges;
use crate::suspension::CallSuspension;
use crate::tool::{CallCost, ToolCall};

const TOOLS: usize = 300;

/// Plays the executor's part in asking.
#[derive(Clone, Default)]
struct PlayedExecutor {
    /// How often the question of each run was asked.
    counts: Arc<Mutex<BTreeMap<RunId, usize>>>,
    answered: Arc<Mutex<BTreeSet<RunId>>>,
}

impl PlayedExecutor {
    async fn play(&self, bus: &Bus) -> AbortOnDropHandle<()> {
        let client = bus.client().clone();
        let mut asks = client
            .subscribe(subject::asks_filter(SERVICE))
            .await
            .unwrap();
        client.flush().await.unwrap();
        let asked = self.clone();
        AbortOnDropHandle::new(tokio::spawn(async move {
            while let Some(message) = asks.next().await {
                let envelope: Envelope<RequestInput> =
                    serde_json::from_slice(&message.payload).unwrap();
                let reply = asked.reply(envelope.command.run).to_string();
                let inbox = message.reply.unwrap();
                client.publish(inbox, reply.into()).await.unwrap();
            }
        }))
    }

    fn reply(&self, run: RunId) -> Value {
        *self.counts.lock().unwrap().entry(run).or_default() += 1;
        let hold = format!("{}-1", run.to_string().replace("run_", "hold_"));
        let mut reply = json!({
            "notification_id": hold.replace("hold_", "note_"), "request_id": hold, "step": "step-01",
            "key": "q", "status": "open", "deadline": null,
        });
        if self.answered.lock().unwrap().contains(&run) {
            let given = json!({ "status": "answered", "question_id": hold, "answer": run,
                "by": "ada", "continuation": "User responded: yes" });
            for (name, value) in given.as_object().unwrap() {
                reply[name] = value.clone();
            }
        }
        json!({ "ok": reply })
    }

    fn total(&self) -> usize {
        self.counts.lock().unwrap().values().sum()
    }
}

fn asking(bus: &Bus, run_changes: &RunChanges) -> ToolCall {
    ToolCall {
        dispatch: step(true),
        bus: Some(bus.clone()),
        run_changes: run_changes.clone(),
        now: "2026-03-01T09:00:00Z".parse().unwrap(),
        stop: tokio_util::sync::CancellationToken::new(),
        suspension: CallSuspension::default(),
        cost: CallCost::default(),
    }
}

async fn nudge(bus: &Bus, runs: Vec<(RunId, u64)>) {
    let body = serde_json::to_vec(&Nudge { runs }).unwrap();
    let subject = subject::live(&workspace(), SERVICE);
    bus.client().publish(subject, body.into()).await.unwrap();
}

/// Swift: tools of a worker share one subscription. A nudge wakes the tool of its run alone, and each tool gets its answer.
#[tokio::test]
async fn many_tools_wait_with_one_subscription() {
    let fixture = Fixture::new().await;
    let asked = PlayedExecutor::default();
    let _executor = asked.play(&fixture.bus).await;
    let worker = Bus::connect(&fixture.server.url, "worker").await.unwrap();
    let run_changes = RunChanges::default();
    let mut tools = JoinSet::new();
    let mut runs = Vec::new();
    for _ in 0..TOOLS {
        let call = asking(&worker, &run_changes);
        runs.push(call.dispatch.run);
        tools.spawn(async move {
            let run = call.dispatch.run;
            (run, call.ask("Refund?").block().await.unwrap())
        });
    }
    until(10, "every tool has asked", async || asked.total() == TOOLS).await;

    let messages = || {
        worker
            .client()
            .statistics()
            .in_messages
            .load(std::sync::atomic::Ordering::Relaxed)
    };
    // All replies have come when the nudges begin.
    until(10, "the replies", async || messages() >= TOOLS as u64).await;
    let before = messages();
    const OTHERS: u64 = 200;
    for number in 0..OTHERS {
        nudge(&fixture.bus, vec![(RunId::fresh(), number)]).await;
    }
    // A connection gets its messages in order, so a second copy of a nudge would come before this one.
    let last = worker.client().new_inbox();
    let mut lasts = worker.client().subscribe(last.clone()).await.unwrap();
    worker.client().flush().await.unwrap();
    fixture.bus.client().publish(last, "".into()).await.unwrap();
    lasts.next().await.unwrap();
    assert_eq!(messages(), before + OTHERS + 1, "each nudge came once");
    assert_eq!(asked.total(), TOOLS, "no tool was woken by another run");

    asked.answered.lock().unwrap().extend(&runs);
    nudge(&fixture.bus, runs.iter().map(|run| (*run, 2)).collect()).await;
    let done = tokio::time::timeout(Duration::from_secs(5), tools.join_all());
    for (run, given) in done.await.expect("without waiting for the next try") {
        assert_eq!(given.answer, json!(run));
    }
    assert_eq!(asked.total(), 2 * TOOLS);
    fixture.end().await;
}

/// A nudge may be lost: the tool asks again after ten seconds.
#[tokio::test]
async fn a_lost_nudge_delays_an_answer() {
    let fixture = Fixture::new().await;
    let asked = PlayedExecutor::default();
    let _executor = asked.play(&fixture.bus).await;
    let call = asking(&fixture.bus, &RunChanges::default());
    let run = call.dispatch.run;
    let waiting = tokio::spawn(async move { call.ask("Refund?").block().await });
    until(10, "the tool has asked", async || asked.total() == 1).await;
    asked.answered.lock().unwrap().insert(run);
    let given = waiting.await.unwrap().unwrap();
    assert_eq!((given.answer, asked.total()), (json!(run), 2));
    fixture.end().await;
}
