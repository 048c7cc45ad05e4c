//! Access to a service's database, a SQLite file or a Postgres schema.
//!
//! It owns connections, write transactions, migrations and the rows of aggregates ([`StateRow`],
//! [`ColumnRow`]), and contains no query of a service. Statements cost and rows do not, so batches are multi-row statements.

mod checkpoint;
mod column_row;
mod connection;
pub mod crash;
mod guard;
mod rows;
mod session;
mod state_row;
mod statement_batch;
mod transaction;
mod writer;

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use sea_orm::sea_query::{Expr, ExprTrait as _, Func, IntoColumnRef};
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

pub use checkpoint::{Checkpoints, mark_for_compaction};
pub use column_row::ColumnRow;
pub use guard::{is_conflict, upsert_if_version};
pub use rows::{SPARE_ROWS, insert_returning, insert_rows, readable};
pub use session::HeldName;
pub use state_row::{BrokenRow, ChangedState, GuardedTable, KeyOf, StateRow, StoredState, page};
pub use transaction::Transaction;
pub use writer::TableWriter;

/// Rows of one multi-row statement: SQLite takes 32,766 bound values, Postgres 65,535.
pub const ROWS_PER_STATEMENT: usize = 500;

/// Page cache of a connection, in KiB as a negative number. With each commit that moved a page, SQLite scans
/// the whole table of cached pages. 64 MiB cost 0.2 ms a commit, and the cache of the system saves as much.
const CACHE: &str = "-8192";

/// Rows that SQLite's thread may read ahead. With fewer it would wait in the middle of a batch.
const ROWS_AT_ONCE: usize = 2_048;

