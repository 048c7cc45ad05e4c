//! `up`: everything in one process, on one folder.

mod system;
pub(crate) mod tools;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::UpArgs;
use crate::connection::{Connection, FILE_NAME};
use crate::exit::Outcome;
use crate::output;

pub(crate) use system::{Settings, System};

/// Starts everything, says where it is, and runs until it is told to stop.
pub(crate) async fn run(args: UpArgs) -> anyhow::Result<ExitCode> {
    holdpoint_telemetry::start(holdpoint_telemetry::Default::Info);
    // Before anything is started, so that an early ctrl-c still stops what was.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let settings = Settings {
        data: args.data.clone(),
        http: args.http,
        nats_url: args.nats_url.clone(),
        tables: args.database_url.clone(),
        test_clock: args.test_clock,
    };
    let started = tokio::select! {
        started = Box::pin(System::start(settings)) => started,
        _ = interrupt.recv() => return Ok(given_up(&args)),
        _ = terminate.recv() => return Ok(given_up(&args)),
    };
    let mut system = started?;
    leave_connection(&args.data, &system)?;
    greet(&args, &system)?;
    let outcome = loop {
        tokio::select! {
            _ = interrupt.recv() => break Outcome::Interrupted,
            _ = terminate.recv() => break Outcome::Ok,
            () = system.bus_is_stuck() => {
                let anew = tokio::select! {
                    anew = system.start_bus_anew() => anew,
                    _ = interrupt.recv() => break Outcome::Interrupted,
                    _ = terminate.recv() => break Outcome::Ok,
                };
                if let Err(error) = anew {
                    output::note(&format!("error: our nats-server could not be started anew: {error:#}; start `up` again"));
                    break Outcome::Failed;
                }
            }
            () = system.bus_ended() => {
                // Nothing is lost: what was not on the bus is in the tables. Whoever watches this
                // process starts it again.
                output::note("error: our nats-server has ended by itself; see nats-server.log in the data folder, and start `up` again");
                break Outcome::Failed;
            }
        }
    };
    output::note("stopping: finishing what is at work, at most 10 s (again to stop at once)");
    tokio::select! {
        () = system.stop() => {}
        _ = interrupt.recv() => output::note("stopped at once; the next start goes on from the tables"),
        _ = terminate.recv() => {}
    }
    Ok(outcome.into())
}

/// Stopped while starting: nothing was promised yet, and the bus survives being killed.
fn given_up(args: &UpArgs) -> ExitCode {
    if args.nats_url.is_none() {
        holdpoint_bus::server::kill_leftover(&args.data);
    }
    Outcome::Interrupted.into()
}

fn greet(args: &UpArgs, system: &System) -> anyhow::Result<()> {
    let System {
        url,
        token,
        login,
        workspace,
        nats_url,
        ..
    } = system;
    if args.json {
        let line = json!({
            "url": url, "workspace": workspace, "token": token, "nats_url": nats_url,
            "login": login,
        });
        output::line(&line.to_string())?;
        return Ok(());
    }
    output::line("Holdpoint is up.")?;
    output::line(&format!("  url        {url}"))?;
    output::line(&format!("  inbox      {login} (opens once, within a day)"))?;
    output::line(&format!("  workspace  {workspace}"))?;
    output::line(&format!("  token      {token}"))?;
    output::line(&format!("  bus        {nats_url}"))?;
    output::line(&format!("  data       {}", args.data.display()))?;
    if args.test_clock {
        output::line("  clock      stands still; `holdpoint clock advance 5d` moves it")?;
    }
    output::line("In a second terminal, from this folder: `holdpoint run list`. Ctrl-c stops.")?;
    Ok(())
}

/// Leaves address and token where a second terminal finds them, readable by this user alone.
fn leave_connection(data: &Path, system: &System) -> anyhow::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;

    let connection = Connection {
        url: system.url.clone(),
        token: Some(system.token.clone()),
        workspace: system.workspace.to_string(),
    };
    let path = data.join(FILE_NAME);
    let beside = data.join(format!("{FILE_NAME}.new"));
    let write = || -> std::io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&beside)?;
        serde_json::to_writer(&mut file, &connection)?;
        file.flush()?;
        std::fs::rename(&beside, &path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
