//! `worker`: a separate node, with the tools of a file or the built-in tools.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use holdpoint_clock::Clock;
use holdpoint_ids::{NodeName, RunId};
use holdpoint_worker::suspension::sandbox::Sandboxes;
use holdpoint_worker::targets::EgressPolicy;
use holdpoint_worker::tools::http_request::{DEFAULT_TIMEOUT, HttpRequest};
use holdpoint_worker::tools_file::ToolsFile;
use holdpoint_worker::worker::{Worker, WorkerOptions, new_node_name};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::cli::GlobalArgs;
use crate::cli::processes::WorkerArgs;
use crate::connection::{ConnectionFile, FILE_NAME};
use crate::exit::{ExitKind, Usage};
use crate::parsers::read_text;
use crate::stop_signal::StopSignal;
use crate::up::builtin_tools;
use crate::{file_privacy, output};

/// Works until a signal, then finishes the running steps and deregisters the node.
pub(crate) async fn run(args: WorkerArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    if let Some(run) = args.remove_sandbox {
        return remove_sandbox(&args.sandboxes, run);
    }
    holdpoint_telemetry::start(holdpoint_telemetry::Default::Info);
    file_privacy::raise_file_limit();
    let mut signal = StopSignal::listen()?;
    let targets = builtin_tools::production_egress();
    let (nats_url, url) = addresses(&args, global)?;
    let bus = args.nats.connect(&nats_url, "worker", None).await?;
    let (node, worker) = if let Some(file) = &args.tools {
        let worker = |options: WorkerOptions| {
            let sandboxes = args.sandboxes.clone();
            Worker::new(
                bus,
                WorkerOptions {
                    sandboxes,
                    ..options
                },
            )
        };
        worker_of_file(worker, targets, file, url.as_deref())?
    } else {
        let (node, clock) = (new_node_name("builtin")?, Clock::system());
        let worker = builtin_tools::worker(bus, clock, node.clone(), targets, &args.mails)?;
        (node, worker)
    };
    output::line(&json!({ "node": node, "ready": true }).to_string())?;
    let stop = CancellationToken::new();
    let working = worker.run(stop.clone());
    tokio::pin!(working);
    let kind = tokio::select! {
        ended = &mut working => {
            ended?;
            return Ok(ExitKind::Ok.into());
        }
        kind = signal.received() => kind,
    };
    output::note("Stopping: finishing the running steps, at most 8 s.");
    stop.cancel();
    working.await?;
    Ok(kind.into())
}

/// Removes the sandboxes of a run on this machine. A step of the run that works in one loses its files.
fn remove_sandbox(root: &Path, run: RunId) -> anyhow::Result<ExitCode> {
    let sandboxes = Sandboxes::new(root.to_owned(), new_node_name("remover")?);
    let in_root = || root.display().to_string();
    if sandboxes.remove_run(run).with_context(in_root)? {
        output::line(&format!("Removed the sandboxes of {run}."))?;
        Ok(ExitKind::Ok.into())
    } else {
        output::note(&format!("No sandbox of {run} in {}.", root.display()));
        Ok(ExitKind::NotFound.into())
    }
}

/// Addresses of the bus and, if known, of the API: from the options, else from the file of `up`.
fn addresses(args: &WorkerArgs, global: &GlobalArgs) -> anyhow::Result<(String, Option<String>)> {
    let url = global.url.clone();
    if let Some(nats_url) = &args.nats_url {
        return Ok((nats_url.clone(), url));
    }
    let file = ConnectionFile::read(&global.data_dir())?;
    let found = file.and_then(|file| Some((file.connection, file.nats_url?)));
    let Some((connection, nats_url)) = found else {
        anyhow::bail!(Usage(format!(
            "no bus: {} is missing; run this command in the directory of `holdpoint up`, or give \
             --data DIR, --nats-url or HOLDPOINT_NATS_URL",
            global.data_dir().join(FILE_NAME).display()
        )));
    };
    Ok((nats_url, url.or(Some(connection.url))))
}

fn worker_of_file(
    worker: impl FnOnce(WorkerOptions) -> Worker,
    targets: EgressPolicy,
    path: &Path,
    url: Option<&str>,
) -> anyhow::Result<(NodeName, Worker)> {
    let text = read_text(path)?;
    let http = HttpRequest::new(targets, DEFAULT_TIMEOUT)?;
    let file = ToolsFile::read(&text, &http, url)
        .map_err(|error| Usage(error.to_string()))
        .with_context(|| path.display().to_string())?;
    let worker = worker(WorkerOptions::new(file.node.clone()));
    let worker = file.tools.into_iter().fold(worker, Worker::tool);
    Ok((file.node, worker))
}
