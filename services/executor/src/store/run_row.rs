//! Table `runs`: control state, and the columns that runs are found by.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use holdpoint_contracts::run::{HoldKind, RunStatus};
use holdpoint_ids::{AgentName, RunId, Workspace};
use holdpoint_store::{
    ROWS_PER_STATEMENT, SPARE_ROWS, StoreError, Transaction, guarded, insert_returning, is_sqlite,
    readable,
};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, Func};
use sea_orm::{Condition, QueryOrder, QuerySelect};

use crate::domain::scope::Cursor;
use crate::domain::{Key, Run};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "runs")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub workspace: String,
    pub agent: String,
    pub status: String,
    pub version: i64,
    pub prior_version: i64,
    pub state: String,
    pub labels: String,
    pub created_at: DateTimeUtc,
    pub resume_at: Option<DateTimeUtc>,
    pub ended_at: Option<DateTimeUtc>,
}

impl ActiveModelBehavior for ActiveModel {}

/// Which runs a list is to have.
#[derive(Debug)]
pub(crate) struct Filter<'f> {
    pub(crate) workspace: &'f Workspace,
    pub(crate) status: Option<RunStatus>,
    /// Every run that has not ended, too: its row may not say what it is.
    pub(crate) or_open: bool,
    /// Only those that wait on a hold of this kind; the caller looks into each run that is open.
    pub(crate) hold: Option<HoldKind>,
    pub(crate) agent: Option<&'f AgentName>,
    pub(crate) label: Option<(&'f str, &'f str)>,
    pub(crate) created_after: Option<DateTime<Utc>>,
    /// Only older ones than this.
    pub(crate) before: Option<RunId>,
    pub(crate) limit: u64,
}

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken("runs", error)
}

fn read(row: &Model) -> Result<Run, StoreError> {
    serde_json::from_str(&row.state).map_err(broken)
}

pub(crate) async fn load(db: &impl ConnectionTrait, ids: &[RunId]) -> Result<Vec<Run>, StoreError> {
    let mut runs = Vec::with_capacity(ids.len());
    for chunk in ids.chunks(ROWS_PER_STATEMENT) {
        let ids = chunk.iter().map(|id| id.uuid());
        for row in &Entity::find().filter(COLUMN.id.is_in(ids)).all(db).await? {
            runs.push(read(row)?);
        }
    }
    Ok(runs)
}

/// One run of a workspace.
pub(crate) async fn one(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    id: RunId,
) -> Result<Option<Run>, StoreError> {
    let row = Entity::find_by_id(id.uuid())
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .one(db)
        .await?;
    row.as_ref().map(read).transpose()
}

/// Runs, newest first.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    filter: &Filter<'_>,
) -> Result<Vec<Run>, StoreError> {
    let mut query = Entity::find().filter(COLUMN.workspace.eq(filter.workspace.as_str()));
    if let Some(status) = filter.status {
        let mut any = Condition::any().add(COLUMN.status.eq(status.as_str()));
        if filter.or_open {
            any = any.add(COLUMN.ended_at.is_null());
        }
        query = query.filter(any);
    }
    if filter.hold.is_some() {
        query = query.filter(COLUMN.ended_at.is_null());
    }
    if let Some(agent) = filter.agent {
        query = query.filter(COLUMN.agent.eq(agent.as_str()));
    }
    if let Some((name, value)) = filter.label {
        query = query.filter(has_label(db, name, value)?);
    }
    if let Some(after) = filter.created_after {
        query = query.filter(COLUMN.created_at.gt(after));
    }
    if let Some(before) = filter.before {
        query = query.filter(COLUMN.id.lt(before.uuid()));
    }
    let rows = query
        .order_by_desc(Column::Id)
        .limit(filter.limit.saturating_add(SPARE_ROWS))
        .all(db)
        .await?;
    Ok(readable(
        rows,
        filter.limit,
        |row| row.id.to_string(),
        |row| read(&row),
    ))
}

/// Runs of a workspace, or of one agent in it, that have not ended: by agent, then by id, after one.
pub(crate) async fn open(
    db: &impl ConnectionTrait,
    (workspace, agent): (&Workspace, Option<&AgentName>),
    after: Option<&Cursor>,
    limit: u64,
) -> Result<Vec<Cursor>, StoreError> {
    let mut query = Entity::find()
        .select_only()
        .column(Column::Agent)
        .column(Column::Id)
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.ended_at.is_null());
    if let Some(agent) = agent {
        query = query.filter(COLUMN.agent.eq(agent.as_str()));
    }
    if let Some(Cursor { agent, run }) = after {
        let place = Expr::tuple([Expr::col(Column::Agent), Expr::col(Column::Id)]);
        let last = Expr::tuple([Expr::val(agent.as_str()), Expr::val(run.uuid())]);
        query = query.filter(place.gt(last));
    }
    let rows: Vec<(String, Uuid)> = query
        .order_by_asc(Column::Agent)
        .order_by_asc(Column::Id)
        .limit(limit)
        .into_tuple()
        .all(db)
        .await?;
    let places = rows.into_iter().map(|(agent, id)| {
        Ok(Cursor {
            agent: agent.parse().map_err(broken)?,
            run: RunId::from_uuid(id),
        })
    });
    places.collect()
}

/// `"name":"value"` as it stands in the row's JSON, first or after another one. Compared byte by
/// byte: `LIKE` would take `%` and `_` for more than they are and, on SQLite, `A` for `a`.
fn has_label(db: &impl ConnectionTrait, name: &str, value: &str) -> Result<Condition, StoreError> {
    let json = |text: &str| serde_json::to_string(text).map_err(broken);
    let pair = format!("{}:{}", json(name)?, json(value)?);
    let place = if is_sqlite(db) { "instr" } else { "strpos" };
    let stands = |before: char| {
        let text = Expr::val(format!("{before}{pair}"));
        Expr::expr(Func::cust(place).args([Expr::col(Column::Labels), text])).gt(0)
    };
    Ok(Condition::any().add(stands('{')).add(stands(',')))
}

pub(crate) async fn save(db: &Transaction, runs: &[(&Run, u64)]) -> Result<Vec<Key>, StoreError> {
    let columns = ["status", "state", "resume_at", "ended_at"];
    let conflict = guarded("runs", &["id"], &columns);
    let rows = runs.iter().map(|(run, read)| active(run, *read));
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    let won = insert_returning(db, rows, &conflict, &[Column::Id]).await?;
    let won = won.iter().map(|row| row.try_get::<Uuid>("", "id"));
    let won = won.collect::<Result<HashSet<_>, _>>()?;
    let lost = runs.iter().filter(|(run, _)| !won.contains(&run.id.uuid()));
    Ok(lost.map(|(run, _)| Key::Run(run.id)).collect())
}

fn active(run: &Run, read: u64) -> Result<ActiveModel, StoreError> {
    Ok(ActiveModel {
        id: Set(run.id.uuid()),
        workspace: Set(run.workspace.to_string()),
        agent: Set(run.agent.to_string()),
        status: Set(run.status().as_str().to_owned()),
        version: Set(i64::try_from(run.version).map_err(broken)?),
        prior_version: Set(i64::try_from(read).map_err(broken)?),
        state: Set(serde_json::to_string(run).map_err(broken)?),
        labels: Set(serde_json::to_string(&run.labels).map_err(broken)?),
        created_at: Set(run.created_at),
        resume_at: Set(run.resume_at()),
        ended_at: Set(run.ended_at()),
    })
}
