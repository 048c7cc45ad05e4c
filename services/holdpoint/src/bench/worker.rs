//! The worker of `bench`: one tool that does nothing, and the count of how often it was called.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_bus::Bus;
use holdpoint_ids::RunId;
use holdpoint_worker::tool::{ToolCall, ToolSuccess, tool_fn};
use holdpoint_worker::worker::{Worker, WorkerOptions};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::instruction::{Orders, answer};
use super::{STEPS, TOOL};
use crate::cli::BenchPartArgs;
use crate::exit::Outcome;

/// Steps at once.
const CONCURRENCY: usize = 1_024;

/// How often each step of each run was executed.
type Calls = HashMap<String, HashMap<String, u32>>;

/// Works until nobody gives orders any more, then tells what it did.
pub(crate) async fn run(args: BenchPartArgs) -> anyhow::Result<ExitCode> {
    holdpoint_telemetry::start(holdpoint_telemetry::Default::Warn);
    let bus = Bus::connect(&args.nats_url, "bench-worker").await?;
    let calls: Arc<Mutex<Calls>> = Arc::default();
    let counted = Arc::clone(&calls);
    let tool = tool_fn(TOOL, move |call: ToolCall| {
        let mut calls = counted.lock().unwrap_or_else(PoisonError::into_inner);
        *calls
            .entry(call.run)
            .or_default()
            .entry(call.step)
            .or_default() += 1;
        async {
            let description = "Did nothing".to_owned();
            Ok(ToolSuccess {
                description,
                data: Value::Null,
            })
        }
    });
    let options = WorkerOptions {
        concurrency: CONCURRENCY,
        ..WorkerOptions::new(
            format!("bench-{}", RunId::fresh().to_string().replace('_', "-")).parse()?,
        )
    };
    let stop = CancellationToken::new();
    let worker = Worker::new(bus, options).tool(Arc::new(tool));
    let working = tokio::spawn(worker.run(stop.clone()));
    answer(&json!({ "ready": true }))?;
    Orders::new().ended().await;
    stop.cancel();
    working.await??;
    let calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
    answer(&tally(&calls))?;
    Ok(Outcome::Ok.into())
}

/// Runs whose every step was executed once, and what was executed more often.
fn tally(calls: &Calls) -> Value {
    let executions: u64 = calls
        .values()
        .flat_map(HashMap::values)
        .copied()
        .map(u64::from)
        .sum();
    let steps: u64 = calls.values().map(|steps| steps.len() as u64).sum();
    let whole = calls
        .values()
        .filter(|steps| steps.len() == STEPS && steps.values().all(|count| *count == 1));
    json!({
        "executions": executions,
        "executed_twice": executions - steps,
        "runs_seen": calls.len(),
        "runs_with_each_step_once": whole.count(),
    })
}
