//! A Docker engine for the length of one command. Stops only an engine that it started itself.

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

/// An engine that answers; stopped at drop when it was started here.
#[derive(Debug)]
pub(crate) struct Engine {
    started: Option<Child>,
}

/// Whether an engine answers now.
pub(crate) fn answers() -> bool {
    succeeds("docker", &["info"])
}

/// Whether this process may install packages and start daemons.
pub(crate) fn is_root() -> bool {
    metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// The engine that answers, else one that is installed (Debian) and started here. For root.
pub(crate) fn engine() -> anyhow::Result<Engine> {
    if answers() {
        return Ok(Engine { started: None });
    }
    if !is_root() {
        bail!("Docker is required, does not answer, and only root can start it: start it");
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
    while !answers() {
        if Instant::now() > end {
            bail!(
                "dockerd does not answer after {} s: see {LOG}",
                START_WAIT.as_secs()
            );
        }
        pause();
    }
    Ok(engine)
}

/// Debian packages, by root.
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
        // A polite end lets it take its containers' processes with it.
        let pid = child.id().to_string();
        succeeds("sh", &["-c", "kill -TERM \"$1\"", "sh", &pid]);
        if let Err(error) = child.wait() {
            println!("xtask: dockerd: {error}");
        }
    }
}
