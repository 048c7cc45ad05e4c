//! Ends server processes. Signals only servers on our data directory, by their command line, and live children.

use std::{fs, io, os::unix::fs::MetadataExt as _, time::Duration};

use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process},
};
use tokio::{
    process::Child,
    time::{Instant, sleep, timeout},
};
use tracing::warn;

use super::data_dir::DataDir;

/// Time between SIGTERM and SIGKILL. A server with full streams closes them in well under 1 s.
const END_WAIT: Duration = Duration::from_secs(10);
/// Time between SIGKILL and the end of the process.
const KILL_WAIT: Duration = Duration::from_secs(5);
/// Time between two checks of a process or file.
pub(super) const CHECK_EVERY: Duration = Duration::from_millis(20);

/// Whether the process is alive, is ours and is a server of this data directory. A zombie has no command line, and
/// another user's process could name our directory, too.
pub(super) fn serves(pid: u32, data_dir: &DataDir) -> bool {
    let user = fs::metadata(format!("/proc/{pid}")).map(|about| about.uid());
    user.is_ok_and(|user| user == rustix::process::geteuid().as_raw())
        && fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| names(&line, data_dir))
}

/// Whether the arguments of a process name our ports folder.
fn names(line: &[u8], data_dir: &DataDir) -> bool {
    let ports_dir = data_dir.ports_dir();
    let mut arguments = line.split(|byte| *byte == 0);
    arguments.any(|argument| argument == b"--ports_file_dir")
        && arguments.next() == Some(ports_dir.as_os_str().as_encoded_bytes())
}

/// Whether the server with this process id is certainly gone.
pub(super) fn has_ended(pid: u32, data_dir: &DataDir) -> bool {
    is_ended(&fs::read(format!("/proc/{pid}/cmdline")), data_dir)
}

/// Another error says nothing about the server: this process may be out of file descriptors.
fn is_ended(line: &io::Result<Vec<u8>>, data_dir: &DataDir) -> bool {
    match line {
        Ok(line) => !names(line, data_dir),
        Err(error) => {
            error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
        }
    }
}

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

/// Ends a server of this data directory that is not our child.
pub(super) async fn end_adopted(pid: u32, data_dir: &DataDir) {
    let before = command_line(pid);
    if !names(&before, data_dir) {
        return;
    }
    signal(pid, Signal::TERM);
    if gone(pid, &before, END_WAIT).await {
        return;
    }
    signal(pid, Signal::KILL);
    if !gone(pid, &before, KILL_WAIT).await {
        warn!(pid, "the NATS server has not ended after SIGKILL");
    }
}

/// Kills at once, if it still is a server of this data directory.
pub(super) fn kill_now(pid: u32, data_dir: &DataDir) -> bool {
    serves(pid, data_dir) && signal(pid, Signal::KILL)
}

fn signal(pid: u32, signal: Signal) -> bool {
    let Some(target) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return false;
    };
    match kill_process(target, signal) {
        Ok(()) => true,
        Err(error) => {
            warn!(pid, %error, "the NATS server was not signalled");
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
        sleep(CHECK_EVERY).await;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend A-H8: a process that is out of file descriptors does not consider its server as ended.
    #[test]
    fn only_a_process_that_is_gone_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(dir.path()).unwrap();
        let ours = format!(
            "nats-server\0--ports_file_dir\0{}\0",
            data_dir.ports_dir().display()
        );
        let failed = |errno: Errno| Err(io::Error::from_raw_os_error(errno.raw_os_error()));
        for (line, has_ended) in [
            (Ok(ours.into_bytes()), false),
            (failed(Errno::MFILE), false),
            (failed(Errno::NFILE), false),
            (failed(Errno::NOMEM), false),
            (failed(Errno::ACCESS), false),
            (failed(Errno::NOENT), true),
            (failed(Errno::SRCH), true),
            // A zombie; another process under the same id.
            (Ok(Vec::new()), true),
            (Ok(b"sleep\0inf\0".to_vec()), true),
        ] {
            assert_eq!(is_ended(&line, &data_dir), has_ended, "{line:?}");
        }
    }
}
