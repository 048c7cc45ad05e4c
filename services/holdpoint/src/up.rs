//! `up`: everything in one process, on one data directory.

pub(crate) mod builtin_tools;
mod system;

use std::path::Path;
use std::process::ExitCode;

use holdpoint_bus::without_credentials;
use serde_json::json;

use crate::cli::{GlobalArgs, UpArgs};
use crate::connection::{Connection, ConnectionFile};
use crate::exit::ExitKind;
use crate::stop_signal::StopSignal;
use crate::{file_privacy, output};

pub(crate) use system::{OwnerToken, RunningServices, Settings, System};

/// Starts everything, prints the addresses, and runs until a signal.
pub(crate) async fn run(args: UpArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    holdpoint_telemetry::start(holdpoint_telemetry::Default::Info);
    // First, so that an early ctrl-c still stops what was started.
    let mut signal = StopSignal::listen()?;
    file_privacy::raise_file_limit();
    let data = global.data_dir();
    // Before the directory is read, because other users may have written into it.
    file_privacy::create_private_dir(&data)?;
    let settings = Settings {
        data: data.clone(),
        http: args.http,
        nats_url: args.nats_url.clone(),
        tables: args.database_url.clone(),
        test_clock: args.test_clock,
        kept_for: args.retention.kept_for,
        token: owner_token(&args, &data),
    };
    let started = tokio::select! {
        started = Box::pin(System::start(settings)) => started,
        _ = signal.received() => {
            // Nothing was promised yet, and the bus survives being killed.
            if args.nats_url.is_none() {
                holdpoint_bus::server::kill_leftover(&data);
            }
            return Ok(ExitKind::Interrupted.into());
        }
    };
    let mut system = started?;
    write_connection(&data, &system)?;
    print_addresses(&args, global, &system)?;
    let kind = run_until_stopped(&mut system, &mut signal).await;
    output::note(
        "Stopping: finishing current work, at most 10 s. Press ctrl-c again to stop at once.",
    );
    tokio::select! {
        () = system.stop() => {}
        _ = signal.received() => {
            output::note("Stopped at once. The next start continues from the tables.");
        }
    }
    Ok(kind.into())
}

/// Runs until a signal or until our NATS server is lost. Then the process ends, because its supervisor
/// restarts it and the tables have everything that the bus lost.
async fn run_until_stopped(system: &mut System, signal: &mut StopSignal) -> ExitKind {
    loop {
        tokio::select! {
            kind = signal.received() => return kind,
            () = system.bus_is_stuck() => {}
            () = system.bus_ended() => {
                output::note(
                    "error: nats-server ended unexpectedly; see nats-server.log in the data directory \
                     and start `up` again",
                );
                return ExitKind::Failed;
            }
        }
        tokio::select! {
            kind = signal.received() => return kind,
            restarted = system.restart_bus() => if let Err(error) = restarted {
                output::note(&format!(
                    "error: cannot restart nats-server: {error:#}; start `up` again"
                ));
                return ExitKind::Failed;
            }
        }
    }
}

fn print_addresses(args: &UpArgs, global: &GlobalArgs, system: &System) -> anyhow::Result<()> {
    let RunningServices {
        url,
        token,
        login,
        workspace,
        nats_url,
        ..
    } = &system.running;
    if global.json {
        let line = json!({
            "url": url, "workspace": workspace, "token": token, "nats_url": nats_url,
            "login": login,
        });
        return Ok(output::line(&line.to_string())?);
    }
    let (bus, data) = (without_credentials(nats_url), global.data_dir());
    let mut lines = vec![
        "Holdpoint is up.".to_owned(),
        format!("  url        {url}"),
        format!("  inbox      {login} (one-time link, valid for a day)"),
        format!("  workspace  {workspace}"),
        format!("  token      {token}"),
        format!("  bus        {bus} (key in cli.json)"),
        format!("  data       {}", data.display()),
    ];
    if args.test_clock {
        lines.push("  clock      test clock; move it with `holdpoint clock advance 5d`".to_owned());
    }
    let hint =
        "Open a second terminal in this directory and run `holdpoint run list`. Ctrl-c stops.";
    lines.push(hint.to_owned());
    Ok(output::line(&lines.join("\n"))?)
}

/// The token of the previous start, unless `--new-token` replaces it.
fn owner_token(args: &UpArgs, data: &Path) -> OwnerToken {
    if args.new_token {
        return OwnerToken::Replaced;
    }
    let file = ConnectionFile::read(data).unwrap_or_else(|error| {
        tracing::warn!(%error, "the token of the previous start is ignored; creating a new one");
        None
    });
    let token = file.and_then(|file| file.connection.token);
    token.map_or(OwnerToken::New, OwnerToken::Kept)
}

/// Writes addresses, token and bus key for a second terminal, readable only by this user.
fn write_connection(data: &Path, system: &System) -> anyhow::Result<()> {
    let running = &system.running;
    let file = ConnectionFile {
        connection: Connection {
            url: reachable(&running.url),
            ..running.connection()
        },
        nats_url: Some(running.nats_url.clone()),
    };
    file.write(data)
}

/// The address at which this machine reaches a listener on all interfaces.
fn reachable(url: &str) -> String {
    url.replacen("//0.0.0.0:", "//127.0.0.1:", 1)
        .replacen("//[::]:", "//[::1]:", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend A-M12: a token of the options reaches a listener on all interfaces by way of this machine.
    #[test]
    fn a_listener_on_all_interfaces_is_reached_on_this_machine() {
        for (url, reached) in [
            ("http://0.0.0.0:7878", "http://127.0.0.1:7878"),
            ("http://[::]:7878", "http://[::1]:7878"),
            ("http://10.0.0.0:7878", "http://10.0.0.0:7878"),
            ("http://127.0.0.1:1", "http://127.0.0.1:1"),
        ] {
            assert_eq!(reachable(url), reached);
        }
    }
}
