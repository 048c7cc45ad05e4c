//! A tool that is a command: arguments as JSON on stdin, the result as JSON on stdout.
//!
//! Owns one process and its end. It must never leave a process running: the end of the call kills the
//! process and its process group.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use holdpoint_contracts::duration;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::redaction::Redaction;
use crate::secrets::{DefinedBy, resolve};
use crate::suspension::sandbox::{SUPPLEMENT_FILE, SandboxDir};
use crate::tool::{
    BoxFuture, Risk, Tool, ToolCall, ToolDefinition, ToolFailure, ToolResult, ToolSuccess,
};
use crate::tools::MAX_INLINE_RESULT;

/// Largest output in bytes: the limit of an inline result.
pub(super) const OUTPUT_MAX: usize = MAX_INLINE_RESULT;

/// Bytes of the end of stderr that are kept. A failure quotes fewer.
const STDERR_MAX: usize = 8 * 1_024;

/// Characters of stderr that a failure quotes.
const QUOTED_MAX: usize = 1_000;

/// Lines of stderr that a failure quotes.
const QUOTED_LINES: usize = 5;

/// Exit code of a command that has asked people and parks (`EX_TEMPFAIL`).
pub(super) const EXIT_PARKED: i32 = 75;

/// Exit code of a command that has stopped at a suspension.
pub(super) const EXIT_SUSPENDED: i32 = 76;

/// Variables of the worker that a command inherits. It gets no others, because they may contain keys,
/// database addresses and secrets.
const INHERITED: [&str; 14] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "TERM",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Longest answers in the environment, in bytes: Linux allows 128 KiB per variable.
const ANSWERS_MAX: usize = 96 * 1_024;

/// One command of a tools file.
pub(super) struct CommandTool {
    pub(super) name: String,
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    pub(super) risk: Risk,
    pub(super) is_idempotent: bool,
    pub(super) definition: ToolDefinition,
    pub(super) timeout: Duration,
    pub(super) url: Option<String>,
    /// Variables of the worker that this command gets beside [`INHERITED`].
    pub(super) env: Vec<String>,
    /// Variables with a text that may name secrets.
    pub(super) set_env: BTreeMap<String, String>,
    /// It gets a directory of its own (S1-R8).
    pub(super) has_sandbox: bool,
    /// It gets SIGTERM when its run is suspended or the worker shuts down, and may stop (S1-R2).
    pub(super) is_suspendable: bool,
}

/// A process. Dropping it before its end kills it with its group.
struct Running {
    // Dropped before the child is reaped, because until then no other process can have its id.
    group: Group,
    child: Child,
}

struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            tracing::debug!(%error, "process group of a command has already ended");
        }
    }
}

