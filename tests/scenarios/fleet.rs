//! Services as separate processes on one bus and one Postgres, or on SQLite files.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use holdpoint_testkit::{Answer, TestNats, TestPostgres, holdpoint_binary, nats, postgres};
use reqwest::{Method, RequestBuilder};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// Longest time until a service is ready.
const READY: Duration = Duration::from_secs(60);

/// How long a connection is kept for the next call. The gateway closes it after 15 s of silence.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// The bus, the database and the keys of the services.
pub(crate) struct Ground {
    pub(crate) nats: TestNats,
    /// The address of the database.
    pub(crate) database: String,
    /// Whether services that start from now on may call private addresses.
    pub(crate) allows_private: bool,
    _postgres: Option<TestPostgres>,
    home: TempDir,
}

/// One process.
pub(crate) struct Served {
    child: Child,
    /// Its output when it was ready.
    pub(crate) said: Value,
    log: PathBuf,
}

impl Ground {
    /// `None`: there is no Postgres and none is required. The reason is printed.
    pub(crate) async fn new() -> Option<Self> {
        let postgres = postgres().await.unwrap()?;
        let mut ground = Self::on_postgres(postgres.url.clone()).await;
        ground._postgres = Some(postgres);
        Some(ground)
    }

    /// With tables in a database of a Postgres that outlives it.
    pub(crate) async fn on_postgres(database: String) -> Self {
        Self {
            database,
            ..Self::on_sqlite().await
        }
    }

