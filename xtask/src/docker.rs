//! A Docker engine during one command. An engine that was not started here is never stopped.

use std::{
    fs::{File, metadata},
    os::unix::fs::MetadataExt as _,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use crate::shell::{command, show, succeeds};

const START_WAIT: Duration = Duration::from_secs(60);
const LOG: &str = "/tmp/holdpoint-dockerd.log";

/// An engine that responds. Dropping it stops it if it was started here.
pub(crate) struct Engine {
    started: Option<Child>,
}

pub(crate) fn responds() -> bool {
    succeeds("docker", &["info"])
}

/// Whether this process may install packages and start daemons.
pub(crate) fn is_root() -> bool {
    metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Returns the engine that responds, or starts one, and installs it if necessary (Debian, as root).
pub(crate) fn start_engine() -> anyhow::Result<Engine> {
    if responds() {
        return Ok(Engine { started: None });
    }
    if !is_root() {
        bail!("Docker is required but does not respond, and only root can start it; start it");
    }
    if !succeeds("dockerd", &["--version"]) {
        install(&["docker.io", "iptables"])?;
    }
    println!("xtask: starting dockerd, log in {LOG}");
    let log = File::create(LOG)?;
    let child = command("dockerd", &[])
        .stdout(log.try_clone()?)
        .stderr(log)
        .stdin(Stdio::null())
        .spawn()
        .context("dockerd")?;
    let engine = Engine {
        started: Some(child),
    };
    let end = Instant::now() + START_WAIT;
    while !responds() {
        if Instant::now() > end {
            bail!(
                "dockerd does not respond after {} s; see {LOG}",
                START_WAIT.as_secs()
            );
        }
        pause();
    }
    Ok(engine)
}

/// Installs Debian packages, as root.
pub(crate) fn install(packages: &[&str]) -> anyhow::Result<()> {
    println!("xtask: apt-get install {}", packages.join(" "));
    show(command("apt-get", &["update", "-q"]).stdout(Stdio::null()))?;
    let fixed = ["install", "-y", "-q", "--no-install-recommends"];
    let arguments: Vec<&str> = fixed.iter().chain(packages).copied().collect();
    show(
        command("apt-get", &arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdout(Stdio::null()),
    )
}

#[expect(
    clippy::disallowed_methods,
    reason = "no runtime here; waits for a daemon"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(200));
}

impl Drop for Engine {
    fn drop(&mut self) {
        let Some(mut child) = self.started.take() else {
            return;
        };
        // SIGTERM lets it end the processes of its containers.
        let pid = child.id().to_string();
        succeeds("sh", &["-c", "kill -TERM \"$1\"", "sh", &pid]);
        if let Err(error) = child.wait() {
            println!("xtask: dockerd: {error}");
        }
    }
}
