//! A NATS server with limits that a test stops and restarts.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use holdpoint_bus::server;
use tokio::process::{Child, Command};

use crate::{TestFolder, until};

/// Longest time until it answers.
const START_WAIT: Duration = Duration::from_secs(20);

/// A local server process, with the same port and store after each restart. It ends at drop.
#[derive(Debug)]
pub struct NatsProcess {
    pub url: String,
    program: PathBuf,
    child: Option<Child>,
    folder: TestFolder,
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

    /// Starts a server with this configuration, whose `0.0.0.0:4222` and `/data` are replaced.
    pub(crate) async fn with_config(config: &str) -> anyhow::Result<Self> {
        let make = |port: u16, store: &Path| {
            let store = format!("store_dir: \"{}\"", store.display());
            config
                .replace("0.0.0.0:4222", &format!("127.0.0.1:{port}"))
                .replace("store_dir: \"/data\"", &store)
        };
        Self::start_with(make).await
    }

    async fn configured(limits: &str, settings: &str) -> anyhow::Result<Self> {
        let make = |port: u16, store: &Path| {
            format!(
                "listen: 127.0.0.1:{port}\n{settings}jetstream {{\n store_dir: \"{}\"\n {limits}\n}}\n",
                store.display()
            )
        };
        Self::start_with(make).await
    }

    async fn start_with(config: impl Fn(u16, &Path) -> String) -> anyhow::Result<Self> {
        let program = server::program().await?;
        let folder = TestFolder::create()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let config = config(port, &folder.path().join("store"));
        std::fs::write(folder.path().join("nats.conf"), config)?;
        let mut process = Self {
            url: format!("nats://127.0.0.1:{port}"),
            program,
            child: None,
            folder,
        };
        process.go_on().await?;
        Ok(process)
    }

    #[cfg(test)]
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills it; later messages of clients are lost.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        child.kill().await.context("the server cannot be killed")
    }

    /// Restarts it with the same address and store.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn go_on(&mut self) -> anyhow::Result<()> {
        let child = Command::new(&self.program)
            .arg("-c")
            .arg(self.folder.path().join("nats.conf"))
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
