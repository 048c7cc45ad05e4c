//! Keeps SQLite's write-ahead log short, on a thread beside the writer's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sea_orm::{ConnectionTrait, DatabaseConnection};
use tokio::task::JoinHandle;

use crate::{Location, StoreError, open_readers};

/// Length of the log in bytes that triggers a checkpoint.
const LOG_BYTES: u64 = 12 << 20;

/// How often the length of the log is checked.
const CHECK_EVERY: Duration = Duration::from_millis(250);

/// The checkpoints of one database; dropping it ends them.
#[derive(Debug)]
pub struct Checkpoints(Option<JoinHandle<()>>);

impl Checkpoints {
    /// Starts the checkpoints; Postgres needs none.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be opened.
    pub async fn start(location: &Location) -> Result<Self, StoreError> {
        let Location::Sqlite(path) = location else {
            return Ok(Self(None));
        };
        let db = open_readers(location, 1).await?;
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        Ok(Self(Some(tokio::spawn(watch(db, PathBuf::from(log))))))
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

async fn watch(db: DatabaseConnection, log: PathBuf) {
    loop {
        tokio::time::sleep(CHECK_EVERY).await;
        if length(&log) < LOG_BYTES {
            continue;
        }
        // A passive checkpoint runs beside the writer. The restart then lets the log begin anew.
        for mode in ["PASSIVE", "RESTART"] {
            let statement = format!("PRAGMA wal_checkpoint({mode})");
            if let Err(error) = db.execute_unprepared(&statement).await {
                tracing::warn!(%error, mode, "checkpoint failed; the log grows until one succeeds");
            }
        }
    }
}

fn length(log: &Path) -> u64 {
    std::fs::metadata(log).map_or(0, |file| file.len())
}
