//! The temporary system that is measured: a folder, a bus, services and a load, each a process.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use holdpoint_auth::Secrets;
use holdpoint_bus::server::{self, Origin, Provided};
use holdpoint_ids::RunId;
use sea_orm::{ConnectionTrait, Database};
use serde_json::{Map, Value, json};

use super::child::Part;
use super::machine::Used;
use crate::serve::secrets;
use crate::serve::tables::Tables;

/// What a measurement runs on.
pub(super) struct Rig {
    pub(super) tables: Tables,
    pub(super) folder: PathBuf,
    temporary: Option<tempfile::TempDir>,
    nats: Provided,
    nats_before: Used,
    parts: Vec<Part>,
    /// The Postgres server, and the database that was made there.
    made: Option<(String, String)>,
}

impl Rig {
    /// A folder and a bus; nothing runs yet.
    pub(super) async fn new(database: &str, keep: bool) -> anyhow::Result<Self> {
        let temporary = tempfile::Builder::new()
            .prefix("holdpoint-bench-")
            .disable_cleanup(keep)
            .tempdir()?;
        let folder = temporary.path().to_owned();
        let made = if database == "sqlite" {
            None
        } else {
            Some(make_database(database).await?)
        };
        let tables = match &made {
            Some((url, name)) => Tables::Postgres(with_database(url, name)?),
            None => Tables::Sqlite(folder.join("tables")),
        };
        secrets_file(&folder)?;
        let wanted = server::Settings {
            data_dir: folder.join("bus"),
            url: None,
        };
        let nats = server::provide(wanted).await?;
        Ok(Self {
            tables,
            folder,
            temporary: Some(temporary),
            nats,
            nats_before: Used::default(),
            parts: Vec::new(),
            made,
        })
    }

    /// Starts a service, the worker (`bench-worker`) or the load (`bench-load`); says how long it
    /// took to be ready, in milliseconds.
    pub(super) async fn start(&mut self, name: &'static str) -> anyhow::Result<u128> {
        let mut words: Vec<String> = if name.starts_with("bench-") {
            vec![name.to_owned()]
        } else {
            let secrets = self.folder.join("secrets.json").display().to_string();
            let mut words: Vec<_> = ["serve", name, "--secrets"].map(str::to_owned).into();
            words.extend([secrets, "--database-url".to_owned(), self.database_url()]);
            words
        };
        words.extend(["--nats-url".to_owned(), self.nats.url.clone()]);
        let began = Instant::now();
        let part = Part::start(name, &words, &self.folder).await?;
        self.parts.push(part);
        Ok(began.elapsed().as_millis())
    }

    fn database_url(&self) -> String {
        match &self.tables {
            Tables::Sqlite(folder) => format!("sqlite:{}", folder.display()),
            Tables::Postgres(url) => url.clone(),
        }
    }

    /// One of the processes.
    pub(super) fn part(&mut self, name: &str) -> anyhow::Result<&mut Part> {
        let part = self.parts.iter_mut().find(|part| part.name == name);
        part.with_context(|| format!("{name} does not run"))
    }

    /// Takes one of the processes out.
    pub(super) fn take(&mut self, name: &str) -> anyhow::Result<Part> {
        let place = self.parts.iter().position(|part| part.name == name);
        Ok(self
            .parts
            .remove(place.with_context(|| format!("{name} does not run"))?))
    }

    /// From here on counts what processes use.
    pub(super) fn begin(&mut self) {
        self.nats_before = self.nats_pid().map(Used::by).unwrap_or_default();
        for part in &mut self.parts {
            part.before = Used::by(part.pid);
        }
    }

    /// What each process has used since, for each of `count` runs or timers.
    pub(super) fn used(&self, count: u64) -> Value {
        let nats = self
            .nats_pid()
            .map(|pid| ("nats-server", Used::by(pid).since(self.nats_before)));
        let parts = self.parts.iter().map(|part| (part.name, part.used()));
        let all: Vec<_> = nats.into_iter().chain(parts).collect();
        let each: Map<_, _> = all
            .iter()
            .map(|(name, used)| {
                let told = json!({
                    "cpu_ms": per(used.cpu_ms, count),
                    "written_bytes": per(used.written, count),
                    "peak_mb": used.peak_kb / 1_024,
                });
                ((*name).to_owned(), told)
            })
            .collect();
        let cpu_ms: u64 = all.iter().map(|(_, used)| used.cpu_ms).sum();
        let written: u64 = all.iter().map(|(_, used)| used.written).sum();
        json!({
            "cpu_ms_each": per(cpu_ms, count),
            "written_bytes_each": per(written, count),
            "processes": each,
        })
    }

    fn nats_pid(&self) -> Option<u32> {
        match &self.nats.origin {
            Origin::Started { pid, .. } | Origin::Adopted { pid } => Some(*pid),
            Origin::Given | Origin::Container { .. } => None,
        }
    }

    /// Version of the bus.
    pub(super) fn nats_version(&self) -> String {
        self.nats.version.to_string()
    }

    /// Ends all processes, and removes what was made.
    pub(super) async fn end(mut self) -> anyhow::Result<()> {
        while let Some(part) = self.parts.pop() {
            part.stop().await?;
        }
        self.nats.stop().await;
        if let Some((url, name)) = &self.made {
            let db = Database::connect(url).await?;
            db.execute_unprepared(&format!(r#"DROP DATABASE "{name}" WITH (FORCE)"#))
                .await?;
        }
        drop(self.temporary.take());
        Ok(())
    }
}

fn secrets_file(folder: &std::path::Path) -> anyhow::Result<Secrets> {
    secrets::read_or_make(&folder.join("secrets.json"))
}

/// A database of its own, so that schemas are fresh and nothing of anybody is touched.
async fn make_database(url: &str) -> anyhow::Result<(String, String)> {
    let name = format!("bench_{}", RunId::fresh().uuid().simple());
    let db = Database::connect(url)
        .await
        .context("cannot connect to the Postgres server")?;
    db.execute_unprepared(&format!(r#"CREATE DATABASE "{name}""#))
        .await?;
    Ok((url.to_owned(), name))
}

fn with_database(url: &str, name: &str) -> anyhow::Result<String> {
    let mut url: reqwest::Url = url.parse()?;
    url.set_path(name);
    Ok(url.to_string())
}

#[expect(clippy::cast_precision_loss, reason = "shown with three places")]
fn per(amount: u64, count: u64) -> f64 {
    (amount as f64 / count.max(1) as f64 * 1_000.0).round() / 1_000.0
}
