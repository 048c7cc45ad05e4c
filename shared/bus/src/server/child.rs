//! A server as a child process: starts it with the port and key of its data directory, or adopts the one that a
//! killed parent left there.

use std::{fs, path::Path, process::Stdio, time::Duration};

use tokio::{
    process::{Child, Command},
    time::{Instant, sleep},
};
use tracing::warn;

use super::{
    config::Config,
    data_dir::DataDir,
    error::ServerError,
    info::{check, requires_key},
    process::{CHECK_EVERY, end_adopted, end_child, serves},
    version::ServerVersion,
};
use crate::Bus;

/// How long a new server may take until it listens: it reads its streams first.
const START_WAIT: Duration = Duration::from_secs(60);
/// How long a server to adopt may take to answer: its parent may have died just after the start.
const ADOPT_WAIT: Duration = Duration::from_secs(20);
/// Bytes before the log is rotated.
const LOG_MAX: &str = "16777216";
/// Lines of the log that an error shows.
const LOG_TAIL: usize = 5;

pub(super) struct Running {
    pub(super) child: Child,
    pub(super) pid: u32,
    pub(super) url: String,
    pub(super) version: ServerVersion,
}

/// Adopts a live server on this data directory. One that does not answer is ended, because it locks our store.
pub(super) async fn adopt(data_dir: &DataDir) -> Option<(u32, String, ServerVersion)> {
    let pid = find(data_dir)?;
    let until = Instant::now() + ADOPT_WAIT;
    while Instant::now() < until && serves(pid, data_dir) {
        if let Some((config, version)) = answering(pid, data_dir).await {
            if takes_our_key(&config).await {
                return Some((pid, config.url(), version));
            }
            break;
        }
        sleep(CHECK_EVERY).await;
    }
    warn!(
        pid,
        "the NATS server of an earlier process does not answer, or has another key; ending it"
    );
    end_adopted(pid, data_dir).await;
    None
}

/// The server's configuration and version, once it listens at that port. `None` without a configuration: an older
/// Holdpoint has started it.
async fn answering(pid: u32, data_dir: &DataDir) -> Option<(Config, ServerVersion)> {
    let port = data_dir.port_of(pid)?;
    let config = data_dir.config().filter(|config| config.port == port)?;
    let version = check(&config.url()).await.ok()?;
    Some((config, version))
}

/// Whether the server requires a key and accepts ours.
pub(super) async fn takes_our_key(config: &Config) -> bool {
    let url = config.url();
    requires_key(&url).await && Bus::connect(&url, "holdpoint").await.is_ok()
}

/// The live server on this data directory. It is searched in `/proc`: a parent that is killed before the server has
/// written its pid file would lead to two servers on one store.
pub(super) fn find(data_dir: &DataDir) -> Option<u32> {
    fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .find(|pid| serves(*pid, data_dir))
}

/// Starts `binary` and waits until it answers.
pub(super) async fn start(
    binary: &Path,
    data_dir: &DataDir,
    config: &Config,
) -> Result<Running, ServerError> {
    let failed = |why: String| ServerError::NotStarted {
        binary: binary.to_owned(),
        why,
        log: data_dir.log(),
    };
    data_dir.remove_ports();
    let mut child = command(binary, data_dir, config)
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let Some(pid) = child.id() else {
        return Err(failed("it ended at once".into()));
    };
    let until = Instant::now() + START_WAIT;
    while Instant::now() < until {
        if data_dir.port_of(pid).is_some() {
            match check(&config.url()).await {
                Ok(version) => {
                    return Ok(Running {
                        child,
                        pid,
                        url: config.url(),
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
                tail(&data_dir.log())
            )));
        }
        sleep(CHECK_EVERY).await;
    }
    end_child(pid, &mut child).await;
    Err(failed(format!(
        "it did not listen within {} s",
        START_WAIT.as_secs()
    )))
}

fn command(binary: &Path, data_dir: &DataDir, config: &Config) -> Command {
    let mut command = Command::new(binary);
    let port = config.port.to_string();
    command
        .arg("-c")
        .arg(data_dir.config_file())
        .args(["-a", "127.0.0.1", "-p", &port, "--ports_file_dir"])
        .arg(data_dir.ports_dir())
        .args(["-js", "-sd"])
        .arg(data_dir.store())
        .arg("-P")
        .arg(data_dir.pid_file())
        .arg("-l")
        .arg(data_dir.log())
        .args(["--log_size_limit", LOG_MAX])
        // Ctrl-c at the terminal reaches the group, and the server must end after us.
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
