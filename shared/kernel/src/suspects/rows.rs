//! Tables `kernels` and `suspects`, and the only queries on them.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use holdpoint_store::{StoreError, TableWriter, Transaction, is_sqlite};
use sea_orm::{ConnectionTrait as _, Statement, Value};

/// An input that was alone at so many deaths becomes a dead letter.
pub(super) const DEATHS_MAX: i32 = 3;

/// A statement whose text is the same on both databases.
fn statement(tx: &Transaction, sql: &str, values: impl IntoIterator<Item = Value>) -> Statement {
    Statement::from_sql_and_values(tx.get_database_backend(), sql, values)
}

async fn execute(
    db: &TableWriter,
    sql: &str,
    values: impl IntoIterator<Item = Value>,
) -> Result<(), StoreError> {
    let tx = db.begin().await?;
    tx.execute_raw(statement(&tx, sql, values)).await?;
    tx.commit().await
}

/// Adds a kernel's row; returns the dead kernels with their number of earlier deaths.
pub(super) async fn enter(
    db: &TableWriter,
    name: &str,
    now: DateTime<Utc>,
) -> Result<Vec<(String, i32)>, StoreError> {
    let tx = db.begin().await?;
    let sql = "INSERT INTO kernels (name, deaths, started_at) VALUES ($1, 0, $2)";
    tx.execute_raw(statement(&tx, sql, [name.into(), now.into()]))
        .await?;
    let dead = dead_kernels_in(&tx, name).await?;
    tx.commit().await?;
    Ok(dead)
}

/// Kernels that died, with their number of earlier deaths.
pub(super) async fn dead_kernels(
    db: &TableWriter,
    name: &str,
) -> Result<Vec<(String, i32)>, StoreError> {
    let tx = db.begin().await?;
    let dead = dead_kernels_in(&tx, name).await?;
    tx.commit().await?;
    Ok(dead)
}

async fn dead_kernels_in(tx: &Transaction, name: &str) -> Result<Vec<(String, i32)>, StoreError> {
    // On SQLite no other process has opened the tables. On Postgres a live process holds a lock on its name.
    let sql = if is_sqlite(tx) {
        "SELECT name, deaths FROM kernels WHERE name <> $1"
    } else {
        "SELECT name, deaths FROM kernels WHERE name <> $1 \
         AND pg_try_advisory_xact_lock(hashtextextended(name, 0))"
    };
    let rows = tx.query_all_raw(statement(tx, sql, [name.into()])).await?;
    let read = rows
        .into_iter()
        .map(|row| Ok((row.try_get_by_index(0)?, row.try_get_by_index(1)?)));
    read.collect()
}

/// Sets the number of deaths before this start.
pub(super) async fn set_deaths(
    db: &TableWriter,
    name: &str,
    deaths: i32,
) -> Result<(), StoreError> {
    let sql = "UPDATE kernels SET deaths = $1 WHERE name = $2";
    execute(db, sql, [deaths.into(), name.into()]).await
}

pub(super) async fn remove_kernels(
    db: &TableWriter,
    names: impl IntoIterator<Item = &String>,
) -> Result<(), StoreError> {
    let tx = db.begin().await?;
    for name in names {
        let sql = "DELETE FROM kernels WHERE name = $1";
        tx.defer(statement(&tx, sql, [name.clone().into()])).await?;
    }
    tx.commit().await
}

/// How often an input was noted.
pub(super) async fn begun(tx: &Transaction, digest: &str) -> Result<i32, StoreError> {
    let sql = "SELECT begun FROM suspects WHERE digest = $1";
    let rows = tx
        .query_all_raw(statement(tx, sql, [digest.into()]))
        .await?;
    let begun = rows
        .first()
        .map(|row| row.try_get_by_index(0))
        .transpose()?;
    Ok(begun.unwrap_or(0))
}

pub(super) async fn note(
    tx: &Transaction,
    digest: &str,
    begun: i32,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO suspects (digest, begun, noted_at) VALUES ($1, $2, $3) \
               ON CONFLICT (digest) DO UPDATE SET begun = excluded.begun, noted_at = excluded.noted_at";
    let values = [digest.into(), begun.into(), now.into()];
    tx.execute_raw(statement(tx, sql, values)).await?;
    Ok(())
}

/// Deletes the row of a suspect in a transaction.
pub(crate) async fn forget(tx: &Transaction, digest: &str) -> Result<(), StoreError> {
    // With an unnumbered parameter SQLite executes it together with other statements.
    let sql = if is_sqlite(tx) {
        "DELETE FROM suspects WHERE digest = ?"
    } else {
        "DELETE FROM suspects WHERE digest = $1"
    };
    tx.defer(statement(tx, sql, [digest.into()])).await?;
    Ok(())
}

pub(super) async fn forget_alone(db: &TableWriter, digest: &str) -> Result<(), StoreError> {
    let tx = db.begin().await?;
    forget(&tx, digest).await?;
    tx.commit().await
}

/// Deletes suspects whose inputs were not delivered again.
pub(super) async fn trim(db: &TableWriter, before: DateTime<Utc>) -> Result<(), StoreError> {
    let sql = "DELETE FROM suspects WHERE noted_at < $1";
    execute(db, sql, [before.into()]).await
}

/// The digests of quarantined inputs, and whether each has its dead letter.
pub(super) async fn quarantined(db: &TableWriter) -> Result<HashMap<String, bool>, StoreError> {
    let tx = db.begin().await?;
    let mut quarantined = HashMap::new();
    let sql = "SELECT digest FROM suspects WHERE begun >= $1";
    for row in tx
        .query_all_raw(statement(&tx, sql, [DEATHS_MAX.into()]))
        .await?
    {
        quarantined.insert(row.try_get_by_index(0)?, false);
    }
    let sql = "SELECT digest FROM dead_letters WHERE digest <> $1";
    for row in tx.query_all_raw(statement(&tx, sql, ["".into()])).await? {
        quarantined.insert(row.try_get_by_index(0)?, true);
    }
    tx.commit().await?;
    Ok(quarantined)
}
