//! A real `holdpoint up` as a child process that a test kills, ends and restarts on its data. Its output goes to files
//! in its temporary folder; a failure shows their end.

mod calls;
mod http;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tokio::{
    process::{Child, Command},
    time::timeout,
};

pub use self::http::Answer;
use crate::{TestFolder, until};

/// A start on full data starts NATS, migrates and reads everything that is open.
const START_WAIT: Duration = Duration::from_secs(60);
const END_WAIT: Duration = Duration::from_secs(30);
/// Lines of its stderr that a failure shows.
const TAIL: usize = 60;

/// How `holdpoint up` is started.
#[derive(Clone, Debug, Default)]
pub struct UpOptions {
    /// `--nats-url`; `None` lets it run a server of its own.
    pub nats_url: Option<String>,
    /// `--test-clock`: only [`Up::clock_advance`] moves the time.
    pub test_clock: bool,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Puts its data on a temporary disk of so many bytes that only this process sees. Some systems allow that to root
    /// only: [`Up::can_have_a_disk`]. See [`Up::data_as_it_sees_it`].
    pub disk_bytes: Option<u64>,
}

/// The first line of its output.
#[derive(Clone, Debug, Deserialize)]
struct Hello {
    url: String,
    workspace: String,
    /// Only the first start on a data directory prints it.
    token: Option<String>,
    nats_url: String,
    /// A link that signs a browser in, once.
    login: Option<String>,
}

/// A running `holdpoint up` on a separate data directory. It is killed at drop together with its NATS server.
#[derive(Debug)]
pub struct Up {
    /// Base of its HTTP interface, such as `http://127.0.0.1:40123`.
    pub url: String,
    /// The workspace that its first start created.
    pub workspace: String,
    pub token: String,
    /// The NATS server it uses, with its key.
    pub nats_url: String,
    /// Signs a browser in as the owner, once; empty if it printed none.
    pub login: String,
    program: PathBuf,
    options: UpOptions,
    client: reqwest::Client,
    child: Child,
    home: TestFolder,
}

impl Up {
    /// Starts it on an empty data directory and waits for its first line.
    ///
    /// # Errors
    /// When the program is missing, ends, or prints nothing within 60 s; with the end of its stderr.
    pub async fn start(options: UpOptions) -> anyhow::Result<Self> {
        Self::start_program(holdpoint_binary()?, options).await
    }

    async fn start_program(program: PathBuf, options: UpOptions) -> anyhow::Result<Self> {
        let home = TestFolder::create()?;
        let (child, hello) = launch(&program, &options, home.path()).await?;
        let token = hello.token.context("the first start printed no token")?;
        Ok(Self {
            url: hello.url,
            workspace: hello.workspace,
            token,
            nats_url: hello.nats_url,
            login: hello.login.unwrap_or_default(),
            program,
            options,
            client: http::client()?,
            child,
            home,
        })
    }

