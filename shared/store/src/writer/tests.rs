use std::time::Duration;

use futures_util::FutureExt as _;
use sea_orm::{ConnectionTrait, DbBackend, QueryResult, Statement};

use super::*;
use crate::{open_readers, open_writer};

async fn writer() -> (tempfile::TempDir, Location, TableWriter) {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Sqlite(folder.path().join("new/tables.db"));
    let writer = TableWriter::open(&location).await.unwrap();
    writer
        .run_alone("CREATE TABLE said (place INTEGER PRIMARY KEY, text TEXT)")
        .await
        .unwrap();
    (folder, location, writer)
}

fn add(place: i64) -> Statement {
    let sql = "INSERT INTO said VALUES (?, 'word')";
    Statement::from_sql_and_values(DbBackend::Sqlite, sql, [place.into()])
}

/// What another connection sees.
async fn places(location: &Location) -> Vec<i64> {
    let db = open_readers(location, 1).await.unwrap();
    let all = Statement::from_string(DbBackend::Sqlite, "SELECT place FROM said ORDER BY place");
    let rows = db.query_all_raw(all).await.unwrap();
    let place = |row: &QueryResult| row.try_get_by_index::<i64>(0).unwrap();
    rows.iter().map(place).collect()
}

/// A transaction that does not wait for the lock of another one.
async fn impatient(location: &Location) -> Transaction {
    let Location::Sqlite(path) = location else {
        panic!("not a file");
    };
    let options = options(path).busy_timeout(Duration::ZERO);
    let connection = connect(&options).await.unwrap();
    Transaction::exclusive(ExclusiveConnection::new(
        connection,
        IdleConnection::default(),
    ))
}

/// Whether the connection is at hand, so that the next transaction needs no new one.
fn is_home(writer: &TableWriter) -> bool {
    let Mode::Sqlite(_, home) = &writer.0 else {
        return false;
    };
    let connection = home.take();
    let is_home = connection.is_some();
    connection.into_iter().for_each(|it| home.put(it));
    is_home
}

