//! A NATS server that a test stops and starts again, and that has limits of its own.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use holdpoint_bus::server;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::until;

/// Longest time until it answers.
const START_WAIT: Duration = Duration::from_secs(20);

/// A server as a process of this machine, on one port and one store however often it is started.
/// Gone at drop.
#[derive(Debug)]
pub struct NatsProcess {
    /// What clients connect to.
    pub url: String,
    program: PathBuf,
    child: Option<Child>,
    dir: TempDir,
}

impl NatsProcess {
    /// Starts one; `limits` are lines within the `jetstream` block of its configuration, such as
    /// `max_file_store: 1MB`.
    ///
    /// # Errors
    /// When there is no `nats-server`, or it does not come up.
    pub async fn start(limits: &str) -> anyhow::Result<Self> {
        Self::configured(limits, "").await
    }

    /// Starts a server that takes no message larger than this.
    ///
    /// # Errors
    /// As [`NatsProcess::start`].
    pub async fn taking_at_most(bytes: usize) -> anyhow::Result<Self> {
        Self::configured("", &format!("max_payload: {bytes}\n")).await
    }

    /// Starts a server with this configuration, on a port and a store of its own instead of
    /// `0.0.0.0:4222` and `/data`.
    pub(crate) async fn with_config(config: &str) -> anyhow::Result<Self> {
        let make = |port: u16, store: &Path| {
            let store = format!("store_dir: \"{}\"", store.display());
            config
                .replace("0.0.0.0:4222", &format!("127.0.0.1:{port}"))
                .replace("store_dir: \"/data\"", &store)
        };
        Self::of(make).await
    }

    async fn configured(limits: &str, settings: &str) -> anyhow::Result<Self> {
        let make = |port: u16, store: &Path| {
            format!(
                "listen: 127.0.0.1:{port}\n{settings}jetstream {{\n store_dir: \"{}\"\n {limits}\n}}\n",
                store.display()
            )
        };
        Self::of(make).await
    }

    async fn of(config: impl Fn(u16, &Path) -> String) -> anyhow::Result<Self> {
        let program = server::program().await?;
        let dir = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let config = config(port, &dir.path().join("store"));
        std::fs::write(dir.path().join("nats.conf"), config)?;
        let mut process = Self {
            url: format!("nats://127.0.0.1:{port}"),
            program,
            child: None,
            dir,
        };
        process.go_on().await?;
        Ok(process)
    }

    /// Kills it: what clients send is lost from here on.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        child.kill().await.context("the server cannot be killed")
    }

    /// Starts it again where it was, with what it had stored.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn go_on(&mut self) -> anyhow::Result<()> {
        let child = Command::new(&self.program)
            .arg("-c")
            .arg(self.dir.path().join("nats.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        self.child = Some(child);
        let answers = async || server::check(&self.url).await.ok();
        until(START_WAIT, "the NATS server to answer", answers).await?;
        Ok(())
    }
}