impl CommandTool {
    async fn run(&self, call: &ToolCall) -> ToolResult {
        let mut secrets = Redaction::default();
        let mut running = self.start(call, &mut secrets)?;
        let child = &mut running.child;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(self.failed("no pipes"));
        };
        let args = call.dispatch.args_with_feedback().to_string();
        // The first failure ends the call, and that ends the process.
        let group = running.group.0;
        let work =
            async { tokio::try_join!(self.feed(stdin, args), self.output(stdout), last(stderr)) };
        let mut work = pin!(work);
        let ended = tokio::select! {
            ended = &mut work => Some(ended),
            () = call.suspension.requested(), if self.is_suspendable => None,
        };
        let ((), output, errors) = match ended {
            Some(ended) => ended?,
            None => {
                self.terminate(group);
                work.await?
            }
        };
        let status = running.child.wait().await;
        running.group.0 = None;
        let status = status.map_err(|error| self.failed(&format!("cannot wait: {error}")))?;
        let token = call.dispatch.token.as_deref();
        let errors = quoted(&errors, &secrets.with_token(token));
        let mut result = self.result(status, &output, &errors);
        if let Ok(success) = &mut result {
            secrets.hide_in(&mut success.data);
        }
        result
    }

    /// Asks the command to save what it knows and to stop.
    fn terminate(&self, group: Option<Pid>) {
        if let Some(group) = group
            && let Err(error) = kill_process_group(group, Signal::TERM)
        {
            tracing::debug!(tool = self.name, %error, "command has already ended");
        }
    }

    fn start(&self, call: &ToolCall, secrets: &mut Redaction) -> Result<Running, ToolFailure> {
        let mut command = Command::new(&self.program);
        let mut set = Vec::new();
        for (name, text) in &self.set_env {
            set.push((name, resolve(text, DefinedBy::Node, secrets)?));
        }
        call.suspension.hide(secrets);
        let own = self.env.iter().map(String::as_str);
        let inherited = INHERITED.into_iter().chain(own);
        let inherited = inherited.filter_map(|name| Some((name, std::env::var_os(name)?)));
        command
            .args(&self.arguments)
            .env_clear()
            .envs(inherited)
            .envs(set)
            .env("HOLDPOINT_WORKSPACE", call.dispatch.workspace.as_str())
            .env("HOLDPOINT_RUN", call.dispatch.run.to_string())
            .env("HOLDPOINT_STEP", &call.dispatch.step)
            .env("HOLDPOINT_ATTEMPT", call.dispatch.attempt.to_string())
            .env("HOLDPOINT_IDEMPOTENCY_KEY", call.dispatch.idempotency_key())
            .env("TRACEPARENT", &call.dispatch.traceparent)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(token) = &call.dispatch.token {
            command.env("HOLDPOINT_TOKEN", token);
        }
        let answers = serde_json::to_string(&call.dispatch.answers).unwrap_or_default();
        // Linux rejects larger values. The command asks again and gets the answers in the reply.
        if answers.len() <= ANSWERS_MAX {
            command.env("HOLDPOINT_ANSWERS", answers);
        }
        if let Some(url) = &self.url {
            command.env("HOLDPOINT_URL", url);
        }
        if let Some(sandbox) = call.suspension.sandbox() {
            self.add_sandbox(&mut command, sandbox, call)?;
        }
        let child = command.spawn().map_err(|error| {
            tracing::error!(tool = self.name, %error, "command not started; the step fails");
            let reason = if error.kind() == io::ErrorKind::NotFound {
                "the program was not found"
            } else {
                "see the log of its worker"
            };
            ToolFailure::new(
                "command_not_started",
                format!("{} did not start: {reason}.", self.name),
            )
        })?;
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        Ok(Running {
            group: Group(group),
            child,
        })
    }

    fn add_sandbox(
        &self,
        command: &mut Command,
        sandbox: &SandboxDir,
        call: &ToolCall,
    ) -> Result<(), ToolFailure> {
        let not_created = |error: io::Error| {
            tracing::error!(tool = self.name, %error, "sandbox not created; the step fails");
            self.failed("its sandbox cannot be created; see the log of its worker")
        };
        let path = sandbox.create().map_err(not_created)?;
        let continued = call.suspension.continued();
        sandbox.restore(&continued).map_err(not_created)?;
        if let Some(found) = continued.sandbox {
            command.env("HOLDPOINT_SANDBOX_STATE", found.state.as_str());
        }
        // A command may change its directory.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        command
            .env("HOLDPOINT_SUPPLEMENT", path.join(SUPPLEMENT_FILE))
            .env("HOLDPOINT_SANDBOX", path);
        Ok(())
    }

    /// A command may ignore its arguments.
    async fn feed(&self, mut stdin: ChildStdin, args: String) -> Result<(), ToolFailure> {
        if let Err(error) = stdin.write_all(args.as_bytes()).await {
            tracing::debug!(tool = self.name, %error, "command did not read all its arguments");
        }
        Ok(())
    }

    async fn output(&self, mut from: ChildStdout) -> Result<Vec<u8>, ToolFailure> {
        let mut bytes = Vec::new();
        let limit = u64::try_from(OUTPUT_MAX + 1).unwrap_or(u64::MAX);
        let read = (&mut from).take(limit).read_to_end(&mut bytes).await;
        read.map_err(|error| self.failed(&format!("cannot read stdout: {error}")))?;
        if bytes.len() > OUTPUT_MAX {
            let text = format!(
                "{} wrote more than {OUTPUT_MAX} bytes, and a step keeps no more; it was killed.",
                self.name
            );
            return Err(ToolFailure::new("result_too_large", text));
        }
        Ok(bytes)
    }

    fn result(&self, status: ExitStatus, output: &[u8], errors: &str) -> ToolResult {
        if status.code() == Some(EXIT_SUSPENDED) && self.is_suspendable {
            return Err(ToolFailure::suspended());
        }
        if status.code() == Some(EXIT_PARKED) {
            return Err(ToolFailure::parked());
        }
        if !status.success() {
            let colon = if errors.is_empty() { "" } else { ": " };
            let text = format!("{} ended with {status}{colon}{errors}", self.name);
            return Err(ToolFailure::new("command_failed", text));
        }
        let data = if output.iter().all(u8::is_ascii_whitespace) {
            Value::Null
        } else {
            serde_json::from_slice(output).map_err(|error| {
                // The position only, because the output may contain a secret.
                let text = format!(
                    "{} succeeded, but its output is not JSON (line {}, column {}). Let it write \
                     one JSON value to stdout and all else to stderr.",
                    self.name,
                    error.line(),
                    error.column()
                );
                ToolFailure::new("invalid_result", text)
            })?
        };
        Ok(ToolSuccess {
            description: format!("{} succeeded", self.name),
            data,
        })
    }

    fn failed(&self, reason: &str) -> ToolFailure {
        tracing::error!(tool = self.name, reason, "command failed");
        let text = format!("{} failed; see the log of its worker.", self.name);
        ToolFailure::new("command_failed", text)
    }
}

impl Tool for CommandTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn risk(&self) -> Risk {
        self.risk
    }

    fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }

    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn has_sandbox(&self) -> bool {
        self.has_sandbox || self.is_suspendable
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let result = tokio::time::timeout(self.timeout, self.run(call)).await;
            result.unwrap_or_else(|_elapsed| {
                let within = duration::describe(self.timeout);
                let text = format!("{} was killed: no end within {within}.", self.name);
                Err(ToolFailure::new("timeout", text))
            })
        })
    }
}

/// The last [`STDERR_MAX`] bytes. Reads to the end, so that the command never blocks on its output.
async fn last(mut from: ChildStderr) -> Result<Vec<u8>, ToolFailure> {
    let mut kept = VecDeque::new();
    let mut buffer = [0_u8; 4_096];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        kept.extend(buffer.iter().take(count));
        let over = kept.len().saturating_sub(STDERR_MAX);
        kept.drain(..over);
    }
    Ok(kept.into())
}

/// The last lines as one, without control characters and what the redaction hides. That may have several lines.
pub(super) fn quoted(errors: &[u8], redaction: &Redaction) -> String {
    let text = String::from_utf8_lossy(errors);
    let text = if errors.len() < STDERR_MAX {
        redaction.hide_text(&text)
    } else {
        redaction.hide_in_end(&text)
    };
    let mut lines: Vec<_> = text.lines().rev().take(QUOTED_LINES).collect();
    lines.reverse();
    let text = lines.join(" / ");
    let before = text.chars().count().saturating_sub(QUOTED_MAX);
    text.chars()
        .skip(before)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect::<String>()
        .trim()
        .to_owned()
}
