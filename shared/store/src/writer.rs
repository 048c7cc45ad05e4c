//! The connection that writes a service's tables.
//!
//! On SQLite it belongs to no pool. A pool checks each returned connection, and sends `BEGIN` and `COMMIT`
//! as separate statements. Each of them crosses to SQLite's thread without any work.

use std::path::Path;
use std::sync::Arc;

use sea_orm::sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sea_orm::sqlx::{self, ConnectOptions as _, Connection as _};
use sea_orm::{ConnectionTrait as _, DatabaseConnection, DbErr, RuntimeErr};

use crate::connection::{ExclusiveConnection, IdleConnection};
use crate::{Location, StoreError, Transaction, begin_write, open_table_writer, tuned};

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
            return Ok(Self(Mode::Postgres(open_table_writer(location).await?)));
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

fn unavailable(error: sqlx::Error) -> DbErr {
    DbErr::Conn(RuntimeErr::SqlxError(Arc::new(error)))
}

#[cfg(test)]
mod tests;
