//! `bench`: measures a temporary system of separate processes, and checks that nothing was lost.
//!
//! One JSON line a result. What the shapes are, and what came out where: `docs/performance.md`.

mod check;
mod child;
mod instruction;
mod load;
mod machine;
mod temporary_system;
mod worker;

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use self::instruction::Order;
use self::temporary_system::Rig;
use crate::cli::{BenchArgs, Shape};
use crate::exit::Outcome;
use crate::output;

pub(crate) use load::run as load;
pub(crate) use worker::run as worker;

/// The tool of the measured steps; it does nothing.
const TOOL: &str = "bench_noop";

/// Steps of a measured run.
const STEPS: usize = 3;

/// Runs before those that are measured.
const WARM: u64 = 500;

const LOAD: &str = "bench-load";
const WORKER: &str = "bench-worker";
const SCHEDULER: &str = "scheduler";

/// Measures one shape. Fails when anything was lost or done twice.
pub(crate) async fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    holdpoint_telemetry::start(holdpoint_telemetry::Default::Warn);
    let mut rig = Rig::new(&args.database, args.keep).await?;
    let before = limits(&rig.folder).await?;
    let measured = match args.shape {
        Shape::P1 | Shape::P2 => runs(&mut rig, &args).await,
        Shape::P3 => timers(&mut rig, &args).await,
    };
    let after = limits(&rig.folder).await;
    let nats = rig.nats_version();
    let folder = rig.folder.clone();
    rig.end().await?;
    let Measured {
        mut result,
        is_whole,
    } = measured?;
    if let Value::Object(result) = &mut result {
        let versions = json!({ "holdpoint": env!("CARGO_PKG_VERSION"), "nats_server": nats });
        result.insert("limits_before".to_owned(), before);
        result.insert("limits_after".to_owned(), after?);
        result.insert("versions".to_owned(), versions);
        if args.keep {
            result.insert("folder".to_owned(), json!(folder));
        }
    }
    output::line(&result.to_string())?;
    if !is_whole {
        output::note("error: something was lost or done twice, see `tables` and `worker`");
        return Ok(Outcome::Failed.into());
    }
    Ok(Outcome::Ok.into())
}

/// What came out, and whether everything is there.
struct Measured {
    result: Value,
    is_whole: bool,
}

async fn runs(rig: &mut Rig, args: &BenchArgs) -> anyhow::Result<Measured> {
    for name in [SCHEDULER, "executor", WORKER, LOAD] {
        rig.start(name).await?;
    }
    let warm = rig.part(LOAD)?.order(&Order::Warm { runs: WARM }).await?;
    let is_closed_loop = args.shape == Shape::P2;
    let (runs, window) = if is_closed_loop {
        (2_000, 1)
    } else {
        (20_000, 1_000)
    };
    let runs = args.runs.unwrap_or(runs);
    let window = args.in_flight.unwrap_or(window);
    if runs == 0 || window == 0 {
        bail!(crate::exit::Usage(
            "--runs and --in-flight are at least 1".to_owned()
        ));
    }
    let order = Order::Runs {
        runs,
        window,
        is_closed_loop,
        rate: args.rate,
    };
    rig.begin();
    let load = rig.part(LOAD)?.order(&order).await?;
    let used = rig.used(runs);
    rig.take(LOAD)?.stop().await?;
    let worker = rig.take(WORKER)?.finish().await?;
    rig.take("executor")?.stop().await?;
    let last_seq = warm.get("last_seq").and_then(Value::as_u64).unwrap_or(0);
    let tables = check::runs(&rig.tables.of("executor"), runs + WARM, last_seq).await?;
    let count = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64);
    let is_whole = tables.get("ok") == Some(&Value::Bool(true))
        && count(&worker, "runs_with_each_step_once") == Some(runs + WARM)
        && count(&worker, "executed_twice") == Some(0);
    let result = json!({
        "bench": if is_closed_loop { "p2" } else { "p1" },
        "in_flight": window,
        "rate": args.rate,
        "durability": durability(&args.database),
        "load": load,
        "used_per_run": used,
        "worker": worker,
        "tables": tables,
    });
    Ok(Measured { result, is_whole })
}

async fn timers(rig: &mut Rig, args: &BenchArgs) -> anyhow::Result<Measured> {
    rig.start(SCHEDULER).await?;
    rig.start(LOAD).await?;
    let timers = args.runs.unwrap_or(100_000);
    let mut told = Vec::new();
    if args.far > 0 {
        rig.begin();
        let far = rig
            .part(LOAD)?
            .order(&Order::Far { timers: args.far })
            .await?;
        told.push(json!({ "set": far, "used_per_timer": rig.used(args.far) }));
    }
    told.push(rig.part(LOAD)?.order(&Order::One).await?);
    rig.take(SCHEDULER)?.kill().await?;
    let ready_ms = rig.start(SCHEDULER).await?;
    let first = rig.part(LOAD)?.order(&Order::One).await?;
    told.push(
        json!({ "killed_with_waiting": args.far, "ready_after_ms": ready_ms, "then": first }),
    );
    rig.begin();
    let order = Order::Near {
        timers,
        over_s: args.over,
    };
    let near = rig.part(LOAD)?.order(&order).await?;
    let used = rig.used(timers);
    rig.take(LOAD)?.stop().await?;
    rig.take(SCHEDULER)?.stop().await?;
    let tables = check::timers(&rig.tables.of(SCHEDULER)).await?;
    let count = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64);
    let is_whole = count(&near, "lost") == Some(0)
        && count(&tables, "timers_fired") == Some(timers + 2)
        && count(&tables, "timers_pending") == Some(args.far);
    let result = json!({
        "bench": "p3",
        "durability": durability(&args.database),
        "before": told,
        "near": near,
        "used_per_timer": used,
        "tables": tables,
    });
    Ok(Measured { result, is_whole })
}

fn durability(database: &str) -> &'static str {
    if database == "sqlite" {
        "SQLite WAL, synchronous=FULL: a committed step survives a power cut; JetStream file storage without a sync per message"
    } else {
        "Postgres with its own synchronous_commit; JetStream file storage without a sync per message"
    }
}

async fn limits(folder: &Path) -> anyhow::Result<Value> {
    let folder = folder.to_owned();
    Ok(tokio::task::spawn_blocking(move || machine::limits(&folder)).await?)
}
