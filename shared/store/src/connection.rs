//! A connection to SQLite within a transaction.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::TryStreamExt as _;
use sea_orm::sqlx::sqlite::{SqliteConnection, SqliteQueryResult, SqliteRow};
use sea_orm::sqlx::{self, AssertSqlSafe, Either, Executor as _};
use sea_orm::{DbErr, ExecResult, QueryResult, RuntimeErr, Statement, Values};
use sea_query_sqlx::SqlxValues;

use crate::statement_batch::StatementBatch;

/// The connection between two transactions. Only a transaction that ended well returns it. Any other one
/// closes it, which rolls back everything that SQLite, its driver or a full disk left open.
#[derive(Debug, Clone, Default)]
pub(crate) struct IdleConnection(Arc<Mutex<Option<SqliteConnection>>>);

impl IdleConnection {
    pub(crate) fn take(&self) -> Option<SqliteConnection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn put(&self, connection: SqliteConnection) {
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
    pub(crate) fn new(connection: SqliteConnection, idle: IdleConnection) -> Self {
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

fn refused(error: sqlx::Error) -> DbErr {
    DbErr::Exec(RuntimeErr::SqlxError(Arc::new(error)))
}
