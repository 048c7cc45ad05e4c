//! rest: memory and CPU of the services without calls, with empty tables and with open requests.

use std::time::Duration;

use serde_json::{Value, json};

use super::check;
use super::instruction::Instruction;
use super::measurement::{EXECUTOR, LOAD, Measured, durability};
use super::temporary_system::TemporarySystem;
use crate::cli::processes::BenchArgs;

/// From the last call until the services have done what follows from it.
const UNTIL_REST: Duration = Duration::from_secs(20);

pub(super) async fn measure_rest(
    system: &mut TemporarySystem,
    args: &BenchArgs,
) -> anyhow::Result<Measured> {
    let runs = args.runs.unwrap_or(1_000);
    let api = system.start_all().await?;
    let empty = usage_at_rest(system, args.over).await;
    let warm_up = Instruction::WarmUpAnswers { runs: 1, api };
    system.process(LOAD)?.perform(&warm_up).await?;
    let block = Instruction::Block { runs };
    let blocked = system.process(LOAD)?.perform(&block).await?;
    let with_requests = usage_at_rest(system, args.over).await;
    let stored = check::count_runs(&system.tables.of(EXECUTOR)).await?;
    let result = json!({
        "bench": "rest",
        "up": args.up,
        "durability": durability(&args.database),
        "seconds": args.over,
        "empty": empty,
        "blocked": blocked,
        "with_requests": with_requests,
        "tables": { "runs": stored, "ok": stored == runs + 1 },
    });
    Ok((result, stored == runs + 1))
}

async fn usage_at_rest(system: &mut TemporarySystem, seconds: u64) -> Value {
    tokio::time::sleep(UNTIL_REST).await;
    system.begin_measurement();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    system.usage_at_rest(seconds)
}
