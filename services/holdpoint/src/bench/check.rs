//! Checks the tables after a measurement. These queries belong to no service.

use std::time::{Duration, Instant};

use holdpoint_store::{Location, open_readers};
use sea_orm::{ConnectionTrait, DatabaseConnection, Statement, TryGetable};
use serde_json::{Value, json};

/// How long a service may need for the effects of the last answer.
const SETTLED_WITHIN: Duration = Duration::from_secs(20);

/// Counts runs; `ok` means that all of them are complete. Each history has no gap. Without `last_seq` its length is not
/// checked.
pub(super) async fn check_runs(
    location: &Location,
    steps: usize,
    expected: u64,
    last_seq: Option<u64>,
) -> anyhow::Result<Value> {
    let db = open_readers(location, 1).await?;
    let all = count(&db, "runs").await?;
    let completed = count(&db, "runs WHERE status = 'completed'").await?;
    let steps = format!(
        "(SELECT run_id FROM steps WHERE status IN ('completed', 'succeeded') \
         GROUP BY run_id HAVING count(*) = {steps}) AS complete"
    );
    let steps = count(&db, &steps).await?;
    let last_seq = last_seq.map_or_else(|| "max(last_seq)".to_owned(), |seq| seq.to_string());
    let history = format!(
        "(SELECT run_id FROM history GROUP BY run_id \
         HAVING min(first_seq) = 1 AND max(last_seq) = {last_seq} \
         AND sum(last_seq - first_seq + 1) = max(last_seq)) AS complete"
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

/// The number of completed runs.
pub(super) async fn count_completed(location: &Location) -> anyhow::Result<u64> {
    count_in(location, "runs WHERE status = 'completed'").await
}

/// The number of requests whose decision was applied to their runs, once there are as many as expected or the time is
/// over.
pub(super) async fn await_decided(location: &Location, expected: u64) -> anyhow::Result<u64> {
    let decided = "requests WHERE status = 'decided' AND effect = 'applied'";
    await_count(location, decided, expected).await
}

/// The number of requests that have notified exactly one user, as [`await_decided`].
pub(super) async fn await_notified(location: &Location, expected: u64) -> anyhow::Result<u64> {
    let notified = "(SELECT hold FROM inbox_entries GROUP BY hold HAVING count(*) = 1) AS notified";
    await_count(location, notified, expected).await
}

async fn await_count(location: &Location, rows: &str, expected: u64) -> anyhow::Result<u64> {
    let began = Instant::now();
    loop {
        let counted = count_in(location, rows).await?;
        if counted == expected || began.elapsed() > SETTLED_WITHIN {
            return Ok(counted);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The number of runs.
pub(super) async fn count_runs(location: &Location) -> anyhow::Result<u64> {
    count_in(location, "runs").await
}

async fn count_in(location: &Location, rows: &str) -> anyhow::Result<u64> {
    let db = open_readers(location, 1).await?;
    let counted = count(&db, rows).await?;
    db.close().await?;
    Ok(counted)
}

/// Counts timers. Rows of fired timers have no due time, so their delay is not measured here.
pub(super) async fn count_timers(location: &Location) -> anyhow::Result<Value> {
    let db = open_readers(location, 1).await?;
    let fired = count(&db, "timers WHERE status = 'fired'").await?;
    let pending = count(&db, "timers WHERE status = 'pending'").await?;
    let version = version(&db).await?;
    db.close().await?;
    Ok(json!({ "timers_fired": fired, "timers_pending": pending, "database": version }))
}

async fn version(db: &DatabaseConnection) -> anyhow::Result<String> {
    let query = if holdpoint_store::is_sqlite(db) {
        "SELECT 'SQLite ' || sqlite_version() AS value"
    } else {
        "SELECT 'Postgres ' || current_setting('server_version') AS value"
    };
    Ok(query_value(db, query).await?.unwrap_or_default())
}

async fn count(db: &DatabaseConnection, rows: &str) -> anyhow::Result<u64> {
    let query = format!("SELECT count(*) AS value FROM {rows}");
    let count: Option<i64> = query_value(db, &query).await?;
    Ok(u64::try_from(count.unwrap_or(0))?)
}

/// The column `value` of the first row.
async fn query_value<T: TryGetable>(
    db: &DatabaseConnection,
    query: &str,
) -> anyhow::Result<Option<T>> {
    let statement = Statement::from_string(db.get_database_backend(), query);
    let row = db.query_one_raw(statement).await?;
    Ok(row.map(|row| row.try_get("", "value")).transpose()?)
}
