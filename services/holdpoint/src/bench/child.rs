//! A child process of a measurement. It prints one JSON line when ready and one per instruction.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::instruction::Instruction;
use super::machine::Usage;

/// Longest time to start or to end.
const START_OR_END_WITHIN: Duration = Duration::from_secs(30);

/// Longest time for one instruction.
const INSTRUCTION_WITHIN: Duration = Duration::from_secs(1_800);

/// It is killed when this is dropped.
pub(super) struct BenchProcess {
    pub(super) name: &'static str,
    pub(super) pid: u32,
    /// The line that it printed when it was ready.
    pub(super) ready: Value,
    /// Usage at the begin of the measurement.
    pub(super) before: Usage,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl BenchProcess {
    /// Starts this binary with other arguments and waits until it is ready. Its log goes to
    /// `<name>.log` in `directory`.
    pub(super) async fn start(
        name: &'static str,
        args: &[String],
        directory: &Path,
    ) -> anyhow::Result<Self> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(directory.join(format!("{name}.log")))?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let stdout = child.stdout.take().context("no stdout")?;
        let mut process = Self {
            name,
            pid: child.id().context("the process ended at once")?,
            ready: Value::Null,
            before: Usage::default(),
            stdin: child.stdin.take(),
            lines: BufReader::new(stdout).lines(),
            child,
        };
        process.ready = process.read_line(START_OR_END_WITHIN).await?;
        Ok(process)
    }

    async fn read_line(&mut self, within: Duration) -> anyhow::Result<Value> {
        let line = timeout(within, self.lines.next_line()).await;
        let line = line.with_context(|| format!("{} does not respond", self.name))??;
        let Some(line) = line else {
            bail!("{} has ended; see its log", self.name);
        };
        Ok(serde_json::from_str(&line)?)
    }

    /// Sends an instruction and waits for its result.
    pub(super) async fn perform(&mut self, instruction: &Instruction) -> anyhow::Result<Value> {
        let line = format!("{}\n", serde_json::to_string(instruction)?);
        let stdin = self.stdin.as_mut().context("it takes no instructions")?;
        stdin.write_all(line.as_bytes()).await?;
        self.read_line(INSTRUCTION_WITHIN).await
    }

    /// Closes stdin and waits for the last result.
    pub(super) async fn finish(mut self) -> anyhow::Result<Value> {
        self.stdin = None;
        self.read_line(START_OR_END_WITHIN).await
    }

    /// Kills it as a power cut would.
    pub(super) async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Sends SIGTERM and waits for the end.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.stdin = None;
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        kill_process(pid.context("no process")?, Signal::TERM)?;
        let ended = timeout(START_OR_END_WITHIN, self.child.wait()).await;
        ended.with_context(|| format!("{} does not end", self.name))??;
        Ok(())
    }
}
