//! Runs the commands at the head of the files in `examples/` as they are written there.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use holdpoint_testkit::{Up, UpOptions, holdpoint_binary, until};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::shop::Shop;
use crate::world::PATIENCE;

/// A newcomer's folder: the examples, the data of a running `up`, and `holdpoint` on the path.
struct Terminal {
    up: Up,
    folder: TempDir,
    path: String,
}

impl Terminal {
    async fn open() -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let up = Up::start(UpOptions::default()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let link = |to: PathBuf, name: &str| {
            std::os::unix::fs::symlink(to, folder.path().join(name)).unwrap();
        };
        link(up.data_dir(), "holdpoint-data");
        link(examples(), "examples");
        let binaries = holdpoint_binary().unwrap();
        let path = format!(
            "{}:{}",
            binaries.parent().unwrap().display(),
            std::env::var("PATH").unwrap_or_default()
        );
        Self { up, folder, path }
    }

    fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("exec {line}")])
            .current_dir(self.folder.path())
            .env("PATH", &self.path)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        for name in ["URL", "TOKEN", "NATS_URL", "DATA", "WORKSPACE"] {
            command.env_remove(format!("HOLDPOINT_{name}"));
        }
        command
    }

    /// Runs a line to its end. Returns its output.
    async fn types(&self, line: &str) -> String {
        let output = self.shell(line).output().await.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The open request of the only run, as soon as it has another id than `earlier`.
    async fn asked(&self, earlier: &str) -> Value {
        until(PATIENCE, "the run asks", async || {
            let (_, page) = self.up.get("/requests?status=open").await.unwrap();
            let request = page["items"].get(0)?.clone();
            (request["id"] != earlier).then_some(request)
        })
        .await
        .unwrap()
    }

    /// Starts a line that keeps running.
    fn leaves_running(&self, line: &str) -> Child {
        self.shell(line).spawn().unwrap()
    }
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

/// The command lines at the head of an example.
fn documented(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(examples().join(name)).unwrap();
    let (_, rest) = text.split_once("\"\"\"").unwrap();
    let (head, _) = rest.split_once("\"\"\"").unwrap();
    let lines = head.lines().filter_map(|line| line.strip_prefix("    "));
    lines.map(str::to_owned).collect()
}

/// The command lines in the comment at the head of an agent or a script.
fn commented(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(examples().join(name)).unwrap();
    let head = text.lines().take_while(|line| line.starts_with('#'));
    let lines = head.filter_map(|line| line.strip_prefix("#   "));
    lines.map(str::to_owned).collect()
}

/// Words 6: the outreach is rehearsed, applied and started with its contacts.
#[tokio::test]
async fn the_outreach_in_words_is_rehearsed_and_started() {
    let terminal = Terminal::open().await;
    for line in commented("outreach-in-words.yaml") {
        let said = terminal.types(&line).await;
        if line.contains("rehearse") {
            assert!(said.contains("6 contacts: c-ada"), "{said}");
        }
    }
    let script = commented("outreach-script.yaml");
    assert_eq!(script.len(), 1);
    let said = terminal.types(&script[0]).await;
    for words in [
        "5 contacts: c-bruno",
        "1 contact: c-ada",
        "@user.nina 1",
        "nina 1",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let (_, runs) = terminal.up.get("/runs").await.unwrap();
    assert_eq!(runs["items"].as_array().unwrap().len(), 6, "{runs}");
}

/// Mend D-1: both examples run as documented with the agent beside them.
#[tokio::test]
async fn a_program_starts_runs_and_a_worker_does_their_step() {
    let terminal = Terminal::open().await;
    let mut worker = None;
    for line in documented("worker.py") {
        if line.starts_with("python3") {
            worker = Some(terminal.leaves_running(&line));
        } else {
            let said = terminal.types(&line).await;
            if line.contains("--watch") {
                assert!(said.contains("The worker has said c-7."), "{said}");
            }
        }
    }
    let lines = documented("publish.py");
    let mut runs = Vec::new();
    for line in &lines {
        let said = terminal.types(line).await;
        if line.starts_with("python3") {
            let run: Value = serde_json::from_str(&said).unwrap();
            runs.push(run["id"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(runs.len(), 2, "{lines:?}");
    for id in &runs {
        until(PATIENCE, "the worker has done its step", async || {
            let (_, run) = terminal.up.get(&format!("/runs/{id}")).await.unwrap();
            (run["status"] == "completed").then_some(())
        })
        .await
        .unwrap();
    }
    let (_, run) = terminal
        .up
        .get(&format!("/runs/{}", runs[1]))
        .await
        .unwrap();
    assert_eq!(run["contact"], "c-ada", "{run}");
    drop(worker.expect("a line starts the worker"));
}

/// The documented line about the request of the refund with these words.
fn decision_line(words: &str, id: &str) -> String {
    let lines = commented("refund.yaml");
    let line = lines.iter().find(|line| line.contains(words)).unwrap();
    line.replace("hold_…", id)
}

/// Gate, *Show*: the refund is sent back once, and its new draft is approved with edited arguments.
#[tokio::test]
async fn the_refund_is_revised_once_and_approved_with_edited_arguments() {
    let terminal = Terminal::open().await;
    let shop = Shop::open().await;
    let lines = commented("refund.yaml");
    for line in lines.iter().take_while(|line| !line.ends_with("inbox")) {
        let line = line
            .replace("https://shop.example/orders", &shop.url("/orders"))
            .replace("https://shop.example/drafts", &shop.url("/draft-amounts"))
            .replace("https://pay.example/refunds", &shop.url("/refunds"));
        terminal.types(&line).await;
    }
    let first = terminal.asked("").await;
    let id = first["id"].as_str().unwrap();
    let said = terminal.types("holdpoint inbox").await;
    assert!(said.contains(id), "{said}");
    assert_eq!(first["items"][0]["args"]["amount"], 250, "{first}");
    assert!(first["actions"].to_string().contains("revise"), "{first}");
    terminal.types(&decision_line(" revise ", id)).await;

    let second = terminal.asked(id).await;
    assert_eq!(second["items"][0]["args"]["amount"], 200, "{second}");
    let id = second["id"].as_str().unwrap();
    terminal.types(&decision_line(" --args ", id)).await;
    let ended = until(PATIENCE, "the refund ends", async || {
        let (_, page) = terminal.up.get("/runs").await.unwrap();
        let run = page["items"].get(0)?.clone();
        (run["status"] == "completed").then_some(run)
    })
    .await
    .unwrap();
    let run = ended["id"].as_str().unwrap();
    let calls_of = |step: &str| -> Vec<Value> {
        let calls = shop.calls();
        let key = format!("{run}/{step}");
        let is_of = |key_of_call: &str| key_of_call.split('~').next() == Some(key.as_str());
        let calls = calls
            .iter()
            .filter(|call| is_of(call.header("idempotency-key")));
        calls
            .map(|call| serde_json::from_str(&call.body).unwrap())
            .collect()
    };
    let drafts = calls_of("draft");
    assert_eq!(drafts.len(), 2, "{drafts:?}");
    let said = drafts[1]["feedback"]["instructions"].as_str().unwrap();
    assert!(said.starts_with("The customer keeps the cable"), "{said}");
    assert_eq!(
        calls_of("pay"),
        [json!({ "order": "o-17", "amount": 125 })],
        "only what was approved is paid"
    );
}
