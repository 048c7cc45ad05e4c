//! Shared parts of scenarios: a system on a separate server, and shorthands for its API.

use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use holdpoint_bus::{Bus, StreamUse};
use holdpoint_testkit::{TestNats, Up, UpOptions, nats, until};
use sea_orm::{ConnectionTrait as _, Database, DatabaseConnection, Statement};
use serde_json::{Value, json};

/// Longest wait for a condition in real time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running system and its server.
pub(crate) struct World {
    pub(crate) up: Up,
    pub(crate) nats: TestNats,
    /// The address of its Postgres; none: its tables are in files.
    postgres: Option<String>,
}

impl World {
    /// A system with a test clock.
    pub(crate) async fn with_test_clock() -> Self {
        Self::start(true, &[], &[]).await
    }

    /// A system on real time.
    pub(crate) async fn with_real_time() -> Self {
        Self::start(false, &[], &[]).await
    }

    /// A system on real time with more arguments, such as a database.
    pub(crate) async fn with_args(args: &[&str]) -> Self {
        Self::start(false, &[], args).await
    }

    /// A system with a test clock and more arguments.
    pub(crate) async fn with_test_clock_and(args: &[&str]) -> Self {
        Self::start(true, &[], args).await
    }

    /// A system with a test clock and more environment variables.
    pub(crate) async fn with_env(env: &[(&str, &str)]) -> Self {
        Self::start(true, env, &[]).await
    }

    /// A system on real time with more environment variables.
    pub(crate) async fn with_real_env(env: &[(&str, &str)]) -> Self {
        Self::start(false, env, &[]).await
    }

