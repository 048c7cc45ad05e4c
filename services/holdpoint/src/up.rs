//! `up`: everything in one process, on one folder.

pub(crate) mod builtin_tools;
mod system;

use std::path::Path;
use std::process::ExitCode;

use holdpoint_bus::without_credentials;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::UpArgs;
use crate::connection::{Connection, Left};
use crate::exit::Outcome;
use crate::{file_privacy, output};

pub(crate) use system::{OwnerToken, Settings, System};

/// Starts everything, says where it is, and runs until it is told to stop.
pub(crate) async fn run(args: UpArgs) -> anyhow::Result<ExitCode> {
    holdpoint_telemetry::start(holdpoint_telemetry::Default::Info);
    // Before anything is started, so that an early ctrl-c still stops what was.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    file_privacy::raise_file_limit();
    // Closed to others before anything in it is believed.
    file_privacy::make_folder(&args.data)?;
    let settings = Settings {
        data: args.data.clone(),
        http: args.http,
        nats_url: args.nats_url.clone(),
        tables: args.database_url.clone(),
        test_clock: args.test_clock,
        token: owner_token(&args),
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
    let bus = without_credentials(nats_url);
    output::line(&format!("  bus        {bus} (its key: cli.json)"))?;
    output::line(&format!("  data       {}", args.data.display()))?;
    if args.test_clock {
        output::line("  clock      stands still; `holdpoint clock advance 5d` moves it")?;
    }
    output::line("In a second terminal, from this folder: `holdpoint run list`. Ctrl-c stops.")?;
    Ok(())
}

/// The token that an earlier start on this folder has left, unless it is to be replaced.
fn owner_token(args: &UpArgs) -> OwnerToken {
    if args.new_token {
        return OwnerToken::Replaced;
    }
    let left = Left::read(&args.data).unwrap_or_else(|error| {
        tracing::warn!(%error, "the token of the start before is not used; there will be a new one");
        None
    });
    let kept = left.and_then(|left| left.connection.token);
    kept.map_or(OwnerToken::New, OwnerToken::Kept)
}

/// Leaves addresses, token and key where a second terminal finds them, readable by this user alone.
fn leave_connection(data: &Path, system: &System) -> anyhow::Result<()> {
    let left = Left {
        connection: Connection {
            url: reachable(&system.url),
            token: Some(system.token.clone()),
            workspace: system.workspace.to_string(),
        },
        nats_url: Some(system.nats_url.clone()),
    };
    left.write(data)
}

/// The address at which this machine reaches a listener on all of its addresses.
fn reachable(url: &str) -> String {
    url.replacen("//0.0.0.0:", "//127.0.0.1:", 1)
        .replacen("//[::]:", "//[::1]:", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend A-M12: a token that is typed goes to a listener on all addresses by way of this machine.
    #[test]
    fn a_listener_on_all_addresses_is_reached_on_this_machine() {
        for (url, left) in [
            ("http://0.0.0.0:7878", "http://127.0.0.1:7878"),
            ("http://[::]:7878", "http://[::1]:7878"),
            ("http://10.0.0.0:7878", "http://10.0.0.0:7878"),
            ("http://127.0.0.1:1", "http://127.0.0.1:1"),
        ] {
            assert_eq!(reachable(url), left);
        }
    }
}
