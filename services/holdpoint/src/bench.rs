//! `bench`: measures a temporary system of separate processes and checks that nothing was lost.
//!
//! It prints one JSON line per result. `docs/performance.md` describes the measurements and results.

mod check;
mod child;
mod http_measurements;
mod instruction;
mod load;
mod machine;
mod measurement;
mod rest;
mod statistics;
mod take_over;
mod temporary_system;
mod worker;

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use self::instruction::{BenchAgent, Instruction, Pace, STEPS};
use self::measurement::{
    EXECUTOR, LOAD, Measured, SCHEDULER, WORKER, durability, number, runs_by_steps,
};
use self::temporary_system::TemporarySystem;
use crate::cli::processes::{BenchArgs, Shape};
use crate::exit::{ExitKind, Usage};
use crate::output;

pub(crate) use load::run as run_load;
pub(crate) use worker::run as run_worker;

/// Runs before the measured ones.
const WARM_UP: u64 = 500;

/// Fails if anything was lost or done twice.
pub(crate) async fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    holdpoint_telemetry::start(holdpoint_telemetry::Default::Warn);
    if args.up && matches!(args.shape, Shape::P3) {
        bail!(Usage(
            "p3 kills the scheduler, so --up is not allowed".to_owned()
        ));
    }
    let mut system = TemporarySystem::start(&args).await?;
    let directory = system.directory.clone();
    let limits_before = machine_limits(&directory).await?;
    let measured = match args.shape {
        Shape::P1 | Shape::P2 => measure_runs(&mut system, &args).await,
        Shape::P3 => measure_timers(&mut system, &args).await,
        Shape::P4 => http_measurements::measure_answers(&mut system, &args).await,
        Shape::P5 => take_over::measure_take_over(&mut system, &args).await,
        Shape::Rest => rest::measure_rest(&mut system, &args).await,
        Shape::Inbox => http_measurements::measure_inbox(&mut system, &args).await,
        Shape::Start => http_measurements::measure_starts(&mut system, &args).await,
    };
    let limits_after = machine_limits(&directory).await;
    let nats_server = system.nats_version();
    system.remove().await?;
    let (mut result, is_complete) = measured?;
    if let Value::Object(fields) = &mut result {
        let versions =
            json!({ "holdpoint": env!("CARGO_PKG_VERSION"), "nats_server": nats_server });
        fields.insert("limits_before".to_owned(), limits_before);
        fields.insert("limits_after".to_owned(), limits_after?);
        fields.insert("versions".to_owned(), versions);
        if args.keep {
            fields.insert("folder".to_owned(), json!(directory));
        }
    }
    output::line(&result.to_string())?;
    if !is_complete {
        output::note("error: something was lost or done twice; see `tables` and `worker`");
        return Ok(ExitKind::Failed.into());
    }
    Ok(ExitKind::Ok.into())
}

async fn measure_runs(system: &mut TemporarySystem, args: &BenchArgs) -> anyhow::Result<Measured> {
    let is_closed_loop = args.shape == Shape::P2;
    let (runs, window) = if is_closed_loop {
        (2_000, 1)
    } else {
        (20_000, 1_000)
    };
    let runs = args.runs.unwrap_or(runs);
    let window = args.in_flight.unwrap_or(window);
    if runs == 0 || window == 0 {
        bail!(Usage(
            "--runs and --in-flight must be at least 1".to_owned()
        ));
    }
    for name in [SCHEDULER, EXECUTOR, WORKER, LOAD] {
        system.start_process(name).await?;
    }
    let before = WARM_UP + args.history;
    let warm_up = Instruction::WarmUp {
        runs: before,
        agent: BenchAgent::ThreeSteps,
    };
    let warm_up = system.process(LOAD)?.perform(&warm_up).await?;
    system.begin_measurement();
    let pace = Pace {
        runs,
        window,
        is_closed_loop,
        rate: args.rate,
    };
    let load = system.process(LOAD)?;
    let load = load.perform(&Instruction::Runs(pace)).await?;
    let used = system.usage_per(runs);
    system.take_process(LOAD)?.stop().await?;
    let worker = system.take_process(WORKER)?.finish().await?;
    system.take_process(EXECUTOR)?.stop().await?;
    let last_seq = Some(number(&warm_up, "last_seq").unwrap_or(0));
    let all = runs + before;
    let tables = check::check_runs(&system.tables.of(EXECUTOR), STEPS, all, last_seq).await?;
    let is_complete = tables.get("ok") == Some(&Value::Bool(true))
        && runs_by_steps(&worker, STEPS) == Some(all)
        && number(&worker, "executed_twice") == Some(0);
    let result = json!({
        "bench": if is_closed_loop { "p2" } else { "p1" },
        "in_flight": window,
        "rate": args.rate,
        "history": args.history,
        "up": args.up,
        "durability": durability(&args.database),
        "load": load,
        "used_per_run": used,
        "worker": worker,
        "tables": tables,
    });
    Ok((result, is_complete))
}

async fn measure_timers(
    system: &mut TemporarySystem,
    args: &BenchArgs,
) -> anyhow::Result<Measured> {
    system.start_process(SCHEDULER).await?;
    system.start_process(LOAD).await?;
    let timers = args.runs.unwrap_or(100_000);
    let mut before = Vec::new();
    if args.far > 0 {
        system.begin_measurement();
        let far = Instruction::FarTimers { timers: args.far };
        let far = system.process(LOAD)?.perform(&far).await?;
        before.push(json!({ "set": far, "used_per_timer": system.usage_per(args.far) }));
    }
    let one = Instruction::OneTimer;
    before.push(system.process(LOAD)?.perform(&one).await?);
    system.take_process(SCHEDULER)?.kill().await?;
    let ready_ms = system.start_process(SCHEDULER).await?;
    let first = system.process(LOAD)?.perform(&one).await?;
    before.push(
        json!({ "killed_with_waiting": args.far, "ready_after_ms": ready_ms, "then": first }),
    );
    system.begin_measurement();
    let near = Instruction::NearTimers {
        timers,
        over_s: args.over,
    };
    let near = system.process(LOAD)?.perform(&near).await?;
    let used = system.usage_per(timers);
    system.take_process(LOAD)?.stop().await?;
    system.take_process(SCHEDULER)?.stop().await?;
    let tables = check::count_timers(&system.tables.of(SCHEDULER)).await?;
    let is_complete = number(&near, "lost") == Some(0)
        && number(&tables, "timers_fired") == Some(timers + 2)
        && number(&tables, "timers_pending") == Some(args.far);
    let result = json!({
        "bench": "p3",
        "durability": durability(&args.database),
        "before": before,
        "near": near,
        "used_per_timer": used,
        "tables": tables,
    });
    Ok((result, is_complete))
}

async fn machine_limits(directory: &Path) -> anyhow::Result<Value> {
    let directory = directory.to_owned();
    Ok(tokio::task::spawn_blocking(move || machine::limits(&directory)).await?)
}
