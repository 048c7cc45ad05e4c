//! Keeps SQLite's write-ahead log short, and writes its file anew after an erasure, on a thread beside the writer's.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, Statement};
use tokio::task::JoinHandle;

use crate::{Location, StoreError, Transaction, begin_write, is_sqlite, open_readers};

/// Length of the log in bytes that triggers a checkpoint.
const LOG_BYTES: u64 = 12 << 20;

/// How often the length of the log is checked while it grows.
const CHECK_EVERY: Duration = Duration::from_millis(250);

/// How often it is checked at rest. Each check wakes two threads.
const CHECK_EVERY_AT_REST: Duration = Duration::from_secs(1);

/// How often a mark of [`mark_for_compaction`] is looked for.
const COMPACT_EVERY: Duration = Duration::from_secs(5);

/// Marks the file of a SQLite database to be written anew, so that the bytes of deleted and replaced rows leave it and
/// its log. The mark is a number in the file's header, so that it is committed with the rows and needs no table. On
/// Postgres nothing happens: autovacuum frees the rows.
///
/// # Errors
/// [`StoreError`] when the database refuses.
pub async fn mark_for_compaction(db: &Transaction) -> Result<(), StoreError> {
    if is_sqlite(db) {
        // A new number each time: an erasure during a compaction is not finished with it.
        let random = RandomState::new().build_hasher().finish();
        let mark = i32::try_from(random >> 33).unwrap_or(0).max(1);
        db.execute_unprepared(&format!("PRAGMA application_id = {mark}"))
            .await?;
    }
    Ok(())
}

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
    let (mut looked_at, mut seen) = (Instant::now(), 0);
    let (mut last, mut pause) = (0, CHECK_EVERY);
    loop {
        tokio::time::sleep(pause).await;
        if looked_at.elapsed() >= COMPACT_EVERY {
            if let Err(error) = compact_if_marked(&db, &mut seen).await {
                tracing::warn!(%error, "compaction failed; erased bytes stay in the file until one succeeds");
            }
            looked_at = Instant::now();
        }
        let found = length(&log);
        pause = if found == last {
            CHECK_EVERY_AT_REST
        } else {
            CHECK_EVERY
        };
        last = found;
        if found < LOG_BYTES {
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

async fn mark_of(db: &impl ConnectionTrait) -> Result<i32, StoreError> {
    let ask = Statement::from_string(DbBackend::Sqlite, "PRAGMA application_id");
    let row = db.query_one_raw(ask).await?;
    Ok(row.map_or(Ok(0), |row| row.try_get_by_index(0))?)
}

/// Writes a file anew and empties its log, if it had the same mark at the last look: a new one tells that an erasure is
/// going on, and each compaction holds the lock of the writer. Writers repeat what they could not commit.
async fn compact_if_marked(db: &DatabaseConnection, seen: &mut i32) -> Result<(), StoreError> {
    let mark = mark_of(db).await?;
    if mark == 0 || std::mem::replace(seen, mark) != mark {
        return Ok(());
    }
    db.execute_unprepared("VACUUM").await?;
    let truncate = Statement::from_string(DbBackend::Sqlite, "PRAGMA wal_checkpoint(TRUNCATE)");
    let row = db.query_one_raw(truncate).await?;
    let is_blocked: i32 = row.map_or(Ok(0), |row| row.try_get_by_index(0))?;
    if is_blocked != 0 {
        // A reader needs the log. The next look tries again.
        return Ok(());
    }
    let tx = begin_write(db).await?;
    if mark_of(&tx).await? == mark {
        tx.execute_unprepared("PRAGMA application_id = 0").await?;
    }
    tx.commit().await
}

fn length(log: &Path) -> u64 {
    std::fs::metadata(log).map_or(0, |file| file.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKER: &str = "zq7marker";

    fn has_marker(dir: &Path) -> bool {
        let files = std::fs::read_dir(dir).unwrap();
        files.into_iter().any(|file| {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            bytes
                .windows(MARKER.len())
                .any(|window| window == MARKER.as_bytes())
        })
    }

    /// A deleted row stays in the file and its log until the file is written anew.
    #[tokio::test]
    async fn a_marked_file_keeps_no_deleted_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(dir.path().join("a.db"));
        let db = open_readers(&location, 1).await.unwrap();
        db.execute_unprepared("CREATE TABLE t (x text)")
            .await
            .unwrap();
        let insert = format!("INSERT INTO t VALUES ('{MARKER}'), ('other')");
        db.execute_unprepared(&insert).await.unwrap();
        let tx = begin_write(&db).await.unwrap();
        let delete = format!("DELETE FROM t WHERE x = '{MARKER}'");
        tx.execute_unprepared(&delete).await.unwrap();
        mark_for_compaction(&tx).await.unwrap();
        tx.commit().await.unwrap();
        assert_ne!(mark_of(&db).await.unwrap(), 0);
        assert!(has_marker(dir.path()));
        let mut seen = 0;
        compact_if_marked(&db, &mut seen).await.unwrap();
        assert!(has_marker(dir.path()), "the erasure may go on");
        compact_if_marked(&db, &mut seen).await.unwrap();
        assert!(!has_marker(dir.path()));
        assert_eq!(mark_of(&db).await.unwrap(), 0);
    }
}