#[tokio::test]
async fn a_commit_is_stored_and_returns_the_connection() {
    let (_folder, location, writer) = writer().await;
    for place in 1..=3 {
        let tx = writer.begin().await.unwrap();
        tx.defer(add(place)).await.unwrap();
        tx.commit().await.unwrap();
        assert!(is_home(&writer));
    }
    let tx = writer.begin().await.unwrap();
    assert_eq!(tx.execute_raw(add(4)).await.unwrap().rows_affected(), 1);
    let one = Statement::from_string(DbBackend::Sqlite, "SELECT max(place) FROM said");
    let row = tx.query_one_raw(one).await.unwrap().unwrap();
    assert_eq!(
        row.try_get_by_index::<i64>(0).unwrap(),
        4,
        "it sees its own"
    );
    assert_eq!(places(&location).await, [1, 2, 3], "nobody else does");
    tx.commit().await.unwrap();
    assert_eq!(places(&location).await, [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_transaction_without_a_statement_takes_no_lock() {
    let (_folder, location, writer) = writer().await;
    let other = TableWriter::open(&location).await.unwrap();
    let holds_it = writer.begin().await.unwrap();
    holds_it.execute_raw(add(1)).await.unwrap();
    let empty = other.begin().await.unwrap();
    empty.commit().await.unwrap();
    assert!(is_home(&other));
    holds_it.commit().await.unwrap();
    assert_eq!(places(&location).await, [1]);
}

/// A connection that was left within a transaction is never used again.
#[tokio::test]
async fn a_dropped_or_refused_transaction_writes_nothing() {
    let (_folder, location, writer) = writer().await;
    let tx = writer.begin().await.unwrap();
    tx.execute_raw(add(1)).await.unwrap();
    drop(tx);
    assert!(!is_home(&writer));

    let tx = writer.begin().await.unwrap();
    tx.defer(add(2)).await.unwrap();
    tx.defer(add(2)).await.unwrap();
    tx.commit().await.unwrap_err();
    assert!(!is_home(&writer));

    let tx = writer.begin().await.unwrap();
    tx.execute_raw(add(3)).await.unwrap();
    tx.rollback().await.unwrap();

    let tx = writer.begin().await.unwrap();
    tx.execute_raw(add(4)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(places(&location).await, [4]);
}

/// SQLite rolls back by itself where the disk is full: what follows must not stay by itself.
#[tokio::test]
async fn a_full_disk_ends_a_transaction_and_its_connection() {
    let (_folder, location, writer) = writer().await;
    let tx = writer.begin().await.unwrap();
    tx.execute_raw(add(1)).await.unwrap();
    tx.execute_unprepared("PRAGMA max_page_count = 1")
        .await
        .unwrap();
    let large = "INSERT INTO said VALUES (2, hex(zeroblob(100000)))";
    tx.execute_unprepared(large).await.unwrap_err();
    tx.execute_raw(add(3)).await.unwrap_err();
    tx.commit().await.unwrap_err();
    assert!(!is_home(&writer));
    assert!(places(&location).await.is_empty());

    assert!(writer.takes_writes().await);
    let tx = writer.begin().await.unwrap();
    tx.defer(add(4)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(places(&location).await, [4]);
    writer.close().await.unwrap();
}

/// Where SQLite's thread ends in the middle, the driver says nothing of it.
#[tokio::test]
async fn a_dead_thread_has_not_committed() {
    let (_folder, location, writer) = writer().await;
    // The driver counts placeholders from one, and its thread panics at this one.
    let fatal = || Statement::from_string(DbBackend::Sqlite, "DELETE FROM said WHERE $0");
    let tx = writer.begin().await.unwrap();
    tx.defer(add(1)).await.unwrap();
    tx.defer(fatal()).await.unwrap();
    tx.commit().await.unwrap_err();

    let tx = writer.begin().await.unwrap();
    tx.defer(add(2)).await.unwrap();
    tx.defer(fatal()).await.unwrap();
    tx.commit_with(add(3)).await.unwrap_err();

    assert!(!is_home(&writer));
    assert!(places(&location).await.is_empty());
    let tx = writer.begin().await.unwrap();
    tx.commit_with(add(4)).await.unwrap();
    assert_eq!(places(&location).await, [4]);
}

/// All statements are done, and the commit itself is refused.
#[tokio::test]
async fn a_refused_commit_is_an_error_and_writes_nothing() {
    let (_folder, location, writer) = writer().await;
    let checked_last = "CREATE TABLE heard \
        (place INTEGER REFERENCES said (place) DEFERRABLE INITIALLY DEFERRED)";
    writer.run_alone(checked_last).await.unwrap();
    let hear = |place: i64| {
        let sql = "INSERT INTO heard VALUES (?) RETURNING place";
        Statement::from_sql_and_values(DbBackend::Sqlite, sql, [place.into()])
    };
    let tx = writer.begin().await.unwrap();
    tx.defer(add(1)).await.unwrap();
    tx.commit_with(hear(9)).await.unwrap_err();
    assert!(!is_home(&writer));

    let tx = writer.begin().await.unwrap();
    tx.defer(add(2)).await.unwrap();
    assert!(tx.query_one_raw(hear(9)).await.unwrap().is_some());
    tx.commit().await.unwrap_err();
    assert!(!is_home(&writer));

    let tx = writer.begin().await.unwrap();
    tx.defer(add(3)).await.unwrap();
    let rows = tx.commit_with(hear(3)).await.unwrap();
    assert_eq!(rows.len(), 1, "what the last write returns");
    assert_eq!(rows[0].try_get_by_index::<i64>(0).unwrap(), 3);
    assert_eq!(places(&location).await, [3]);
}

/// A statement that is sent with a refused `BEGIN` must not be done alone.
#[tokio::test]
async fn a_transaction_that_cannot_begin_writes_nothing() {
    let (_folder, location, writer) = writer().await;
    let holds_it = writer.begin().await.unwrap();
    holds_it.execute_raw(add(1)).await.unwrap();
    let tx = impatient(&location).await;
    tx.defer(add(2)).await.unwrap();
    tx.commit().await.unwrap_err();
    let tx = impatient(&location).await;
    tx.defer(add(3)).await.unwrap();
    tx.commit_with(add(4)).await.unwrap_err();
    let tx = impatient(&location).await;
    tx.execute_raw(add(5)).await.unwrap_err();
    tx.execute_raw(add(6)).await.unwrap_err();
    tx.commit().await.unwrap_err();
    holds_it.commit().await.unwrap();
    assert_eq!(places(&location).await, [1]);
}

/// An abandoned commit is atomic, and later statements are not part of it.
#[tokio::test]
async fn an_abandoned_transaction_is_atomic() {
    let (_folder, location, writer) = writer().await;
    for place in 0..10 {
        let tx = writer.begin().await.unwrap();
        tx.defer(add(2 * place)).await.unwrap();
        tx.defer(add(2 * place + 1)).await.unwrap();
        let is_done = tx.commit().now_or_never().is_some();
        assert_eq!(is_home(&writer), is_done);
    }
    let tx = writer.begin().await.unwrap();
    tx.defer(add(100)).await.unwrap();
    tx.commit().await.unwrap();
    let places = places(&location).await;
    let halves = |place: &&i64| **place < 100 && !places.contains(&(*place ^ 1));
    assert_eq!(places.iter().find(halves), None, "{places:?}");
    assert!(places.contains(&100));
}

/// A new connection is set as the first one was: where a commit is on disk, and what it checks.
#[tokio::test]
async fn every_connection_has_the_same_options() {
    let (_folder, _location, writer) = writer().await;
    for is_new in [false, true] {
        if is_new {
            let tx = writer.begin().await.unwrap();
            tx.execute_raw(add(1)).await.unwrap();
            drop(tx);
        }
        assert_eq!(is_home(&writer), !is_new);
        let tx = writer.begin().await.unwrap();
        let mut settings = Vec::new();
        for name in [
            "synchronous",
            "foreign_keys",
            "busy_timeout",
            "cache_size",
            "wal_autocheckpoint",
        ] {
            let ask = Statement::from_string(DbBackend::Sqlite, format!("PRAGMA {name}"));
            let row = tx.query_one_raw(ask).await.unwrap().unwrap();
            settings.push(row.try_get_by_index::<i64>(0).unwrap());
        }
        // `synchronous` 2 is FULL.
        assert_eq!(settings, [2, 1, 5_000, -8_192, 0]);
        let ask = Statement::from_string(DbBackend::Sqlite, "PRAGMA journal_mode");
        let row = tx.query_one_raw(ask).await.unwrap().unwrap();
        assert_eq!(row.try_get_by_index::<String>(0).unwrap(), "wal");
        tx.commit().await.unwrap();
    }
}

/// Writers and readers open the same file for every path.
#[tokio::test]
async fn a_path_with_special_characters_is_used_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["50%41 of it", "what?mode=ro", "#1 [a b]"] {
        let location = Location::Sqlite(folder.path().join(name).join("tables.db"));
        let writer = TableWriter::open(&location).await.unwrap();
        writer
            .run_alone("CREATE TABLE said (place INTEGER)")
            .await
            .unwrap();
        assert!(places(&location).await.is_empty(), "{name}");
    }
}

/// Nobody makes checkpoints beside a pool, so SQLite does.
#[tokio::test]
async fn the_log_of_a_pool_stays_short() {
    const MIB: u64 = 1 << 20;
    let (folder, location, _writer) = writer().await;
    let db = open_writer(&location).await.unwrap();
    for place in 1..=32 {
        let sql = "INSERT INTO said VALUES (?, hex(zeroblob(262144)))";
        let add = Statement::from_sql_and_values(DbBackend::Sqlite, sql, [place.into()]);
        db.execute_raw(add).await.unwrap();
    }
    let log = folder.path().join("new/tables.db-wal");
    let bytes = std::fs::metadata(log).unwrap().len();
    assert!((MIB..8 * MIB).contains(&bytes), "{bytes} of 16 MiB written");
}
