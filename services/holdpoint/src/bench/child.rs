//! A process that belongs to a measurement: it says one JSON line when ready and one for each order.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::instruction::Order;
use super::machine::Used;

/// Longest time until a process is ready, or has ended.
const SOON: Duration = Duration::from_secs(30);

/// Longest time for one order.
const ORDER_WITHIN: Duration = Duration::from_secs(1_800);

/// A child of this process; it ends with it.
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) pid: u32,
    /// What it had used when the measurement began.
    pub(super) before: Used,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Part {
    /// Starts this very program with other words, and waits until it is ready. Its log goes to a
    /// file of its name in `folder`.
    pub(super) async fn start(
        name: &'static str,
        words: &[String],
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(folder.join(format!("{name}.log")))?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let stdout = child.stdout.take().context("no stdout")?;
        let mut part = Self {
            name,
            pid: child.id().context("it ended at once")?,
            before: Used::default(),
            stdin: child.stdin.take(),
            lines: BufReader::new(stdout).lines(),
            child,
        };
        part.line(SOON).await?;
        Ok(part)
    }

    async fn line(&mut self, within: Duration) -> anyhow::Result<Value> {
        let line = timeout(within, self.lines.next_line()).await;
        let line = line.with_context(|| format!("{} says nothing", self.name))??;
        let Some(line) = line else {
            bail!("{} has ended; its log says why", self.name);
        };
        Ok(serde_json::from_str(&line)?)
    }

    /// Has it do something, and waits for what came of it.
    pub(super) async fn order(&mut self, order: &Order) -> anyhow::Result<Value> {
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        let stdin = self.stdin.as_mut().context("it takes no orders")?;
        stdin.write_all(line.as_bytes()).await?;
        self.line(ORDER_WITHIN).await
    }

    /// Tells it that no more orders come, and hears its last word.
    pub(super) async fn finish(mut self) -> anyhow::Result<Value> {
        self.stdin = None;
        self.line(SOON).await
    }

    /// Kills it at once, as a power cut would.
    pub(super) async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Asks it to end, and waits.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.stdin = None;
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        kill_process(pid.context("no process")?, Signal::TERM)?;
        let ended = timeout(SOON, self.child.wait()).await;
        ended.with_context(|| format!("{} does not end", self.name))??;
        Ok(())
    }

    /// What it used since the measurement began.
    pub(super) fn used(&self) -> Used {
        Used::by(self.pid).since(self.before)
    }
}