    /// Starts it again on the same data; kills it first if it still runs. The port changes.
    ///
    /// # Errors
    /// As [`Up::start`].
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.kill9().await?;
        let (child, hello) = launch(&self.program, &self.options, self.home.path()).await?;
        self.child = child;
        self.url = hello.url;
        self.workspace = hello.workspace;
        self.nats_url = hello.nats_url;
        self.login = hello.login.unwrap_or_default();
        if let Some(token) = hello.token {
            self.token = token;
        }
        Ok(())
    }

    /// Kills it without a clean stop, as a power failure would; its NATS server stays.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn kill9(&mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("kill -9")
    }

    /// Asks it to end (SIGTERM) and waits until it has.
    ///
    /// # Errors
    /// When it has not ended within 30 s.
    pub async fn terminate(&mut self) -> anyhow::Result<ExitStatus> {
        if let Some(pid) = self.child.id() {
            let pid = i32::try_from(pid)
                .ok()
                .and_then(Pid::from_raw)
                .context("process id")?;
            kill_process(pid, Signal::TERM)?;
        }
        let ended = timeout(END_WAIT, self.child.wait()).await;
        Ok(
            ended
                .with_context(|| format!("still there after SIGTERM:{}", self.stderr_tail()))??,
        )
    }

    /// Waits until it ends by itself, as at a crash point.
    ///
    /// # Errors
    /// When it has not ended by the deadline.
    pub async fn ended(&mut self, deadline: Duration) -> anyhow::Result<ExitStatus> {
        Ok(timeout(deadline, self.child.wait())
            .await
            .context("it goes on")??)
    }

    /// Whether this user may have disks ([`UpOptions::disk_bytes`]); if not, the test is skipped.
    ///
    /// # Errors
    /// When it does not, although `HOLDPOINT_TEST_REQUIRE_DOCKER=1`: nothing is skipped there.
    pub async fn can_have_a_disk() -> anyhow::Result<bool> {
        let dir = tempfile::tempdir()?;
        let mut command = on_a_disk(Path::new("true"), 1 << 20, &data_dir(dir.path()))?;
        let stderr = match command.output().await {
            Ok(output) if output.status.success() => return Ok(true),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        let why = format!("no separate disk, because this user may not mount one: {stderr}");
        if crate::docker::required() {
            bail!(why);
        }
        crate::skip(&why)?;
        Ok(false)
    }

    /// Its process id; none once it has ended.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        data_dir(self.home.path())
    }

    /// Its data directory by a path that leads to a disk of its own, too.
    ///
    /// # Errors
    /// When it has ended.
    pub fn data_as_it_sees_it(&self) -> anyhow::Result<PathBuf> {
        let pid = self.child.id().context("it has ended")?;
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        Ok(root.join(self.data_dir().strip_prefix("/")?))
    }

    /// Changes what the next [`Up::restart`] starts with.
    pub fn options_mut(&mut self) -> &mut UpOptions {
        &mut self.options
    }

    /// The last lines of its stderr.
    #[must_use]
    pub fn stderr_tail(&self) -> String {
        stderr_tail(self.home.path())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if let Err(error) = self.child.start_kill() {
            println!("holdpoint up was not killed: {error}");
        }
        if std::thread::panicking() {
            println!("stderr of holdpoint up:{}", self.stderr_tail());
        }
    }
}

/// The built `holdpoint` program: `HOLDPOINT_BIN`, else the one beside the running test's `deps`
/// folder.
///
/// # Errors
/// When it does not exist; `cargo build -p holdpoint` builds it, and `cargo xtask test` does that.
pub fn holdpoint_binary() -> anyhow::Result<PathBuf> {
    let path = match env::var_os("HOLDPOINT_BIN") {
        Some(path) => PathBuf::from(path),
        None => env::current_exe()?
            .parent()
            .and_then(Path::parent)
            .ok_or_else(|| anyhow!("the test program is not in a target folder"))?
            .join("holdpoint"),
    };
    if !path.is_file() {
        bail!(
            "no {}: run `cargo build -p holdpoint`, or set HOLDPOINT_BIN",
            path.display()
        );
    }
    Ok(path)
}

async fn launch(
    program: &Path,
    options: &UpOptions,
    home: &Path,
) -> anyhow::Result<(Child, Hello)> {
    let (stdout, stderr) = (home.join("stdout"), home.join("stderr"));
    let mut command = match options.disk_bytes {
        None => Command::new(program),
        Some(bytes) => on_a_disk(program, bytes, &data_dir(home))?,
    };
    command
        .args(["up", "--json", "--http", "127.0.0.1:0", "--data"])
        .arg(data_dir(home));
    if let Some(url) = &options.nats_url {
        command.args(["--nats-url", url]);
    }
    if options.test_clock {
        command.arg("--test-clock");
    }
    command
        .args(&options.args)
        .envs(options.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(fs::File::create(&stdout)?)
        .stderr(
            fs::File::options()
                .create(true)
                .append(true)
                .open(&stderr)?,
        )
        .kill_on_drop(true);
    let mut child = command.spawn().context("holdpoint up")?;
    let hello = until(START_WAIT, "the first line of holdpoint up", async || {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(Err(anyhow!("holdpoint up ended with {status}")));
        }
        let text = fs::read_to_string(&stdout).ok()?;
        let (line, _) = text.split_once('\n')?;
        Some(serde_json::from_str::<Hello>(line).with_context(|| format!("hello: {line}")))
    })
    .await;
    let hello = hello.and_then(|hello| hello);
    Ok((
        child,
        hello.with_context(|| format!("stderr:{}", stderr_tail(home)))?,
    ))
}

