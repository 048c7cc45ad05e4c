//! The worker of `bench`: one tool that counts its calls, and sleeps for `work_ms` if its arguments have it.

use std::collections::{BTreeMap, HashMap};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_ids::RunId;
use holdpoint_worker::tool::{Risk, ToolCall, ToolSuccess, tool_fn};
use holdpoint_worker::worker::{Worker, WorkerOptions};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::instruction::{Instructions, TOOL, print_result};
use super::statistics::percentiles;
use crate::cli::processes::BenchChildArgs;
use crate::exit::ExitKind;

const CONCURRENCY: usize = 1_024;

/// Number of calls by run and step.
type Calls = HashMap<RunId, HashMap<String, u32>>;

/// Calls of the tool, and how late they came.
#[derive(Default)]
struct Seen {
    calls: Calls,
    /// Microseconds from the answer of a person to the call of the next step.
    after_answer: Vec<u64>,
}

/// Works until stdin ends, then prints the numbers of calls.
pub(crate) async fn run(args: BenchChildArgs) -> anyhow::Result<ExitCode> {
    holdpoint_telemetry::start(holdpoint_telemetry::Default::Warn);
    let bus = Bus::connect(&args.nats_url, "bench-worker").await?;
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let counted = Arc::clone(&seen);
    let tool = tool_fn(TOOL, Risk::Low, move |call: ToolCall| {
        let mut seen = counted.lock().unwrap_or_else(PoisonError::into_inner);
        seen.after_answer
            .extend(micros_since_answer(&call.dispatch.args));
        let steps = seen.calls.entry(call.dispatch.run).or_default();
        *steps.entry(call.dispatch.step.clone()).or_default() += 1;
        let work_ms = call.dispatch.args.get("work_ms").and_then(Value::as_u64);
        let work = Duration::from_millis(work_ms.unwrap_or(0));
        async move {
            if !work.is_zero() {
                tokio::time::sleep(work).await;
            }
            Ok(ToolSuccess {
                description: "Did nothing".to_owned(),
                data: Value::Null,
            })
        }
    });
    let node = format!("bench-{}", RunId::fresh().to_string().replace('_', "-"));
    let options = WorkerOptions {
        concurrency: CONCURRENCY,
        ..WorkerOptions::new(node.parse()?)
    };
    let stop = CancellationToken::new();
    let worker = Worker::new(bus, options).tool(Arc::new(tool));
    let working = tokio::spawn(worker.run(stop.clone()));
    print_result(&json!({ "ready": true }))?;
    Instructions::new().wait_for_end().await;
    stop.cancel();
    working.await??;
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    print_result(&summarize(&mut seen))?;
    Ok(ExitKind::Ok.into())
}

/// Microseconds since a person's answer was sent. `None`: the arguments contain no such time.
fn micros_since_answer(args: &Value) -> Option<u64> {
    let sent: i64 = args.get("sent")?.as_str()?.parse().ok()?;
    u64::try_from(Clock::system().now().timestamp_micros() - sent).ok()
}

fn summarize(seen: &mut Seen) -> Value {
    let (calls, after_answer) = (&seen.calls, std::mem::take(&mut seen.after_answer));
    let counts = calls.values().flat_map(HashMap::values);
    let executions: u64 = counts.copied().map(u64::from).sum();
    let steps: u64 = calls.values().map(|steps| steps.len() as u64).sum();
    let mut runs_by_steps: BTreeMap<String, u64> = BTreeMap::new();
    let is_once = |steps: &&HashMap<String, u32>| steps.values().all(|count| *count == 1);
    for steps in calls.values().filter(is_once) {
        *runs_by_steps.entry(steps.len().to_string()).or_default() += 1;
    }
    json!({
        "executions": executions,
        "executed_twice": executions - steps,
        "runs_seen": calls.len(),
        "runs_by_steps": runs_by_steps,
        "step_after_answer": percentiles(after_answer),
    })
}
