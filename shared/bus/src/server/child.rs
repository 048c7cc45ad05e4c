//! A server as a child process: starts it on a port the system chooses, or takes back the one
//! that a killed parent left on the same data directory.

use std::{fs, path::Path, process::Stdio, time::Duration};

use tokio::{
    process::{Child, Command},
    time::{Instant, sleep},
};
use tracing::warn;

use super::{
    ServerError, ServerVersion, check,
    place::Place,
    process::{LOOK_EVERY, end_child, end_stranger, serves},
};

/// Until a new server listens: it reads its streams first.
const START_WAIT: Duration = Duration::from_secs(60);
/// Until a found one must have answered; it may have been started a moment before its parent died.
const ADOPT_WAIT: Duration = Duration::from_secs(20);
/// Bytes before the log is turned over.
const LOG_MAX: &str = "16777216";
/// Lines of the log that an error shows.
const LOG_TAIL: usize = 5;

/// A started server that answers.
pub(super) struct Running {
    pub(super) child: Child,
    pub(super) pid: u32,
    pub(super) url: String,
    pub(super) version: ServerVersion,
}

/// Takes back a live server on this place. One that does not answer is ended: it holds our store.
pub(super) async fn adopt(place: &Place) -> Option<(u32, String, ServerVersion)> {
    let pid = find(place)?;
    let until = Instant::now() + ADOPT_WAIT;
    while Instant::now() < until && serves(pid, place) {
        if let Some(url) = place.url_of(pid)
            && let Ok(version) = check(&url).await
        {
            return Some((pid, url, version));
        }
        sleep(LOOK_EVERY).await;
    }
    warn!(
        pid,
        "the NATS server of an earlier process does not answer; ending it"
    );
    end_stranger(pid).await;
    None
}

/// The live server on this place. Looks through `/proc`, not at the pid file: a parent killed
/// between start and pid file would lead to two servers on one store.
pub(super) fn find(place: &Place) -> Option<u32> {
    fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .find(|pid| serves(*pid, place))
}

/// Starts `binary` and waits until it answers: on `port`, or on one that the system chooses.
pub(super) async fn start(
    binary: &Path,
    place: &Place,
    port: Option<u16>,
) -> Result<Running, ServerError> {
    let failed = |why: String| ServerError::NotStarted {
        binary: binary.to_owned(),
        why,
        log: place.log(),
    };
    place.forget_ports();
    let mut child = command(binary, place, port)
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let Some(pid) = child.id() else {
        return Err(failed("it ended at once".into()));
    };
    let until = Instant::now() + START_WAIT;
    while Instant::now() < until {
        if let Some(url) = place.url_of(pid) {
            match check(&url).await {
                Ok(version) => {
                    return Ok(Running {
                        child,
                        pid,
                        url,
                        version,
                    });
                }
                Err(ServerError::Unreachable { .. }) => {}
                Err(error) => {
                    end_child(pid, &mut child).await;
                    return Err(error);
                }
            }
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(failed(format!(
                "it ended with {status}{}",
                tail(&place.log())
            )));
        }
        sleep(LOOK_EVERY).await;
    }
    end_child(pid, &mut child).await;
    Err(failed(format!(
        "it did not listen within {} s",
        START_WAIT.as_secs()
    )))
}

fn command(binary: &Path, place: &Place, port: Option<u16>) -> Command {
    let mut command = Command::new(binary);
    let port = port.map_or_else(|| "-1".to_owned(), |port| port.to_string());
    command
        .args(["-a", "127.0.0.1", "-p", &port, "--ports_file_dir"])
        .arg(place.ports_dir())
        .args(["-js", "-sd"])
        .arg(place.store())
        .arg("-P")
        .arg(place.pid_file())
        .arg("-l")
        .arg(place.log())
        .args(["--log_size_limit", LOG_MAX])
        // Ctrl-c at the terminal reaches the group: the server must outlive our own stopping.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(LOG_TAIL).collect();
    lines
        .iter()
        .rev()
        .fold(String::new(), |all, line| format!("{all}\n    {line}"))
}