/// The same program in a separate mount namespace, with a file system in memory at `data`.
fn on_a_disk(program: &Path, bytes: u64, data: &Path) -> anyhow::Result<Command> {
    fs::create_dir_all(data)?;
    let script = r#"mount -t tmpfs -o "size=$1,mode=700" tmpfs "$2" && shift 2 && exec "$@""#;
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(bytes.to_string())
        .args([data, program]);
    Ok(command)
}

fn data_dir(home: &Path) -> PathBuf {
    home.join("data")
}

fn stderr_tail(home: &Path) -> String {
    let text = fs::read_to_string(home.join("stderr")).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(TAIL).collect();
    lines
        .iter()
        .rev()
        .fold(String::new(), |all, line| format!("{all}\n  {line}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    /// Says hello, notes its arguments, and answers each request with what it was asked.
    const ECHO_SERVER: &str = r#"#!/usr/bin/env python3
import http.server, json, sys
class Echo(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        said = json.dumps([self.command, self.path, self.headers["authorization"], body]).encode()
        self.send_response(201)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
print(*sys.argv[1:], file=sys.stderr, flush=True)
url = f"http://127.0.0.1:{server.server_port}"
hello = {"url": url, "workspace": "w", "token": "t", "nats_url": "nats://n"}
print(json.dumps(hello), flush=True)
server.serve_forever()
"#;

    fn program(folder: &Path, text: &str) -> PathBuf {
        let path = folder.join("holdpoint");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[tokio::test]
    async fn a_child_is_called_killed_restarted_and_ended() {
        let folder = tempfile::tempdir().unwrap();
        let options = UpOptions {
            test_clock: true,
            ..Default::default()
        };
        let server = program(folder.path(), ECHO_SERVER);
        let mut up = Up::start_program(server, options).await.unwrap();
        let arguments = up.stderr_tail();
        assert!(
            arguments.contains("up --json --http 127.0.0.1:0 --data")
                && arguments.contains("--test-clock")
        );

        let (status, body) = up.post("/runs", &json!({"a": 1})).await.unwrap();
        assert_eq!(
            (status, body),
            (
                201,
                json!(["POST", "/v1/workspaces/w/runs", "Bearer t", "{\"a\":1}"])
            )
        );
        let (_, body) = up.get("runs").await.unwrap();
        assert_eq!(
            body,
            json!(["GET", "/v1/workspaces/w/runs", "Bearer t", ""])
        );
        let body = up.clock_advance("5d").await.unwrap();
        assert_eq!(
            body,
            json!(["POST", "/v1/clock/advance", "Bearer t", "{\"by\":\"5d\"}"])
        );

        up.kill9().await.unwrap();
        assert!(up.get("runs").await.is_err());
        up.restart().await.unwrap();
        assert_eq!(up.delete("runs/1").await.unwrap().0, 201);
        assert!(!up.terminate().await.unwrap().success());
    }

    #[tokio::test]
    async fn the_error_of_an_ended_child_contains_its_stderr() {
        let folder = tempfile::tempdir().unwrap();
        let broken = program(folder.path(), "#!/bin/sh\necho broken >&2\nexit 3\n");
        let error = Up::start_program(broken, UpOptions::default())
            .await
            .unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.contains("broken") && text.contains("exit status: 3"),
            "{text}"
        );
    }
}
