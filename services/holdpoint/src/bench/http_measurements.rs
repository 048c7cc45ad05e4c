//! Measurements through the HTTP API: answers of people, starts of runs, and the inbox.

use anyhow::bail;
use serde_json::json;

use super::check;
use super::instruction::{BenchAgent, Instruction, Pace};
use super::measurement::{
    EXECUTOR, HANDOFF, LOAD, Measured, NOTIFICATION, WORKER, durability, number, runs_by_steps,
};
use super::temporary_system::TemporarySystem;
use crate::cli::processes::BenchArgs;
use crate::exit::Usage;

/// Runs that are answered before the measured ones.
const WARM_UP: u64 = 100;

/// Steps of a run that the worker executes after the answer.
const ANSWERED_STEPS: usize = 1;

/// Measured reads of each list.
const INBOX_CALLS: u64 = 200;

/// Starts of one request of a batch.
const LINES: u64 = 500;

/// p4: runs that wait for a person are answered.
pub(super) async fn measure_answers(
    system: &mut TemporarySystem,
    args: &BenchArgs,
) -> anyhow::Result<Measured> {
    let pace = pace(args, 5_000)?;
    let api = system.start_all().await?;
    let before = WARM_UP + args.history;
    let warm_up = Instruction::WarmUpAnswers { runs: before, api };
    system.process(LOAD)?.perform(&warm_up).await?;
    if args.open > 0 {
        let open = Instruction::Block { runs: args.open };
        system.process(LOAD)?.perform(&open).await?;
    }
    let runs = pace.runs;
    let block = Instruction::Block { runs };
    let blocked = system.process(LOAD)?.perform(&block).await?;
    system.begin_measurement();
    let answer = Instruction::Answer(pace.clone());
    let load = system.process(LOAD)?.perform(&answer).await?;
    let used = system.usage_per(runs);
    system.take_process(LOAD)?.stop().await?;
    let worker = system.take_process(WORKER)?.finish().await?;
    system.take_process(EXECUTOR)?.stop().await?;
    let all = runs + before;
    let completed = check::count_completed(&system.tables.of(EXECUTOR)).await?;
    let (decided, notified) = (
        check::await_decided(&system.tables.of(HANDOFF), all).await?,
        check::await_notified(&system.tables.of(NOTIFICATION), all + args.open).await?,
    );
    let is_complete = completed == all
        && decided == all
        && notified == all + args.open
        && runs_by_steps(&worker, ANSWERED_STEPS) == Some(all)
        && number(&worker, "executed_twice") == Some(0);
    let result = json!({
        "bench": "p4",
        "in_flight": pace.window,
        "rate": pace.rate,
        "history": args.history,
        "open": args.open,
        "up": args.up,
        "durability": durability(&args.database),
        "blocked": blocked,
        "load": load,
        "used_per_answer": used,
        "worker": worker,
        "tables": {
            "runs_completed": completed,
            "requests_decided_and_applied": decided,
            "requests_notified": notified,
            "ok": is_complete,
        },
    });
    Ok((result, is_complete))
}

/// The first page of open approvals, and of other lists.
pub(super) async fn measure_inbox(
    system: &mut TemporarySystem,
    args: &BenchArgs,
) -> anyhow::Result<Measured> {
    let runs = args.runs.unwrap_or(10_000);
    let api = system.start_all().await?;
    if args.history > 0 {
        let history = Instruction::WarmUp {
            runs: args.history,
            agent: BenchAgent::ThreeSteps,
        };
        system.process(LOAD)?.perform(&history).await?;
    }
    let inbox = Instruction::Inbox {
        runs,
        calls: INBOX_CALLS,
        api,
    };
    let load = system.process(LOAD)?.perform(&inbox).await?;
    let stored = check::count_runs(&system.tables.of(EXECUTOR)).await?;
    let result = json!({
        "bench": "inbox",
        "history": args.history,
        "up": args.up,
        "durability": durability(&args.database),
        "load": load,
        "tables": { "runs": stored, "ok": stored == runs + args.history },
    });
    Ok((result, stored == runs + args.history))
}

/// Starts of runs, one in a request and many in a request.
pub(super) async fn measure_starts(
    system: &mut TemporarySystem,
    args: &BenchArgs,
) -> anyhow::Result<Measured> {
    let pace = pace(args, 10_000)?;
    let runs = pace.runs;
    if !runs.is_multiple_of(LINES) {
        bail!(Usage(format!("--runs must be a multiple of {LINES}")));
    }
    let api = system.start_all().await?;
    let mut results = Vec::new();
    for (window, lines) in [(pace.window, 1), (8, LINES)] {
        system.begin_measurement();
        let starts = Instruction::HttpStarts {
            pace: Pace {
                window,
                ..pace.clone()
            },
            lines,
            api: api.clone(),
        };
        let load = system.process(LOAD)?.perform(&starts).await?;
        results.push(json!({
            "in_flight": window,
            "load": load,
            "used_per_start": system.usage_per(runs),
        }));
    }
    let stored = check::count_runs(&system.tables.of(EXECUTOR)).await?;
    let result = json!({
        "bench": "start",
        "up": args.up,
        "durability": durability(&args.database),
        "starts": results,
        "tables": { "runs": stored, "ok": stored == 2 * runs },
    });
    Ok((result, stored == 2 * runs))
}

fn pace(args: &BenchArgs, runs: u64) -> anyhow::Result<Pace> {
    let (runs, window) = (args.runs.unwrap_or(runs), args.in_flight.unwrap_or(128));
    if runs == 0 || window == 0 {
        bail!(Usage(
            "--runs and --in-flight must be at least 1".to_owned()
        ));
    }
    Ok(Pace {
        runs,
        window,
        is_closed_loop: false,
        rate: args.rate,
    })
}