    /// With tables in SQLite files.
    pub(crate) async fn on_sqlite() -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let home = tempfile::tempdir().unwrap();
        let output = Command::new(holdpoint_binary().unwrap())
            .args(["secrets", "new"])
            .output()
            .await
            .unwrap();
        assert!(output.status.success());
        let path = home.path().join("secrets.json");
        std::fs::write(&path, output.stdout).unwrap();
        // Secrets that others can read are refused.
        let own = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, own).unwrap();
        Self {
            nats: nats().await.unwrap(),
            database: format!("sqlite:{}", home.path().join("tables").display()),
            allows_private: true,
            _postgres: None,
            home,
        }
    }

    /// Runs a command to its end. Returns its code and its stderr.
    pub(crate) async fn ends(&self, words: &[&str]) -> (i32, String) {
        let mut command = self.command();
        command
            .args(words)
            .env("HOLDPOINT_DATABASE_URL", &self.database)
            .env("HOLDPOINT_SECRETS", self.home.path().join("secrets.json"));
        let ended = command.output().await.unwrap();
        let stderr = String::from_utf8(ended.stderr).unwrap();
        (ended.status.code().unwrap(), stderr)
    }

    /// Starts a service on the ground's database.
    pub(crate) async fn serve(&self, service: &str, args: &[&str]) -> Served {
        self.serve_on(service, &self.database, args).await
    }

    /// Starts a service with another database address.
    pub(crate) async fn serve_on(&self, service: &str, database: &str, args: &[&str]) -> Served {
        let command = self.service(service, database, args);
        self.start(service, command).await
    }

    /// Starts a service that dies at a crash point (`HOLDPOINT_CRASH`), perhaps before it is ready.
    pub(crate) async fn serve_doomed(&self, service: &str, crash: &str) -> Served {
        let mut command = self.service(service, &self.database, &[]);
        command.env("HOLDPOINT_CRASH", crash);
        let (served, _is_ready) = self.launch(service, command).await;
        served
    }

    /// The signing keys of all services.
    pub(crate) fn secrets(&self) -> holdpoint_auth::Secrets {
        let text = std::fs::read_to_string(self.home.path().join("secrets.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Starts a node with the built-in tools.
    pub(crate) async fn worker(&self) -> Served {
        let mut command = self.command();
        command.args(["worker", "--builtin"]);
        self.start("worker", command).await
    }

    /// The same with a key of the server.
    pub(crate) async fn worker_as(&self, seed: &str) -> Served {
        let mut command = self.command();
        command.args(["worker", "--builtin", "--nats-seed", seed]);
        self.start("worker", command).await
    }

    fn service(&self, service: &str, database: &str, args: &[&str]) -> Command {
        let mut command = self.command();
        command
            .args(["serve", service, "--database-url", database, "--secrets"])
            .arg(self.home.path().join("secrets.json"))
            .args(args);
        command
    }

    fn command(&self) -> Command {
        let mut command = Command::new(holdpoint_binary().unwrap());
        command
            // The default folder of files such as mails.
            .current_dir(self.home.path())
            .env("HOLDPOINT_NATS_URL", &self.nats.url)
            .env_remove("HOLDPOINT_ALLOW_PRIVATE_TARGETS");
        if self.allows_private {
            command.env("HOLDPOINT_ALLOW_PRIVATE_TARGETS", "1");
        }
        command
    }

    async fn start(&self, name: &str, command: Command) -> Served {
        let (served, is_ready) = self.launch(name, command).await;
        assert!(is_ready, "{name}: {}", served.log());
        served
    }

    /// The process, and whether it is ready. A process that is not ready has ended.
    async fn launch(&self, name: &str, mut command: Command) -> (Served, bool) {
        let log = self.home.path().join(format!("{name}.log"));
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(READY, lines.next_line()).await;
        let line = line.ok().and_then(Result::ok).flatten();
        let said = line.map(|line| serde_json::from_str(&line).unwrap());
        // A process that prints more must not die of a closed pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let is_ready = said.is_some();
        let said = said.unwrap_or_default();
        (Served { child, said, log }, is_ready)
    }
}

impl Served {
    /// Sends a signal: `STOP`, `CONT`, `TERM`, `KILL`.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Sends SIGTERM. The process finishes its work and exits with 0.
    pub(crate) async fn terminate(mut self) {
        self.signal(Signal::TERM);
        let ended = tokio::time::timeout(READY, self.child.wait()).await;
        assert_eq!(ended.unwrap().unwrap().code(), Some(0));
    }

    /// Waits until the process has ended by itself, as at a crash point. False: it is still running.
    pub(crate) async fn dies(&mut self, within: Duration) -> bool {
        tokio::time::timeout(within, self.child.wait())
            .await
            .is_ok()
    }

    /// Its stderr so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// The REST API of a served gateway, for the workspace `default`.
pub(crate) struct Api {
    client: reqwest::Client,
    base: String,
    token: String,
}

impl Api {
    pub(crate) fn of(gateway: &Served) -> Self {
        let text = |name: &str| gateway.said[name].as_str().unwrap();
        Self::at(text("http"), text("token"))
    }

    /// The address of a gateway, and the token of a user.
    pub(crate) fn at(url: &str, token: &str) -> Self {
        Self {
            client: reqwest::Client::builder()
                .no_proxy()
                .pool_idle_timeout(IDLE_MAX)
                .build()
                .unwrap(),
            base: format!("{url}/v1/workspaces/default"),
            token: token.to_owned(),
        }
    }

    /// The same with the token of another user.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self {
            client: self.client.clone(),
            base: self.base.clone(),
            token: token.to_owned(),
        }
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: &Value) -> Answer {
        let request = self
            .client
            .request(method.clone(), format!("{}{path}", self.base))
            .bearer_auth(&self.token);
        let request = if method == Method::GET {
            request
        } else {
            request.json(body)
        };
        answer_of(request).await
    }

    /// A POST with an idempotency key, which can be repeated.
    pub(crate) async fn post_under(&self, key: &str, path: &str, body: &Value) -> Answer {
        let request = self
            .client
            .post(format!("{}{path}", self.base))
            .bearer_auth(&self.token)
            .header("Idempotency-Key", key)
            .json(body);
        answer_of(request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        // A stopped replica does not answer, so the caller asks again after a pause.
        for _ in 0..20 {
            let (status, body) = self.call(Method::GET, path, &Value::Null).await;
            if status != 503 {
                assert_eq!(status, 200, "{path}: {body}");
                return body;
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        panic!("{path} is not answered")
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.call(Method::POST, path, body).await
    }
}

/// A machine that is too busy to send a request within 15 s loses its connection. A client that repeats its calls must
/// see that as a missing service.
async fn answer_of(request: RequestBuilder) -> Answer {
    match request.send().await {
        Ok(response) => {
            let status = response.status().as_u16();
            (status, response.json().await.unwrap_or(Value::Null))
        }
        Err(error) => (503, json!({ "detail": error.to_string() })),
    }
}
