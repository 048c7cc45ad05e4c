//! The way to a service's own database: SQLite file or Postgres schema.
//!
//! Connections, write transactions and migrations; no query of any service. Statements cost, not
//! rows: batches are multi-row statements, see `holdpoint-kernel`.

mod checkpoint;
mod guard;
mod rows;
mod session;
mod transaction;
mod writer;

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use sea_orm::sqlx::pool::PoolConnectionMetadata;
use sea_orm::sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous,
};
use sea_orm::sqlx::{self, Connection as _};
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbBackend, DbErr,
    SqliteTransactionMode, Statement, TransactionOptions, TransactionTrait,
};
use sea_orm_migration::MigratorTrait;

pub use checkpoint::Checkpoints;
pub use guard::guarded;
pub use rows::{SPARE_ROWS, insert_returning, insert_rows, readable};
pub use session::HeldName;
pub use transaction::Transaction;
pub use writer::TableWriter;

/// Rows of one multi-row statement: SQLite takes 32,766 bound values, Postgres 65,535.
pub const ROWS_PER_STATEMENT: usize = 500;

/// Pages that a connection keeps, in SQLite's words (KiB). With each commit that has moved a page SQLite goes through all
/// of its table of them: 64 MiB cost a commit 0.2 ms, and saved nothing that the system's own cache does not give.
const CACHE: &str = "-8192";

/// Rows that SQLite's thread may be ahead of who reads them: of fewer it would wait in the middle of a batch.
const ROWS_AT_ONCE: usize = 2_048;

/// How long a writer waits for another one on the same SQLite file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a query waits for a free connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// A service's tables could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database said no, or is away.
    #[error("the database refused")]
    Database(#[from] DbErr),
    /// The folder of a SQLite file could not be made.
    #[error("cannot make the folder of {path}")]
    Folder {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// A row breaks an invariant: trying again cannot help.
    #[error("a row of `{table}` cannot be read: {reason}")]
    BrokenRow {
        table: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl StoreError {
    /// A row that breaks an invariant.
    pub fn broken(table: &'static str, reason: impl std::fmt::Display) -> Self {
        Self::BrokenRow {
            table,
            reason: reason.to_string(),
        }
    }
}

/// How long a session of Postgres may stand still within a transaction. A process that was stopped
/// there would keep its rows from every other replica; the server ends it instead, nothing of its
/// transaction has happened, and it decides again when it goes on.
const IDLE_MAX: &str = "15s";

/// Where a service's tables are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A file that this process alone writes.
    Sqlite(PathBuf),
    /// A schema of its own in a Postgres database.
    Postgres {
        /// `postgres://…`
        url: String,
        schema: String,
    },
}

impl Location {
    /// Whether one process owns the tables, so that what it wrote last is what is there.
    #[must_use]
    pub const fn is_exclusive(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }
}

/// Opens the one connection that writes (SQLite), or a small pool (Postgres).
///
/// # Errors
/// [`StoreError`] when the database cannot be opened.
pub async fn open_writer(location: &Location) -> Result<DatabaseConnection, StoreError> {
    open(location, if location.is_exclusive() { 1 } else { 4 }).await
}

/// Opens a pool for queries.
///
/// # Errors
/// [`StoreError`] when the database cannot be opened.
pub async fn open_readers(
    location: &Location,
    connections: u32,
) -> Result<DatabaseConnection, StoreError> {
    open(location, connections).await
}

async fn open(location: &Location, connections: u32) -> Result<DatabaseConnection, StoreError> {
    let mut options = match location {
        Location::Sqlite(path) => {
            provide_folder(path)?;
            // Which file is said below: in an address `?` and `%` would not mean themselves.
            ConnectOptions::new("sqlite:")
        }
        Location::Postgres { url, .. } => ConnectOptions::new(url),
    };
    options
        .max_connections(connections)
        .min_connections(1)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .sqlx_logging(false)
        .record_stmt_in_spans(false)
        .test_before_acquire(!location.is_exclusive());
    match location {
        Location::Sqlite(path) => {
            let path = path.clone();
            options.map_sqlx_sqlite_pool_opts(|pool| pool.before_acquire(at_rest));
            options.map_sqlx_sqlite_opts(move |sqlite| tuned(sqlite, &path));
        }
        Location::Postgres { schema, .. } => {
            options.set_schema_search_path(schema);
            options.map_sqlx_postgres_opts(|postgres| {
                postgres.options([("idle_in_transaction_session_timeout", IDLE_MAX)])
            });
        }
    }
    Ok(Database::connect(options).await?)
}

/// How every connection to a SQLite file is set.
fn tuned(options: SqliteConnectOptions, path: &Path) -> SqliteConnectOptions {
    options
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        .pragma("cache_size", CACHE)
        .statement_cache_capacity(500)
        .row_buffer_size(ROWS_AT_ONCE)
}

fn provide_folder(path: &Path) -> Result<(), StoreError> {
    let Some(folder) = path.parent() else {
        return Ok(());
    };
    std::fs::create_dir_all(folder).map_err(|source| StoreError::Folder {
        path: path.to_owned(),
        source,
    })
}

/// Whether a connection may be used again. Where the disk is full SQLite itself rolls back, and the driver
/// goes on counting that transaction as open: what followed would be parts of it, told as committed and never
/// written. Such a connection is closed, and another one opened.
fn at_rest<'c>(
    connection: &'c mut SqliteConnection,
    _meta: PoolConnectionMetadata,
) -> Pin<Box<dyn Future<Output = Result<bool, sqlx::Error>> + Send + 'c>> {
    Box::pin(std::future::ready(Ok(!connection.is_in_transaction())))
}

