//! Table `leases`: who has which started step, and until when without a beat.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use chrono::{DateTime, Utc};
use holdpoint_ids::{RunId, Workspace};
use holdpoint_store::{
    ROWS_PER_STATEMENT, SPARE_ROWS, StoreError, Transaction, insert_rows, readable,
};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::SelectStatement;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict};
use sea_orm::{Condition, QueryOrder, QuerySelect, QueryTrait};

use crate::domain::Lease;

use super::node_row;

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "leases")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub run_id: Uuid,
    pub step_id: String,
    pub workspace: String,
    pub node: String,
    pub dispatch: i64,
    pub claimed_at: DateTimeUtc,
    pub heartbeat_at: DateTimeUtc,
    pub lease_ms: i64,
    pub expires_ms: i64,
}

impl ActiveModelBehavior for ActiveModel {}

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken("leases", error)
}

/// One text for run and step, so that many leases are named in one short list.
pub(crate) fn id(run: RunId, step: &str) -> String {
    format!("{}/{step}", run.uuid().simple())
}

fn read(row: Model) -> Result<Lease, StoreError> {
    Ok(Lease {
        workspace: row.workspace.parse().map_err(broken)?,
        run: RunId::from_uuid(row.run_id),
        step: row.step_id,
        dispatch: u64::try_from(row.dispatch).map_err(broken)?,
        node: node_row::name(&row.node)?,
        claimed_at: row.claimed_at,
        heartbeat_at: row.heartbeat_at,
        lease_ms: u64::try_from(row.lease_ms).map_err(broken)?,
    })
}

fn active(lease: &Lease) -> Result<ActiveModel, StoreError> {
    let lease_ms = i64::try_from(lease.lease_ms).map_err(broken)?;
    Ok(ActiveModel {
        id: Set(id(lease.run, &lease.step)),
        run_id: Set(lease.run.uuid()),
        step_id: Set(lease.step.clone()),
        workspace: Set(lease.workspace.to_string()),
        node: Set(lease.node.to_string()),
        dispatch: Set(i64::try_from(lease.dispatch).map_err(broken)?),
        claimed_at: Set(lease.claimed_at),
        heartbeat_at: Set(lease.heartbeat_at),
        lease_ms: Set(lease_ms),
        expires_ms: Set(lease
            .heartbeat_at
            .timestamp_millis()
            .saturating_add(lease_ms)),
    })
}

/// Writes leases; a newer one of the same step replaces it.
pub(crate) async fn upsert(db: &Transaction, leases: &[&Lease]) -> Result<(), StoreError> {
    let rows = leases.iter().map(|lease| active(lease));
    let newest = OnConflict::column(Column::Id)
        .update_columns([
            Column::Node,
            Column::Dispatch,
            Column::ClaimedAt,
            Column::HeartbeatAt,
            Column::LeaseMs,
            Column::ExpiresMs,
        ])
        .to_owned();
    insert_rows(db, rows.collect::<Result<Vec<_>, _>>()?, Some(&newest)).await
}

/// Names of the nodes that hold leases.
pub(super) fn names_of_nodes() -> SelectStatement {
    Entity::find()
        .select_only()
        .column(Column::Node)
        .into_query()
}

/// Forgets leases by their ids.
pub(crate) async fn forget(db: &Transaction, ids: &[String]) -> Result<(), StoreError> {
    for chunk in ids.chunks(ROWS_PER_STATEMENT) {
        let delete = Entity::delete_many().filter(COLUMN.id.is_in(chunk.iter().cloned()));
        db.later(delete.build(db.get_database_backend())).await?;
    }
    Ok(())
}

/// The leases of what nodes say that they work on begin anew.
pub(crate) async fn beaten(
    db: &impl ConnectionTrait,
    ids: &[String],
    at: DateTime<Utc>,
) -> Result<(), StoreError> {
    let fresh = Expr::val(at.timestamp_millis()).add(Expr::col(Column::LeaseMs));
    for chunk in ids.chunks(ROWS_PER_STATEMENT) {
        Entity::update_many()
            .col_expr(Column::HeartbeatAt, Expr::val(at))
            .col_expr(Column::ExpiresMs, fresh.clone())
            .filter(COLUMN.id.is_in(chunk.iter().cloned()))
            .exec(db)
            .await?;
    }
    Ok(())
}

/// Leases that have run out, and all of nodes that are down, by id after one.
pub(crate) async fn due(
    db: &impl ConnectionTrait,
    now: DateTime<Utc>,
    page: (&str, u64),
) -> Result<Vec<Lease>, StoreError> {
    let (after, limit) = page;
    let any = Condition::any()
        .add(COLUMN.expires_ms.lte(now.timestamp_millis()))
        .add(COLUMN.node.in_subquery(node_row::names_of_down()));
    let rows = Entity::find()
        .filter(any)
        .filter(COLUMN.id.gt(after))
        .order_by_asc(Column::Id)
        .limit(limit.saturating_add(SPARE_ROWS))
        .all(db)
        .await?;
    Ok(readable(rows, limit, |row| row.id.clone(), read))
}

/// Leases of a workspace, oldest first.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    limit: u64,
) -> Result<Vec<Lease>, StoreError> {
    let rows = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .order_by_asc(Column::ClaimedAt)
        .order_by_asc(Column::Id)
        .limit(limit.saturating_add(SPARE_ROWS))
        .all(db)
        .await?;
    Ok(readable(rows, limit, |row| row.id.clone(), read))
}

/// Leases by their ids.
pub(crate) async fn load(
    db: &impl ConnectionTrait,
    ids: &[String],
) -> Result<Vec<Lease>, StoreError> {
    let mut leases = Vec::with_capacity(ids.len());
    for chunk in ids.chunks(ROWS_PER_STATEMENT) {
        let query = Entity::find().filter(COLUMN.id.is_in(chunk.iter().cloned()));
        for row in query.all(db).await? {
            leases.push(read(row)?);
        }
    }
    Ok(leases)
}