    async fn start(test_clock: bool, env: &[(&str, &str)], args: &[&str]) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let nats = nats().await.unwrap();
        let nats_url = Some(nats.url.clone());
        let up = Up::start(UpOptions {
            nats_url,
            test_clock,
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            env: env
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..UpOptions::default()
        })
        .await;
        let mut args = args.iter().skip_while(|arg| **arg != "--database-url");
        Self {
            up: up.unwrap(),
            nats,
            postgres: args.nth(1).map(|&url| url.to_owned()),
        }
    }

    /// Applies an agent of these steps.
    pub(crate) async fn agent(&self, name: &str, steps: Value) {
        let (status, body) = self
            .up
            .post("/agents", &json!({ "agent": name, "steps": steps }))
            .await
            .unwrap();
        assert_eq!(status, 201, "{body}");
    }

    /// Starts a run; returns its id.
    pub(crate) async fn start_run(&self, agent: &str, body: Value) -> String {
        let path = format!("/agents/{agent}/runs");
        let (status, run) = self.up.post(&path, &body).await.unwrap();
        assert_eq!(status, 201, "{run}");
        run["id"].as_str().unwrap().to_owned()
    }

    /// The current view of a run.
    pub(crate) async fn run(&self, id: &str) -> Value {
        let (status, run) = self.up.get(&format!("/runs/{id}")).await.unwrap();
        assert_eq!(status, 200, "{run}");
        run
    }

    /// Sends a command for a run, which must succeed. Returns the run.
    pub(crate) async fn act(&self, id: &str, verb: &str, body: Value) -> Value {
        let (status, run) = self
            .up
            .post(&format!("/runs/{id}/{verb}"), &body)
            .await
            .unwrap();
        assert_eq!(status, 200, "{run}");
        run
    }

    /// Moves the clock and waits until the triggered work is finished.
    pub(crate) async fn advance(&self, by: &str) {
        let moved = self.up.clock_advance(by).await.unwrap();
        assert_eq!(moved["settled"], true, "{moved}");
    }

    /// Waits until all work is finished. Moves the clock by a millisecond.
    pub(crate) async fn settle(&self) {
        self.advance("1ms").await;
    }

    /// Waits until a run has this status.
    pub(crate) async fn until_status(&self, id: &str, status: &str) -> Value {
        until(PATIENCE, &format!("run {id} is {status}"), async || {
            let run = self.run(id).await;
            (run["status"] == status).then_some(run)
        })
        .await
        .unwrap()
    }

    /// The types of a run's history, in order.
    pub(crate) async fn history(&self, id: &str) -> Vec<String> {
        let items = self.items(id).await;
        items
            .iter()
            .map(|item| item["type"].as_str().unwrap().to_owned())
            .collect()
    }

    /// A run's history.
    pub(crate) async fn items(&self, id: &str) -> Vec<Value> {
        let (status, page) = self
            .up
            .get(&format!("/runs/{id}/events?limit=500"))
            .await
            .unwrap();
        assert_eq!(status, 200, "{page}");
        page["items"].as_array().unwrap().clone()
    }

    /// The instant of the test clock, or the real one.
    pub(crate) async fn now(&self) -> DateTime<Utc> {
        let clock = self.up.call(reqwest::Method::GET, "/v1/clock", None).await;
        let (_, clock) = clock.unwrap();
        clock["now"].as_str().unwrap().parse().unwrap()
    }

    /// Checks that no work is left, as [`at_rest`].
    pub(crate) async fn rests(&self) {
        let database = self.postgres.clone().unwrap_or_else(|| tables_of(&self.up));
        at_rest(&database, &self.up.nats_url).await.unwrap();
    }

    /// Subjects of the mails to an address.
    pub(crate) async fn mails_to(&self, to: &str) -> Vec<String> {
        let (status, page) = self.up.get("/mails").await.unwrap();
        assert_eq!(status, 200, "{page}");
        let mails = page["items"].as_array().unwrap();
        let theirs = mails.iter().filter(|mail| mail["to"] == to);
        theirs
            .map(|mail| mail["subject"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// Waits until a recorded decision had its effect. The reply shows the effect, or `pending` after 2 s, which a busy
/// machine may need.
pub(crate) async fn until_applied(up: &Up, decided: &Value) {
    assert_eq!(decided["recorded"], true, "{decided}");
    let pointers = ["/request/id", "/request", "/id"].into_iter();
    let mut ids = pointers.filter_map(|pointer| decided.pointer(pointer)?.as_str());
    let path = format!("/requests/{}", ids.next().unwrap());
    until(PATIENCE, "the effect of a decision", async || {
        let (status, request) = up.get(&path).await.unwrap();
        assert_eq!(status, 200, "{request}");
        match request["effect"].as_str() {
            Some("applied") => Some(()),
            Some("pending") | None => None,
            Some(other) => panic!("{other}: {request}"),
        }
    })
    .await
    .unwrap();
}

/// A step that writes a line to the log. It is idempotent and completes at once.
pub(crate) fn log(message: &str) -> Value {
    json!({ "tool": "log", "args": { "message": message } })
}

/// Rows in the dead-letter tables of all services.
pub(crate) async fn dead_letters(data: &std::path::Path) -> anyhow::Result<u64> {
    let tables = KernelTables::open(&format!("sqlite:{}", data.display())).await?;
    tables.count("dead_letters").await
}

/// Waits until all desired states are acknowledged, all outboxes and streams are empty, and checks that there is no
/// dead letter. `database` is `sqlite:` with a folder, or the address of a Postgres.
pub(crate) async fn at_rest(database: &str, nats_url: &str) -> anyhow::Result<()> {
    let bus = Bus::connect(nats_url, "test").await?;
    let tables = KernelTables::open(database).await?;
    let mut last = String::new();
    let rest = until(PATIENCE, "all work is finished", async || {
        let mut left = Vec::new();
        for service in SERVICES {
            left.push((
                service,
                bus.stored(StreamUse::Commands(service)).await.ok()?,
            ));
        }
        // Messages move from rows to streams and never back.
        for table in ["outbox", "desired_states", "dead_letters"] {
            left.push((table, tables.count(table).await.ok()?));
        }
        last = format!("{left:?}");
        left.iter().all(|(_, count)| *count == 0).then_some(())
    });
    let rest = rest.await;
    rest.context(last)
}

/// The database of one process, for [`at_rest`].
pub(crate) fn tables_of(up: &Up) -> String {
    format!("sqlite:{}", up.data_dir().display())
}

/// Services with a command stream and tables of the kernel.
const SERVICES: [&str; 4] = ["executor", "scheduler", "handoff", "notification"];

/// The tables that the kernel keeps in each service.
struct KernelTables(Vec<OfService>);

/// A connection, and what precedes the name of a table.
struct OfService(DatabaseConnection, String);

impl KernelTables {
    /// `database` is `sqlite:` with a folder, or the address of a Postgres.
    async fn open(database: &str) -> anyhow::Result<Self> {
        let mut services = Vec::new();
        if let Some(folder) = database.strip_prefix("sqlite:") {
            for service in SERVICES {
                let file = format!("sqlite://{folder}/{service}.db?mode=ro");
                services.push(OfService(Database::connect(file).await?, String::new()));
            }
            return Ok(Self(services));
        }
        let db = Database::connect(database).await?;
        for service in SERVICES {
            services.push(OfService(db.clone(), format!("{service}.")));
        }
        Ok(Self(services))
    }

    /// The rows of a table of all services.
    async fn count(&self, table: &str) -> anyhow::Result<u64> {
        let mut all = 0;
        for OfService(db, prefix) in &self.0 {
            let count = format!("SELECT count(*) FROM {prefix}{table}");
            let count = Statement::from_string(db.get_database_backend(), count);
            let row = db.query_one_raw(count).await?.context("a count")?;
            all += u64::try_from(row.try_get_by_index::<i64>(0)?)?;
        }
        Ok(all)
    }
}
