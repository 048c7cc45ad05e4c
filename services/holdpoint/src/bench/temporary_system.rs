//! The temporary system of a measurement: a directory, a bus, and services and a load as processes.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use holdpoint_bus::server::{self, Provided};
use holdpoint_ids::RunId;
use sea_orm::{ConnectionTrait, Database};
use serde_json::{Map, Value, json};

use super::child::BenchProcess;
use super::instruction::Api;
use super::machine::Usage;
use super::measurement::{EXECUTOR, GATEWAY, HANDOFF, LOAD, NOTIFICATION, SCHEDULER, UP, WORKER};
use crate::cli::processes::BenchArgs;
use crate::serve::secrets;
use crate::serve::tables::Tables;

pub(super) struct TemporarySystem {
    pub(super) tables: Tables,
    pub(super) directory: PathBuf,
    temporary: Option<tempfile::TempDir>,
    nats: Provided,
    nats_before: Usage,
    processes: Vec<BenchProcess>,
    /// Whether one process `up` runs all services.
    is_up: bool,
    /// The Postgres server, and the temporary database on it.
    database: Option<(String, String)>,
}

impl TemporarySystem {
    /// Creates the directory and starts the bus, but no other process.
    pub(super) async fn start(args: &BenchArgs) -> anyhow::Result<Self> {
        let (database, keep) = (args.database.as_str(), args.keep);
        let temporary = tempfile::Builder::new()
            .prefix("holdpoint-bench-")
            .disable_cleanup(keep)
            .tempdir()?;
        let directory = temporary.path().to_owned();
        let (tables, database) = if database == "sqlite" {
            (Tables::Sqlite(directory.join("tables")), None)
        } else {
            let name = create_database(database).await?;
            let mut url: reqwest::Url = database.parse()?;
            url.set_path(&name);
            let tables = Tables::Postgres(url.to_string());
            (tables, Some((database.to_owned(), name)))
        };
        secrets::read_or_create(&directory.join("secrets.json"))?;
        let nats = server::provide(server::Settings {
            data_dir: directory.join("bus"),
            url: None,
        })
        .await?;
        Ok(Self {
            tables,
            directory,
            temporary: Some(temporary),
            nats,
            nats_before: Usage::default(),
            processes: Vec::new(),
            is_up: args.up,
            database,
        })
    }

    /// Starts a service, `bench-worker` or `bench-load`; returns the milliseconds until it is ready. With `--up` the
    /// first service starts all of them.
    pub(super) async fn start_process(&mut self, name: &'static str) -> anyhow::Result<u128> {
        let name = self.process_of(name);
        if name == UP && self.index_of(UP).is_ok() {
            return Ok(0);
        }
        let path = |name: &str| self.directory.join(name).display().to_string();
        let database_url = match &self.tables {
            Tables::Sqlite(directory) => format!("sqlite:{}", directory.display()),
            Tables::Postgres(url) => url.clone(),
        };
        let mut args = vec![name.to_owned()];
        args.extend(["--nats-url".to_owned(), self.nats.url.clone()]);
        if !is_of_bench(name) {
            args.extend(["--database-url".to_owned(), database_url]);
        }
        if name == UP {
            args.extend(["--json".to_owned(), "--data".to_owned(), path("up")]);
        } else if !is_of_bench(name) {
            args.insert(0, "serve".to_owned());
            args.extend(["--secrets".to_owned(), path("secrets.json")]);
            args.extend(["--mails".to_owned(), path("mails")]);
        }
        if name == GATEWAY {
            args.push("--owner-token".to_owned());
        }
        if name == GATEWAY || name == UP {
            args.extend(["--http", "127.0.0.1:0"].map(str::to_owned));
        }
        let began = Instant::now();
        let process = BenchProcess::start(name, &args, &self.directory).await?;
        self.processes.push(process);
        Ok(began.elapsed().as_millis())
    }

    /// Starts all services as separate processes, a worker and the load; returns the address of the gateway.
    pub(super) async fn start_all(&mut self) -> anyhow::Result<Api> {
        let services = [SCHEDULER, HANDOFF, NOTIFICATION, EXECUTOR, GATEWAY];
        for name in services.into_iter().chain([WORKER, LOAD]) {
            self.start_process(name).await?;
        }
        let ready = &self.process(GATEWAY)?.ready;
        let text = |name: &str| ready.get(name).and_then(Value::as_str).map(str::to_owned);
        // `serve gateway` prints `http`, and `up` prints `url`.
        Ok(Api {
            url: text("http")
                .or_else(|| text("url"))
                .context("the gateway printed no address")?,
            token: text("token").context("the gateway printed no token")?,
        })
    }

