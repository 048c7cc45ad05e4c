//! p5: one of two workers is killed with steps in flight, and the other one takes them over.

use std::time::Duration;

use anyhow::bail;
use serde_json::json;

use super::check;
use super::instruction::{BenchAgent, Instruction, Pace, SLOW_MS};
use super::measurement::{
    EXECUTOR, LOAD, Measured, SCHEDULER, WORKER, durability, number, runs_by_steps,
};
use super::temporary_system::TemporarySystem;
use crate::cli::processes::BenchArgs;
use crate::exit::Usage;

/// Most runs: by then each of them must be at work.
const RUNS_MAX: u64 = 2_000;

/// From the first start to the kill. The tool of each step still works then.
const KILL_AFTER: Duration = Duration::from_millis(SLOW_MS * 4 / 5);

/// Steps of a run.
const STEPS: usize = 1;

/// The calls of the killed worker are not counted: a killed process answers no question. The tables show that each step has one result.
pub(super) async fn measure_take_over(
    system: &mut TemporarySystem,
    args: &BenchArgs,
) -> anyhow::Result<Measured> {
    let runs = args.runs.unwrap_or(1_000);
    if !(2..=RUNS_MAX).contains(&runs) {
        bail!(Usage(format!("--runs must be 2 to {RUNS_MAX}")));
    }
    for name in [SCHEDULER, EXECUTOR, WORKER, WORKER, LOAD] {
        system.start_process(name).await?;
    }
    let warm_up = Instruction::WarmUp {
        runs: 1,
        agent: BenchAgent::SlowStep,
    };
    let warm_up = system.process(LOAD)?.perform(&warm_up).await?;
    let doomed = system.take_process(WORKER)?;
    let pace = Pace {
        runs,
        window: 1_000,
        is_closed_loop: false,
        rate: None,
    };
    let measured = Instruction::Runs(pace);
    let load = system.process(LOAD)?.perform(&measured);
    let kill = async {
        tokio::time::sleep(KILL_AFTER).await;
        doomed.kill().await
    };
    let (load, killed) = tokio::join!(load, kill);
    let (load, ()) = (load?, killed?);
    system.take_process(LOAD)?.stop().await?;
    let worker = system.take_process(WORKER)?.finish().await?;
    system.take_process(EXECUTOR)?.stop().await?;
    let last_seq = number(&warm_up, "last_seq").unwrap_or(0);
    let location = system.tables.of(EXECUTOR);
    let tables = check::check_runs(&location, STEPS, runs + 1, last_seq).await?;
    let is_complete = tables.get("runs_completed") == tables.get("runs")
        && tables.get("runs_with_all_steps_succeeded") == tables.get("runs")
        && number(&tables, "runs") == Some(runs + 1)
        && number(&worker, "executed_twice") == Some(0);
    let result = json!({
        "bench": "p5",
        "up": args.up,
        "durability": durability(&args.database),
        "tool_ms": SLOW_MS,
        "killed_after_ms": u64::try_from(KILL_AFTER.as_millis())?,
        "load": load,
        "by_other_worker": runs_by_steps(&worker, STEPS),
        "worker": worker,
        "tables": tables,
    });
    Ok((result, is_complete))
}
