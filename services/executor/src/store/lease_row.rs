//! Table `leases`: the node of each started step, and when the lease ends without a heartbeat.

use chrono::{DateTime, Utc};
use holdpoint_ids::{RunId, Workspace};
use holdpoint_store::{
    BrokenRow as _, ROWS_PER_STATEMENT, StateRow as _, StoreError, Transaction, insert_rows,
};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict};
use sea_orm::{Condition, QueryOrder, QuerySelect, QueryTrait};

use crate::domain::{Lease, Node};

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

/// One text for run and step, so that a short list names many leases.
pub(crate) fn id(run: RunId, step: &str) -> String {
    format!("{}/{step}", run.uuid().simple())
}

fn read(row: Model) -> Result<Lease, StoreError> {
    Ok(Lease {
        workspace: row.workspace.parse().map_err(Entity::broken)?,
        run: RunId::from_uuid(row.run_id),
        step: row.step_id,
        dispatch: u64::try_from(row.dispatch).map_err(Entity::broken)?,
        node: row.node.parse().map_err(Entity::broken)?,
        claimed_at: row.claimed_at,
        heartbeat_at: row.heartbeat_at,
        lease_ms: u64::try_from(row.lease_ms).map_err(Entity::broken)?,
    })
}

fn active(lease: &Lease) -> Result<ActiveModel, StoreError> {
    let lease_ms = i64::try_from(lease.lease_ms).map_err(Entity::broken)?;
    Ok(ActiveModel {
        id: Set(id(lease.run, &lease.step)),
        run_id: Set(lease.run.uuid()),
        step_id: Set(lease.step.clone()),
        workspace: Set(lease.workspace.to_string()),
        node: Set(lease.node.to_string()),
        dispatch: Set(i64::try_from(lease.dispatch).map_err(Entity::broken)?),
        claimed_at: Set(lease.claimed_at),
        heartbeat_at: Set(lease.heartbeat_at),
        lease_ms: Set(lease_ms),
        expires_ms: Set(lease
            .heartbeat_at
            .timestamp_millis()
            .saturating_add(lease_ms)),
    })
}

/// Writes leases; a newer lease of the same step replaces the older one.
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

/// Nodes that were down before an instant and hold no lease.
pub(crate) async fn forgettable_nodes(
    db: &impl ConnectionTrait,
    before: DateTimeUtc,
    limit: u64,
) -> Result<Vec<Node>, StoreError> {
    let holders = Entity::find().select_only().column(Column::Node);
    let query = node_row::down()
        .filter(node_row::COLUMN.last_seen.lt(before))
        .filter(node_row::COLUMN.name.not_in_subquery(holders.into_query()));
    node_row::Entity::page(db, query, limit).await
}

pub(crate) async fn forget(db: &Transaction, ids: &[String]) -> Result<(), StoreError> {
    for chunk in ids.chunks(ROWS_PER_STATEMENT) {
        let delete = Entity::delete_many().filter(COLUMN.id.is_in(chunk.iter().cloned()));
        db.defer(delete.build(db.get_database_backend())).await?;
    }
    Ok(())
}

pub(crate) async fn renew(
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

/// Expired leases and all leases of nodes that are down, in the order of their ids, after the given one.
pub(crate) async fn due(
    db: &impl ConnectionTrait,
    now: DateTime<Utc>,
    page: (&str, u64),
) -> Result<Vec<Lease>, StoreError> {
    let (after, limit) = page;
    let down = node_row::down()
        .select_only()
        .column(node_row::Column::Name);
    let any = Condition::any()
        .add(COLUMN.expires_ms.lte(now.timestamp_millis()))
        .add(COLUMN.node.in_subquery(down.into_query()));
    let query = Entity::find()
        .filter(any)
        .filter(COLUMN.id.gt(after))
        .order_by_asc(Column::Id);
    holdpoint_store::page(db, query, limit, read).await
}

/// Leases of a workspace, oldest first.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    limit: u64,
) -> Result<Vec<Lease>, StoreError> {
    let query = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .order_by_asc(Column::ClaimedAt)
        .order_by_asc(Column::Id);
    holdpoint_store::page(db, query, limit, read).await
}

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
