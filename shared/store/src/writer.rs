//! The one that writes.
//!
//! On SQLite it is a connection by itself: a pool asks each connection that comes back whether it still lives, and
//! begins and commits by themselves, which are crossings to SQLite's thread that carry no work.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use sea_orm::sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sea_orm::sqlx::{self, AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};
use sea_orm::{
    ConnectionTrait as _, DatabaseConnection, DbErr, ExecResult, QueryResult, RuntimeErr,
    Statement, Values,
};
use sea_query_sqlx::SqlxValues;

use crate::{Location, StoreError, Transaction, begin_write, open_writer, tuned};

/// What writes a service's tables: on SQLite one transaction at a time.
#[derive(Debug)]
pub struct TableWriter(Way);

#[derive(Debug)]
enum Way {
    Sqlite(Box<SqliteConnectOptions>, Home),
    Postgres(DatabaseConnection),
}

impl TableWriter {
    /// Opens it.
    ///
    /// # Errors
    /// [`StoreError`] when the database cannot be opened.
    pub async fn open(location: &Location) -> Result<Self, StoreError> {
        let Location::Sqlite(path) = location else {
            return Ok(Self(Way::Postgres(open_writer(location).await?)));
        };
        crate::provide_folder(path)?;
        let (options, home) = (options(path), Home::default());
        home.put(connect(&options).await?);
        Ok(Self(Way::Sqlite(Box::new(options), home)))
    }

    /// Begins a transaction; on SQLite it takes the write lock with its first statement.
    ///
    /// # Errors
    /// [`StoreError`] when the database is away or busy for too long.
    pub async fn begin(&self) -> Result<Transaction, StoreError> {
        match &self.0 {
            Way::Sqlite(options, home) => {
                let connection = match home.take() {
                    Some(connection) => connection,
                    None => connect(options).await?,
                };
                Ok(Transaction::own(Own::new(connection, home.clone())))
            }
            Way::Postgres(db) => begin_write(db).await,
        }
    }

    /// Whether the tables can be written: a full disk still answers whoever reads.
    pub async fn takes_writes(&self) -> bool {
        match &self.0 {
            // Writes a page of the file and changes nothing in it: nobody reads this number.
            Way::Sqlite(..) => self.alone("PRAGMA user_version = 0").await.is_ok(),
            Way::Postgres(db) => db.ping().await.is_ok(),
        }
    }

    /// A statement by itself, in a transaction.
    async fn alone(&self, sql: &str) -> Result<(), StoreError> {
        let tx = self.begin().await?;
        tx.execute_unprepared(sql).await?;
        tx.commit().await
    }

    /// Closes it.
    ///
    /// # Errors
    /// [`StoreError`] when the database refuses; what was committed stays.
    pub async fn close(self) -> Result<(), StoreError> {
        match self.0 {
            Way::Sqlite(_, home) => match home.take() {
                Some(connection) => Ok(connection.close().await.map_err(away)?),
                None => Ok(()),
            },
            Way::Postgres(db) => Ok(db.close().await?),
        }
    }
}

/// Where the connection is between two transactions. It comes back only from one that ended well: any other is
/// closed, which rolls back whatever SQLite, its driver or a full disk have left open, and the next one is new.
#[derive(Debug, Clone, Default)]
struct Home(Arc<Mutex<Option<SqliteConnection>>>);

impl Home {
    fn take(&self) -> Option<SqliteConnection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, connection: SqliteConnection) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
    }
}

/// A connection within a transaction, which its own statements begin and end.
#[derive(Debug)]
pub(crate) struct Own {
    /// One statement at a time; there is nobody to wait for.
    connection: tokio::sync::Mutex<SqliteConnection>,
    home: Home,
}

impl Own {
    fn new(connection: SqliteConnection, home: Home) -> Self {
        Self {
            connection: tokio::sync::Mutex::new(connection),
            home,
        }
    }

