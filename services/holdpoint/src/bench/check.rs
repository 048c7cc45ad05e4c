//! Looks into the tables in the end: an auditor's queries, of no service.

use holdpoint_store::{Location, open_readers};
use sea_orm::{ConnectionTrait, DatabaseConnection, Statement};
use serde_json::{Value, json};

use super::STEPS;

/// What the tables say of all runs, with what they ought to say.
pub(super) async fn runs(
    location: &Location,
    expected: u64,
    last_seq: u64,
) -> anyhow::Result<Value> {
    let db = open_readers(location, 1).await?;
    let completed = count(
        &db,
        "SELECT count(*) AS n FROM runs WHERE status = 'completed'",
    )
    .await?;
    let all = count(&db, "SELECT count(*) AS n FROM runs").await?;
    let steps = format!(
        "SELECT count(*) AS n FROM (SELECT run_id FROM steps WHERE status IN ('completed', 'succeeded') \
         GROUP BY run_id HAVING count(*) = {STEPS}) AS whole"
    );
    let steps = count(&db, &steps).await?;
    let history = format!(
        "SELECT count(*) AS n FROM (SELECT run_id FROM history GROUP BY run_id \
         HAVING min(first_seq) = 1 AND max(last_seq) = {last_seq} \
         AND sum(last_seq - first_seq + 1) = {last_seq}) AS whole"
    );
    let history = count(&db, &history).await?;
    let version = version(&db).await?;
    db.close().await?;
    let counts = [all, completed, steps, history];
    Ok(json!({
        "runs": all,
        "runs_completed": completed,
        "runs_with_all_steps_succeeded": steps,
        "runs_with_whole_history": history,
        "ok": counts.iter().all(|it| *it == expected),
        "database": version,
    }))
}

/// How late timers were decided: the time of the batch that fired them against their due time. Rows
/// of fired timers have no due time any more, so only their number is looked at here.
pub(super) async fn timers(location: &Location) -> anyhow::Result<Value> {
    let db = open_readers(location, 1).await?;
    let fired = count(
        &db,
        "SELECT count(*) AS n FROM timers WHERE status = 'fired'",
    )
    .await?;
    let pending = count(
        &db,
        "SELECT count(*) AS n FROM timers WHERE status = 'pending'",
    )
    .await?;
    let version = version(&db).await?;
    db.close().await?;
    Ok(json!({ "timers_fired": fired, "timers_pending": pending, "database": version }))
}

async fn version(db: &DatabaseConnection) -> anyhow::Result<String> {
    let query = if holdpoint_store::is_sqlite(db) {
        "SELECT 'SQLite ' || sqlite_version() AS v"
    } else {
        "SELECT 'Postgres ' || current_setting('server_version') AS v"
    };
    let row = db.query_one_raw(statement(db, query)).await?;
    Ok(row
        .map(|row| row.try_get("", "v"))
        .transpose()?
        .unwrap_or_default())
}

async fn count(db: &DatabaseConnection, query: &str) -> anyhow::Result<u64> {
    let row = db.query_one_raw(statement(db, query)).await?;
    let count: i64 = row
        .map(|row| row.try_get("", "n"))
        .transpose()?
        .unwrap_or(0);
    Ok(u64::try_from(count)?)
}

fn statement(db: &DatabaseConnection, query: &str) -> Statement {
    Statement::from_string(db.get_database_backend(), query)
}
