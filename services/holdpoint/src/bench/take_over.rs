//! p5: one of two workers is killed with steps in flight, and the other one takes them over.

use std::time::Duration;

use anyhow::bail;
use serde_json::{Value, json};

use super::check;
use super::instruction::{BenchAgent, Instruction, Pace, SLOW_MS};
use super::measurement::{EXECUTOR, LOAD, Measured, WORKER, durability, number, runs_by_steps};
use super::temporary_system::TemporarySystem;
use crate::cli::processes::BenchArgs;
use crate::exit::Usage;

/// Most runs: the workers take 1,024 steps each.
const RUNS_MAX: u64 = 2_000;

/// From the first start to the kill. The tools of the first steps still work then.
const KILL_AFTER: Duration = Duration::from_millis(SLOW_MS * 4 / 5);

/// Steps of a run.
const STEPS: usize = 1;

/// A killed worker cannot report its calls. The tables show that each step has one result, and the other worker that
/// it called no tool twice. The history of a step that was taken over is longer, so its length is not checked.
pub(super) async fn measure_take_over(
    system: &mut TemporarySystem,
    args: &BenchArgs,
) -> anyhow::Result<Measured> {
    let runs = args.runs.unwrap_or(1_000);
    if !(2..=RUNS_MAX).contains(&runs) {
        bail!(Usage(format!("--runs must be 2 to {RUNS_MAX}")));
    }
    system.start_all().await?;
    system.start_process(WORKER).await?;
    let warm_up = Instruction::WarmUp {
        runs: 1,
        agent: BenchAgent::SlowStep,
    };
    system.process(LOAD)?.perform(&warm_up).await?;
    let doomed = system.take_process(WORKER)?;
    let pace = Pace {
        runs,
        window: 1_000,
        is_closed_loop: false,
        rate: None,
    };
    system.begin_measurement();
    let measured = Instruction::Runs(pace);
    let load = system.process(LOAD)?.perform(&measured);
    let kill = async {
        tokio::time::sleep(KILL_AFTER).await;
        doomed.kill().await
    };
    let (load, killed) = tokio::join!(load, kill);
    let (load, ()) = (load?, killed?);
    let used = system.usage_per(runs);
    system.take_process(LOAD)?.stop().await?;
    let worker = system.take_process(WORKER)?.finish().await?;
    system.take_process(EXECUTOR)?.stop().await?;
    let location = system.tables.of(EXECUTOR);
    let tables = check::check_runs(&location, STEPS, runs + 1, None).await?;
    let is_complete = tables.get("ok") == Some(&Value::Bool(true))
        && number(&worker, "executed_twice") == Some(0);
    let result = json!({
        "bench": "p5",
        "up": args.up,
        "durability": durability(&args.database),
        "tool_ms": SLOW_MS,
        "killed_after_ms": u64::try_from(KILL_AFTER.as_millis())?,
        "load": load,
        // Without the killed worker.
        "used_per_run": used,
        "by_other_worker": runs_by_steps(&worker, STEPS),
        "worker": worker,
        "tables": tables,
    });
    Ok((result, is_complete))
}
