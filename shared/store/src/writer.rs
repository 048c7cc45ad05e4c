//! The connection that writes a service's tables.
//!
//! On SQLite it belongs to no pool. A pool checks each returned connection, and sends `BEGIN` and `COMMIT`
//! as separate statements. Each of them crosses to SQLite's thread without any work.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::TryStreamExt as _;
use sea_orm::sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteQueryResult, SqliteRow};
use sea_orm::sqlx::{
    self, AssertSqlSafe, ConnectOptions as _, Connection as _, Either, Executor as _,
};
use sea_orm::{
    ConnectionTrait as _, DatabaseConnection, DbErr, ExecResult, QueryResult, RuntimeErr,
    Statement, Values,
};
use sea_query_sqlx::SqlxValues;

use crate::transaction::StatementBatch;
use crate::{Location, StoreError, Transaction, begin_write, open_writer, tuned};

/// Writes a service's tables, on SQLite one transaction at a time.
#[derive(Debug)]
pub struct TableWriter(Mode);

#[derive(Debug)]
enum Mode {
    Sqlite(Box<SqliteConnectOptions>, IdleConnection),
    Postgres(DatabaseConnection),
}

impl TableWriter {
    /// Opens the connection.
    ///
    /// # Errors
    /// [`StoreError`] when the database cannot be opened.
    pub async fn open(location: &Location) -> Result<Self, StoreError> {
        let Location::Sqlite(path) = location else {
            return Ok(Self(Mode::Postgres(open_writer(location).await?)));
        };
        crate::provide_folder(path)?;
        let (options, idle) = (options(path), IdleConnection::default());
        idle.put(connect(&options).await?);
        Ok(Self(Mode::Sqlite(Box::new(options), idle)))
    }

    /// Begins a transaction; on SQLite it takes the write lock with its first statement.
    ///
    /// # Errors
    /// [`StoreError`] when the database is unavailable or busy for too long.
    pub async fn begin(&self) -> Result<Transaction, StoreError> {
        match &self.0 {
            Mode::Sqlite(options, idle) => {
                let connection = match idle.take() {
                    Some(connection) => connection,
                    None => connect(options).await?,
                };
                Ok(Transaction::exclusive(ExclusiveConnection::new(
                    connection,
                    idle.clone(),
                )))
            }
            Mode::Postgres(db) => begin_write(db).await,
        }
    }

    /// Whether the tables can be written. Reads still succeed on a full disk.
    pub async fn takes_writes(&self) -> bool {
        match &self.0 {
            // It writes a page of the file and changes only a number that is never read.
            Mode::Sqlite(..) => self.run_alone("PRAGMA user_version = 0").await.is_ok(),
            Mode::Postgres(db) => db.ping().await.is_ok(),
        }
    }

    /// Runs one statement in a transaction.
    async fn run_alone(&self, sql: &str) -> Result<(), StoreError> {
        let tx = self.begin().await?;
        tx.execute_unprepared(sql).await?;
        tx.commit().await
    }

    /// Closes the connection.
    ///
    /// # Errors
    /// [`StoreError`] when the database refuses; commits remain.
    pub async fn close(self) -> Result<(), StoreError> {
        match self.0 {
            Mode::Sqlite(_, idle) => match idle.take() {
                Some(connection) => Ok(connection.close().await.map_err(unavailable)?),
                None => Ok(()),
            },
            Mode::Postgres(db) => Ok(db.close().await?),
        }
    }
}

/// The connection between two transactions. Only a transaction that ended well returns it. Any other one
/// closes it, which rolls back everything that SQLite, its driver or a full disk left open.
#[derive(Debug, Clone, Default)]
struct IdleConnection(Arc<Mutex<Option<SqliteConnection>>>);

impl IdleConnection {
    fn take(&self) -> Option<SqliteConnection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, connection: SqliteConnection) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
    }
}

/// A connection within a transaction, which its statements begin and end.
#[derive(Debug)]
pub(crate) struct ExclusiveConnection {
    /// One statement at a time. The lock is never contended.
    connection: tokio::sync::Mutex<SqliteConnection>,
    idle: IdleConnection,
}

impl ExclusiveConnection {
    fn new(connection: SqliteConnection, idle: IdleConnection) -> Self {
        Self {
            connection: tokio::sync::Mutex::new(connection),
            idle,
        }
    }

    pub(crate) async fn execute(&self, statement: StatementBatch) -> Result<ExecResult, DbErr> {
        let done = self.done(statement, drop).await;
        done.map(Into::into).map_err(refused)
    }

    pub(crate) async fn execute_text(&self, sql: &str) -> Result<ExecResult, DbErr> {
        let mut connection = self.connection.lock().await;
        let done = connection.execute(AssertSqlSafe(sql.to_owned())).await;
        done.map(Into::into).map_err(refused)
    }

    pub(crate) async fn all(&self, statement: StatementBatch) -> Result<Vec<QueryResult>, DbErr> {
        let mut rows = Vec::new();
        let done = self.done(statement, |row| rows.push(row.into())).await;
        done.map_err(refused)?;
        Ok(rows)
    }

    /// Runs all statements of a batch and counts their results. If SQLite's thread panics in between, the driver
    /// reports no error: the results end as they do after the last statement, the commit.
    async fn done(
        &self,
        StatementBatch { text, statements }: StatementBatch,
        mut take: impl FnMut(SqliteRow),
    ) -> Result<SqliteQueryResult, sqlx::Error> {
        let mut connection = self.connection.lock().await;
        let mut results = connection.fetch_many(query(text));
        let (mut done, mut sum) = (0, SqliteQueryResult::default());
        while let Some(result) = results.try_next().await? {
            match result {
                Either::Left(result) => {
                    done += 1;
                    sum.extend([result]);
                }
                Either::Right(row) => take(row),
            }
        }
        if done < statements {
            return Err(sqlx::Error::WorkerCrashed);
        }
        Ok(sum)
    }

    /// Returns the connection after the end of the transaction.
    pub(crate) fn release(self) {
        self.idle.put(self.connection.into_inner());
    }
}

fn query(statement: Statement) -> sqlx::query::Query<'static, sqlx::Sqlite, SqlxValues> {
    let values = statement.values.unwrap_or_else(|| Values(Vec::new()));
    sqlx::query_with(AssertSqlSafe(statement.sql), SqlxValues(values))
}

fn options(path: &Path) -> SqliteConnectOptions {
    tuned(SqliteConnectOptions::new(), path)
        // A separate thread with a separate connection makes checkpoints.
        .pragma("wal_autocheckpoint", "0")
        .disable_statement_logging()
}

async fn connect(options: &SqliteConnectOptions) -> Result<SqliteConnection, DbErr> {
    SqliteConnection::connect_with(options)
        .await
        .map_err(unavailable)
}

fn refused(error: sqlx::Error) -> DbErr {
    DbErr::Exec(RuntimeErr::SqlxError(Arc::new(error)))
}

fn unavailable(error: sqlx::Error) -> DbErr {
    DbErr::Conn(RuntimeErr::SqlxError(Arc::new(error)))
}

#[cfg(test)]
mod tests;
