//! A separate node whose tools are shell scripts (`holdpoint worker --tools FILE`).

use std::process::Stdio;

use holdpoint_testkit::{Up, holdpoint_binary};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// The process, which is killed at the end of the test.
pub(crate) struct Toolbox {
    child: Child,
    _home: TempDir,
}

impl Toolbox {
    /// Starts a worker whose only tool is this script. `holdpoint` is on its path.
    pub(crate) async fn of(up: &Up, tool: &str, script: &str) -> Self {
        let tool = json!({ "name": tool, "risk": "low", "idempotent": true, "command": ["sh", "-c", script] });
        Self::of_entry(up, tool).await
    }

    /// Starts a worker whose only tool is this entry of a tools file.
    pub(crate) async fn of_entry(up: &Up, tool: Value) -> Self {
        Self::with_env(up, tool, &[]).await
    }

    /// The same, with these variables in the environment of the worker.
    pub(crate) async fn with_env(up: &Up, tool: Value, env: &[(&str, &str)]) -> Self {
        Self::start(up, tool, false, env).await
    }

    /// The same, with the bus from the data directory of `up`.
    pub(crate) async fn found_by(up: &Up, tool: &str, script: &str) -> Self {
        let tool = json!({ "name": tool, "risk": "low", "idempotent": true, "command": ["sh", "-c", script] });
        Self::start(up, tool, true, &[]).await
    }

    async fn start(up: &Up, tool: Value, by_file: bool, env: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("tools.json");
        let tools = json!({ "node": "shell", "tools": [tool] });
        std::fs::write(&file, tools.to_string()).unwrap();
        let binary = holdpoint_binary().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let folder = binary.parent().unwrap().display().to_string();
        let mut command = Command::new(&binary);
        command.args(["worker", "--tools"]).arg(&file);
        command
            .arg("--sandboxes")
            .arg(up.data_dir().join("sandboxes"));
        if by_file {
            command
                .arg("--data")
                .arg(up.data_dir())
                .env_remove("HOLDPOINT_NATS_URL")
                .env_remove("HOLDPOINT_URL");
        } else {
            command
                .env("HOLDPOINT_NATS_URL", &up.nats_url)
                .env("HOLDPOINT_URL", &up.url);
        }
        let mut child = command
            .envs(env.iter().copied())
            .env("PATH", format!("{folder}:{path}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.next_line().await.unwrap().unwrap();
        let ready: Value = serde_json::from_str(&ready).unwrap();
        assert_eq!(ready["ready"], true, "{ready}");
        Self { child, _home: home }
    }

    /// SIGTERM. Returns when the worker has ended.
    pub(crate) async fn terminate(mut self) {
        let pid = self.child.id().unwrap();
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        // A second signal changes nothing (S1-R10).
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let ended = self.child.wait().await.unwrap();
        assert!(ended.success(), "{ended}");
    }

    /// `kill -9`.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}
