//! Asks and forces a server process to end. Signals only processes whose command line is that of
//! a server on our own data directory, or children whose end has not been seen yet.

use std::{fs, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::Child,
    time::{Instant, sleep, timeout},
};
use tracing::warn;

use super::place::Place;

/// From the polite signal to the hard one; a server with full streams closes them in well under 1 s.
const END_WAIT: Duration = Duration::from_secs(10);
/// From the hard signal until the process must be gone.
const KILL_WAIT: Duration = Duration::from_secs(5);
/// Between two looks at a process or file that is awaited.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Whether the process is alive and is a server of this place: its arguments name our ports folder.
/// A zombie has no command line.
pub(super) fn serves(pid: u32, place: &Place) -> bool {
    let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else {
        return false;
    };
    let ports_dir = place.ports_dir();
    let mut arguments = line.split(|byte| *byte == 0);
    arguments.any(|argument| argument == b"--ports_file_dir")
        && arguments.next() == Some(ports_dir.as_os_str().as_encoded_bytes())
}

/// Ends a child of this process.
pub(super) async fn end_child(pid: u32, child: &mut Child) {
    // A child whose end was already seen has given its process id back.
    if child.id().is_some() {
        signal(pid, Signal::TERM);
    }
    if timeout(END_WAIT, child.wait()).await.is_ok() {
        return;
    }
    if let Err(error) = child.kill().await {
        warn!(pid, %error, "the NATS server was not killed");
    }
}

/// Ends a server that is not our child.
pub(super) async fn end_stranger(pid: u32) {
    let before = command_line(pid);
    if before.is_empty() {
        return;
    }
    signal(pid, Signal::TERM);
    if gone(pid, &before, END_WAIT).await {
        return;
    }
    signal(pid, Signal::KILL);
    if !gone(pid, &before, KILL_WAIT).await {
        warn!(pid, "the NATS server is still there after a kill");
    }
}

/// Kills at once, if it still is a server of this place.
pub(super) fn kill_now(pid: u32, place: &Place) -> bool {
    serves(pid, place) && signal(pid, Signal::KILL)
}

fn signal(pid: u32, signal: Signal) -> bool {
    let Some(target) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return false;
    };
    match kill_process(target, signal) {
        Ok(()) => true,
        Err(error) => {
            warn!(pid, %error, "the NATS server took no signal");
            false
        }
    }
}

fn command_line(pid: u32) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

async fn gone(pid: u32, before: &[u8], within: Duration) -> bool {
    let until = Instant::now() + within;
    while Instant::now() < until {
        if command_line(pid) != before {
            return true;
        }
        sleep(LOOK_EVERY).await;
    }
    false
}
