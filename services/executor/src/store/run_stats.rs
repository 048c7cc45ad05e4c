//! Results of the newest runs of an agent.

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, Workspace};
use holdpoint_store::{StoreError, is_sqlite};
use sea_orm::entity::prelude::*;
use sea_orm::{FromQueryResult, Statement};

/// One run.
#[derive(Debug, PartialEq, Eq, FromQueryResult)]
pub(crate) struct RunStatsRow {
    pub(crate) status: String,
    /// The class of its failure.
    pub(crate) class: Option<String>,
    pub(crate) active_ms: i64,
    pub(crate) queued_ms: i64,
    pub(crate) human_ms: i64,
}

/// The newest `limit` runs, without those that were created before an instant. Older rows are not read.
pub(crate) async fn newest(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    agent: &AgentName,
    since: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<RunStatsRow>, StoreError> {
    let sql = if is_sqlite(db) {
        "SELECT status, json_extract(state, '$.phase.failure.class') AS class, \
         json_extract(state, '$.clocks.active_ms') AS active_ms, \
         json_extract(state, '$.clocks.queued_ms') AS queued_ms, \
         json_extract(state, '$.clocks.human_ms') AS human_ms FROM (\
         SELECT status, state, created_at FROM runs WHERE workspace = ? AND agent = ? \
         ORDER BY id DESC LIMIT ?) AS newest WHERE created_at >= ?"
    } else {
        // The function parses each state once, and an operator for each field would parse it again.
        "SELECT status, phase #>> '{failure,class}' AS class, \
         (clocks ->> 'active_ms')::bigint AS active_ms, \
         (clocks ->> 'queued_ms')::bigint AS queued_ms, \
         (clocks ->> 'human_ms')::bigint AS human_ms FROM (\
         SELECT status, state, created_at FROM runs WHERE workspace = $1 AND agent = $2 \
         ORDER BY id DESC LIMIT $3) AS newest \
         CROSS JOIN LATERAL json_to_record(state::json) AS parsed(phase json, clocks json) \
         WHERE created_at >= $4"
    };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let values = [
        workspace.as_str().into(),
        agent.as_str().into(),
        limit.into(),
        since.into(),
    ];
    let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, values);
    Ok(RunStatsRow::find_by_statement(statement).all(db).await?)
}