    pub(super) fn process(&mut self, name: &'static str) -> anyhow::Result<&mut BenchProcess> {
        let index = self.index_of(name)?;
        self.processes.get_mut(index).context("no process")
    }

    /// Removes a process from the system, so that the caller can end it.
    pub(super) fn take_process(&mut self, name: &'static str) -> anyhow::Result<BenchProcess> {
        let index = self.index_of(name)?;
        Ok(self.processes.remove(index))
    }

    /// The process that a service runs in.
    fn process_of(&self, name: &'static str) -> &'static str {
        if self.is_up && !is_of_bench(name) {
            UP
        } else {
            name
        }
    }

    fn index_of(&self, name: &'static str) -> anyhow::Result<usize> {
        let name = self.process_of(name);
        let mut processes = self.processes.iter();
        let index = processes.position(|process| process.name == name);
        index.with_context(|| format!("{name} does not run"))
    }

    /// Resets the usage of all processes.
    pub(super) fn begin_measurement(&mut self) {
        self.nats_before = self.nats.pid().map(Usage::of).unwrap_or_default();
        for process in &mut self.processes {
            process.before = Usage::of(process.pid);
        }
    }

    /// Usage of each process since then.
    fn usage(&self) -> Vec<(&'static str, Usage)> {
        let nats = self.nats.pid();
        let nats = nats.map(|pid| ("nats-server", Usage::of(pid).since(self.nats_before)));
        let processes = self.processes.iter();
        let processes = processes.map(|it| (it.name, Usage::of(it.pid).since(it.before)));
        nats.into_iter().chain(processes).collect()
    }

    /// Memory and CPU of each service and the bus since then, in percent of a core.
    pub(super) fn usage_at_rest(&self, seconds: u64) -> Value {
        let mut all = self.usage();
        all.retain(|(name, _)| !is_of_bench(name));
        let sum = |amount: fn(&Usage) -> u64| all.iter().map(|(_, used)| amount(used)).sum();
        let cpu_ms: u64 = sum(|used| used.cpu_ms);
        let rss_kb: u64 = sum(|used| used.rss_kb);
        let each = all.iter().map(|(name, used)| {
            let used = json!({
                "cpu_percent": per(used.cpu_ms, seconds * 10),
                "rss_mb": used.rss_kb / 1_024,
                "peak_mb": used.peak_kb / 1_024,
            });
            ((*name).to_owned(), used)
        });
        json!({
            "cpu_percent": per(cpu_ms, seconds * 10),
            "rss_mb": rss_kb / 1_024,
            "processes": each.collect::<Map<_, _>>(),
        })
    }

    /// Usage of each process since then, divided by a number of runs or timers.
    pub(super) fn usage_per(&self, count: u64) -> Value {
        let all = self.usage();
        let each = all.iter().map(|(name, used)| {
            let used = json!({
                "cpu_ms": per(used.cpu_ms, count),
                "written_bytes": per(used.written, count),
                "peak_mb": used.peak_kb / 1_024,
            });
            ((*name).to_owned(), used)
        });
        let cpu_ms: u64 = all.iter().map(|(_, used)| used.cpu_ms).sum();
        let written: u64 = all.iter().map(|(_, used)| used.written).sum();
        json!({
            "cpu_ms_each": per(cpu_ms, count),
            "written_bytes_each": per(written, count),
            "processes": each.collect::<Map<_, _>>(),
        })
    }

    pub(super) fn nats_version(&self) -> String {
        self.nats.version.to_string()
    }

    /// Stops all processes and removes directory and database.
    pub(super) async fn remove(mut self) -> anyhow::Result<()> {
        while let Some(process) = self.processes.pop() {
            process.stop().await?;
        }
        self.nats.stop().await;
        if let Some((url, name)) = &self.database {
            let db = Database::connect(url).await?;
            let drop = format!(r#"DROP DATABASE "{name}" WITH (FORCE)"#);
            db.execute_unprepared(&drop).await?;
        }
        drop(self.temporary.take());
        Ok(())
    }
}

/// Whether it is the worker or the load, and not a service.
fn is_of_bench(name: &str) -> bool {
    name.starts_with("bench-")
}

/// A new database, so that the schemas are empty and no data of the server is touched.
async fn create_database(url: &str) -> anyhow::Result<String> {
    let name = format!("bench_{}", RunId::fresh().uuid().simple());
    let db = Database::connect(url).await;
    let db = db.context("cannot connect to the Postgres server")?;
    let create = format!(r#"CREATE DATABASE "{name}""#);
    db.execute_unprepared(&create).await?;
    Ok(name)
}

#[expect(clippy::cast_precision_loss, reason = "shown with three places")]
fn per(amount: u64, count: u64) -> f64 {
    (amount as f64 / count.max(1) as f64 * 1_000.0).round() / 1_000.0
}
