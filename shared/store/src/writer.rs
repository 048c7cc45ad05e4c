//! The one that writes.
//!
//! On SQLite it is a connection by itself: a pool asks each connection that comes back whether it still lives, and
//! begins and commits by themselves, which are crossings to SQLite's thread that carry no work.

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

use crate::transaction::Joined;
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
                Ok(Transaction::own(ExclusiveConnection::new(
                    connection,
                    home.clone(),
                )))
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
pub(crate) struct ExclusiveConnection {
    /// One statement at a time; there is nobody to wait for.
    connection: tokio::sync::Mutex<SqliteConnection>,
    home: Home,
}

impl ExclusiveConnection {
    fn new(connection: SqliteConnection, home: Home) -> Self {
        Self {
            connection: tokio::sync::Mutex::new(connection),
            home,
        }
    }

    pub(crate) async fn execute(&self, statement: Joined) -> Result<ExecResult, DbErr> {
        let done = self.done(statement, drop).await;
        done.map(Into::into).map_err(refused)
    }

    pub(crate) async fn execute_text(&self, sql: &str) -> Result<ExecResult, DbErr> {
        let mut connection = self.connection.lock().await;
        let done = connection.execute(AssertSqlSafe(sql.to_owned())).await;
        done.map(Into::into).map_err(refused)
    }

    pub(crate) async fn all(&self, statement: Joined) -> Result<Vec<QueryResult>, DbErr> {
        let mut rows = Vec::new();
        let done = self.done(statement, |row| rows.push(row.into())).await;
        done.map_err(refused)?;
        Ok(rows)
    }

    /// Has all statements of a text done, and counts them. Where SQLite's thread ends in the middle (it panics where it is
    /// misused) the driver says nothing of it: results come to an end as they do after the last statement, the commit.
    async fn done(
        &self,
        Joined { text, statements }: Joined,
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
    tuned(SqliteConnectOptions::new(), path)
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
mod tests;