/// Begins a transaction that writes; on SQLite it takes the write lock at once.
///
/// # Errors
/// [`StoreError`] when the database is away or busy for too long.
pub async fn begin_write(db: &DatabaseConnection) -> Result<Transaction, StoreError> {
    let options = TransactionOptions {
        sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    };
    Ok(Transaction::pooled(db.begin_with_options(options).await?))
}

/// Brings a service's tables up to date; several instances may do so at once.
///
/// # Errors
/// [`StoreError`] when a migration fails; then none of it has happened.
pub async fn migrate<M: MigratorTrait>(location: &Location) -> Result<(), StoreError> {
    if let Location::Postgres { schema, .. } = location {
        return migrate_postgres::<M>(location, schema).await;
    }
    let db = open_writer(location).await?;
    M::up(&db, None).await?;
    Ok(db.close().await?)
}

/// sea-orm's migrator takes no lock, so several at once collide: hold an advisory one meanwhile.
async fn migrate_postgres<M: MigratorTrait>(
    location: &Location,
    schema: &str,
) -> Result<(), StoreError> {
    let db = open(location, 4).await?;
    let lock = begin_write(&db).await?;
    let key = i64::from(schema.bytes().fold(17_u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    }));
    // It is held, and does nothing else, for as long as migrations take.
    lock.execute_unprepared("SET LOCAL idle_in_transaction_session_timeout = 0")
        .await?;
    lock.execute_unprepared(&format!("SELECT pg_advisory_xact_lock({key})"))
        .await?;
    // Making one needs a right that a service's own role has not, even where it is there.
    let known = Statement::from_sql_and_values(
        DbBackend::Postgres,
        "SELECT 1 FROM pg_namespace WHERE nspname = $1",
        [schema.into()],
    );
    if db.query_one_raw(known).await?.is_none() {
        db.execute_unprepared(&format!(r#"CREATE SCHEMA IF NOT EXISTS "{schema}""#))
            .await?;
    }
    M::up(&db, None).await?;
    db.execute_unprepared(COLLATE_AS_BYTES).await?;
    lock.commit().await?;
    Ok(db.close().await?)
}

/// Gives every text column of the schema the collation `C`. Pages are ordered by the database and their
/// cursors are compared in Rust, so both must compare bytes, whatever the collation of the database is (B-4).
const COLLATE_AS_BYTES: &str = r#"DO $$ DECLARE found record; BEGIN
    FOR found IN
        SELECT table_name, column_name, data_type FROM information_schema.columns
        WHERE table_schema = current_schema() AND collation_name IS DISTINCT FROM 'C'
            AND data_type IN ('text', 'character varying')
    LOOP
        EXECUTE format('ALTER TABLE %I ALTER COLUMN %I TYPE %s COLLATE "C"',
            found.table_name, found.column_name, found.data_type);
    END LOOP;
END $$"#;

/// Whether a statement for SQLite or one for Postgres is wanted, where the two differ.
#[must_use]
pub fn is_sqlite(db: &impl ConnectionTrait) -> bool {
    db.get_database_backend() == DbBackend::Sqlite
}