    pub(crate) async fn execute(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        let mut connection = self.connection.lock().await;
        let done = query(statement).execute(&mut *connection).await;
        done.map(Into::into).map_err(refused)
    }

    pub(crate) async fn execute_text(&self, sql: &str) -> Result<ExecResult, DbErr> {
        let mut connection = self.connection.lock().await;
        let done = connection.execute(AssertSqlSafe(sql.to_owned())).await;
        done.map(Into::into).map_err(refused)
    }

    pub(crate) async fn one(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        let mut connection = self.connection.lock().await;
        let row = query(statement).fetch_optional(&mut *connection).await;
        Ok(row.map_err(refused)?.map(Into::into))
    }

    pub(crate) async fn all(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        let mut connection = self.connection.lock().await;
        let rows = query(statement).fetch_all(&mut *connection).await;
        Ok(rows.map_err(refused)?.into_iter().map(Into::into).collect())
    }

    /// To the next transaction; this one has ended.
    pub(crate) fn go_home(self) {
        self.home.put(self.connection.into_inner());
    }
}

fn query(statement: Statement) -> sqlx::query::Query<'static, sqlx::Sqlite, SqlxValues> {
    let values = statement.values.unwrap_or_else(|| Values(Vec::new()));
    sqlx::query_with(AssertSqlSafe(statement.sql), SqlxValues(values))
}

fn options(path: &Path) -> SqliteConnectOptions {
    tuned(SqliteConnectOptions::new())
        .filename(path)
        .create_if_missing(true)
        // Checkpoints are made by a thread and connection of their own.
        .pragma("wal_autocheckpoint", "0")
        .disable_statement_logging()
}

async fn connect(options: &SqliteConnectOptions) -> Result<SqliteConnection, DbErr> {
    SqliteConnection::connect_with(options).await.map_err(away)
}

fn refused(error: sqlx::Error) -> DbErr {
    DbErr::Exec(RuntimeErr::SqlxError(Arc::new(error)))
}

fn away(error: sqlx::Error) -> DbErr {
    DbErr::Conn(RuntimeErr::SqlxError(Arc::new(error)))
}

#[cfg(test)]
mod tests {
    use sea_orm::{ConnectionTrait, DbBackend};

    use super::*;
    use crate::open_readers;

    async fn writer() -> (tempfile::TempDir, Location, TableWriter) {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("new/tables.db"));
        let writer = TableWriter::open(&location).await.unwrap();
        writer
            .alone("CREATE TABLE said (place INTEGER PRIMARY KEY, text TEXT)")
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
        let all =
            Statement::from_string(DbBackend::Sqlite, "SELECT place FROM said ORDER BY place");
        let rows = db.query_all_raw(all).await.unwrap();
        let place = |row: &QueryResult| row.try_get_by_index::<i64>(0).unwrap();
        rows.iter().map(place).collect()
    }

    /// Whether the connection is at hand, so that the next transaction needs no new one.
    fn is_home(writer: &TableWriter) -> bool {
        let Way::Sqlite(_, home) = &writer.0 else {
            return false;
        };
        let connection = home.take();
        let is_home = connection.is_some();
        connection.into_iter().for_each(|it| home.put(it));
        is_home
    }

    #[tokio::test]
    async fn what_is_committed_is_there_and_the_connection_comes_back() {
        let (_folder, location, writer) = writer().await;
        for place in 1..=3 {
            let tx = writer.begin().await.unwrap();
            tx.later(add(place)).await.unwrap();
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
    async fn what_is_dropped_or_refused_leaves_nothing() {
        let (_folder, location, writer) = writer().await;
        let tx = writer.begin().await.unwrap();
        tx.execute_raw(add(1)).await.unwrap();
        drop(tx);
        assert!(!is_home(&writer));

        let tx = writer.begin().await.unwrap();
        tx.later(add(2)).await.unwrap();
        tx.later(add(2)).await.unwrap();
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
        tx.later(add(4)).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(places(&location).await, [4]);
        writer.close().await.unwrap();
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
}
