//! `worker`: a node of its own, with tools that need no Rust, or with the built-in ones.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_ids::NodeName;
use holdpoint_worker::targets::EgressPolicy;
use holdpoint_worker::tools::http_request::{DEFAULT_TIMEOUT, HttpRequest};
use holdpoint_worker::tools_file::ToolsFile;
use holdpoint_worker::worker::{Worker, WorkerOptions};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli::{GlobalArgs, WorkerArgs};
use crate::connection::{FILE_NAME, Left};
use crate::exit::{Outcome, Usage};
use crate::parsers::read_text;
use crate::up::builtin_tools;
use crate::{file_privacy, output};

/// Works until it is told to stop, then finishes what it has begun and says deregistration.
pub(crate) async fn run(args: WorkerArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    holdpoint_telemetry::start(holdpoint_telemetry::Default::Info);
    file_privacy::raise_file_limit();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let allowed = std::env::var("HOLDPOINT_ALLOW_PRIVATE_TARGETS").ok();
    let targets = EgressPolicy::of_serve(allowed.as_deref());
    let (nats_url, url) = addresses(&args, global)?;
    let bus = args.nats.connect(&nats_url, "worker", None).await?;
    let (node, worker) = match &args.tools {
        Some(file) => of_file(bus, targets, (file, url.as_deref()))?,
        None => {
            let node = builtin_tools::node()?;
            let clock = Clock::system();
            let worker = builtin_tools::worker(bus, clock, node.clone(), targets, &args.mails)?;
            (node, worker)
        }
    };
    output::line(&json!({ "node": node, "ready": true }).to_string())?;
    let stop = CancellationToken::new();
    let working = worker.run(stop.clone());
    tokio::pin!(working);
    let outcome = tokio::select! {
        ended = &mut working => {
            ended?;
            return Ok(Outcome::Ok.into());
        }
        _ = interrupt.recv() => Outcome::Interrupted,
        _ = terminate.recv() => Outcome::Ok,
    };
    output::note("stopping: finishing the steps that run, at most 8 s");
    stop.cancel();
    working.await?;
    Ok(outcome.into())
}

/// The bus, and the address of the API where it is known: as they were given, else as `up` left them.
fn addresses(args: &WorkerArgs, global: &GlobalArgs) -> anyhow::Result<(String, Option<String>)> {
    let typed = global.url.clone();
    if let Some(nats_url) = &args.nats_url {
        return Ok((nats_url.clone(), typed));
    }
    let left = Left::read(&global.data_dir())?;
    let Some((left, nats_url)) = left.and_then(|left| Some((left.connection, left.nats_url?)))
    else {
        anyhow::bail!(Usage(format!(
            "no bus: {} is not there. Run this in the folder of `holdpoint up`, or give --data DIR, \
             HOLDPOINT_NATS_URL or --nats-url",
            global.data_dir().join(FILE_NAME).display()
        )));
    };
    Ok((nats_url, typed.or(Some(left.url))))
}

fn of_file(
    bus: Bus,
    targets: EgressPolicy,
    (path, url): (&Path, Option<&str>),
) -> anyhow::Result<(NodeName, Worker)> {
    let text = read_text(path)?;
    let http = HttpRequest::new(targets, DEFAULT_TIMEOUT)?;
    let file = ToolsFile::read(&text, &http, url)
        .map_err(|error| Usage(error.to_string()))
        .with_context(|| path.display().to_string())?;
    let options = WorkerOptions::new(file.node.clone());
    let worker = file
        .tools
        .into_iter()
        .fold(Worker::new(bus, options), Worker::tool);
    Ok((file.node, worker))
}