/// How long a writer waits for another writer of the same SQLite file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a query waits for a free connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// A service's tables could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused or is unavailable.
    #[error("the database refused the statement or is unavailable")]
    Database(#[from] DbErr),
    /// The folder of a SQLite file cannot be created.
    #[error("cannot create the folder of {path}")]
    Folder {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// A row breaks an invariant, so a retry cannot help.
    #[error("a row of `{table}` cannot be read: {reason}")]
    BrokenRow { table: &'static str, reason: String },
    /// Another transaction has added the same rows first. Decided again, the rows are other ones.
    #[error("another transaction has added the same rows to `{table}`")]
    Conflict { table: &'static str },
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

/// How long a session of Postgres may be idle within a transaction. A stopped process would otherwise lock
/// its rows for every other replica. The server rolls the transaction back, and the process decides again
/// when it continues.
const IDLE_MAX: &str = "15s";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A file that this process alone writes.
    Sqlite(PathBuf),
    /// A schema in a Postgres database.
    Postgres {
        /// `postgres://…`
        url: String,
        schema: String,
    },
}

impl Location {
    /// Whether one process owns the tables, so that it may cache the rows that it wrote.
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
    let connections = if location.is_exclusive() { 1 } else { 4 };
    open(location, connections, Duration::ZERO).await
}

/// Opens the pool on Postgres for a writer that repeats what fails. A connection that was used within a second is not
/// asked whether it still lives, because the question is a round trip.
async fn open_table_writer(location: &Location) -> Result<DatabaseConnection, StoreError> {
    open(location, 4, Duration::from_secs(1)).await
}

/// Opens a pool for queries.
///
/// # Errors
/// [`StoreError`] when the database cannot be opened.
pub async fn open_readers(
    location: &Location,
    connections: u32,
) -> Result<DatabaseConnection, StoreError> {
    open(location, connections, Duration::ZERO).await
}

/// A connection to Postgres that was idle for `unchecked` is asked whether it still lives.
async fn open(
    location: &Location,
    connections: u32,
    unchecked: Duration,
) -> Result<DatabaseConnection, StoreError> {
    let mut options = match location {
        Location::Sqlite(path) => {
            provide_folder(path)?;
            // The options below name the file, because a URL gives `?` and `%` another meaning.
            ConnectOptions::new("sqlite:")
        }
        Location::Postgres { url, .. } => ConnectOptions::new(url),
    };
    options
        .max_connections(connections)
        .min_connections(1)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        // The pool's search for old connections does one round for each idle connection. Their number falls below zero
        // if a connection is taken while another task returns it. It is unsigned, so the search then never ends.
        .idle_timeout(None)
        .max_lifetime(None)
        .sqlx_logging(false)
        .record_stmt_in_spans(false)
        .test_before_acquire(false);
    match location {
        Location::Sqlite(path) => {
            let path = path.clone();
            options.map_sqlx_sqlite_pool_opts(|pool| pool.before_acquire(is_outside_transaction));
            options.map_sqlx_sqlite_opts(move |sqlite| tuned(sqlite, &path));
        }
        Location::Postgres { schema, .. } => {
            options.set_schema_search_path(schema);
            options.map_sqlx_postgres_pool_opts(move |pool| {
                pool.before_acquire(move |connection, meta| {
                    Box::pin(async move {
                        Ok(meta.idle_for < unchecked || connection.ping().await.is_ok())
                    })
                })
            });
            options.map_sqlx_postgres_opts(|postgres| {
                postgres
                    .options([("idle_in_transaction_session_timeout", IDLE_MAX)])
                    .statement_cache_capacity(250)
            });
        }
    }
    Ok(Database::connect(options).await?)
}

/// Options of every connection to a SQLite file.
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

/// Whether a connection may be used again. When the disk is full, SQLite rolls back, but the driver still
/// counts that transaction as open. Later transactions would be parts of it, reported as committed and never
/// written. The pool closes such a connection and opens another one.
fn is_outside_transaction<'c>(
    connection: &'c mut SqliteConnection,
    _meta: PoolConnectionMetadata,
) -> Pin<Box<dyn Future<Output = Result<bool, sqlx::Error>> + Send + 'c>> {
    Box::pin(std::future::ready(Ok(!connection.is_in_transaction())))
}

/// Begins a transaction that writes; on SQLite it takes the write lock at once.
///
/// # Errors
/// [`StoreError`] when the database is unavailable or busy for too long.
pub async fn begin_write(db: &DatabaseConnection) -> Result<Transaction, StoreError> {
    let options = TransactionOptions {
        sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    };
    Ok(Transaction::pooled(db.begin_with_options(options).await?))
}

/// Migrates a service's tables; several instances may do so at once.
///
/// # Errors
/// [`StoreError`] when a migration fails; then nothing of it was written.
pub async fn migrate<M: MigratorTrait>(location: &Location) -> Result<(), StoreError> {
    if let Location::Postgres { schema, .. } = location {
        return migrate_postgres::<M>(location, schema).await;
    }
    let db = open_writer(location).await?;
    M::up(&db, None).await?;
    Ok(db.close().await?)
}

/// sea-orm's migrator takes no lock and several at once would collide, so this holds an advisory lock.
async fn migrate_postgres<M: MigratorTrait>(
    location: &Location,
    schema: &str,
) -> Result<(), StoreError> {
    let db = open_readers(location, 4).await?;
    let lock = begin_write(&db).await?;
    let key = i64::from(schema.bytes().fold(17_u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    }));
    // The session only holds the lock and is idle for as long as the migrations take.
    lock.execute_unprepared("SET LOCAL idle_in_transaction_session_timeout = 0")
        .await?;
    lock.execute_unprepared(&format!("SELECT pg_advisory_xact_lock({key})"))
        .await?;
    // `CREATE SCHEMA` needs a right that a service's role lacks, even if the schema exists.
    let exists = Statement::from_sql_and_values(
        DbBackend::Postgres,
        "SELECT 1 FROM pg_namespace WHERE nspname = $1",
        [schema.into()],
    );
    if db.query_one_raw(exists).await?.is_none() {
        db.execute_unprepared(&format!(r#"CREATE SCHEMA IF NOT EXISTS "{schema}""#))
            .await?;
    }
    M::up(&db, None).await?;
    db.execute_unprepared(COLLATE_AS_BYTES).await?;
    lock.commit().await?;
    Ok(db.close().await?)
}

/// Gives every text column of the schema the collation `C`. The database orders pages and Rust compares
/// their cursors, so both must compare bytes (B-4).
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

/// Whether the database is SQLite, for statements that differ between the two.
#[must_use]
pub fn is_sqlite(db: &impl ConnectionTrait) -> bool {
    db.get_database_backend() == DbBackend::Sqlite
}

/// Whether a column contains a text. The comparison is by bytes, because `LIKE` treats `%` and `_` as wildcards and, on
/// SQLite, `A` like `a`.
pub fn contains_text(
    db: &impl ConnectionTrait,
    column: impl IntoColumnRef,
    text: impl Into<String>,
) -> Expr {
    let place = if is_sqlite(db) { "instr" } else { "strpos" };
    Expr::expr(Func::cust(place).args([Expr::col(column), Expr::val(text.into())])).gt(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pool's search for old connections may never end. It runs only with one of these limits.
    #[tokio::test]
    async fn no_pool_searches_for_old_connections() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("a.db"));
        let writer = open_writer(&location).await.unwrap();
        let readers = open_readers(&location, 2).await.unwrap();
        for db in [writer, readers] {
            let options = db.get_sqlite_connection_pool().options();
            let limits = (options.get_idle_timeout(), options.get_max_lifetime());
            assert_eq!(limits, (None, None));
        }
    }
}
