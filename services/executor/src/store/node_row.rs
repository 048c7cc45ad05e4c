//! Table `nodes`.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use std::collections::HashSet;

use holdpoint_contracts::steps::NodeStatus;
use holdpoint_ids::NodeName;
use holdpoint_store::{ROWS_PER_STATEMENT, SPARE_ROWS, StoreError, guarded, readable};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, SelectStatement};
use sea_orm::{Condition, QueryOrder, QuerySelect, QueryTrait};

use crate::domain::{Key, Node};
use crate::store::lease_row;

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "nodes")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    pub status: String,
    pub version: i64,
    pub prior_version: i64,
    pub last_seen: DateTimeUtc,
    pub state: String,
}

impl ActiveModelBehavior for ActiveModel {}

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken("nodes", error)
}

fn read(row: &Model) -> Result<Node, StoreError> {
    serde_json::from_str(&row.state).map_err(broken)
}

const fn word(status: NodeStatus) -> &'static str {
    match status {
        NodeStatus::Up => "UP",
        NodeStatus::Suspect => "SUSPECT",
        NodeStatus::Draining => "DRAINING",
        NodeStatus::Down => "DOWN",
    }
}

/// Nodes of these names.
pub(crate) async fn load(
    db: &impl ConnectionTrait,
    names: &[&str],
) -> Result<Vec<Node>, StoreError> {
    let mut nodes = Vec::with_capacity(names.len());
    for chunk in names.chunks(ROWS_PER_STATEMENT) {
        let query = Entity::find().filter(COLUMN.name.is_in(chunk.iter().copied()));
        for row in &query.all(db).await? {
            nodes.push(read(row)?);
        }
    }
    Ok(nodes)
}

/// Nodes: those that live first, and of the others those that were seen last.
pub(crate) async fn list(db: &impl ConnectionTrait, limit: u64) -> Result<Vec<Node>, StoreError> {
    let is_down = ExprTrait::eq(Expr::col(Column::Status), word(NodeStatus::Down));
    let rows = Entity::find()
        .order_by_asc(is_down)
        .order_by_desc(Column::LastSeen)
        .order_by_asc(Column::Name)
        .limit(limit.saturating_add(SPARE_ROWS))
        .all(db)
        .await?;
    Ok(readable(
        rows,
        limit,
        |row| row.name.clone(),
        |row| read(&row),
    ))
}

/// Nodes that were asked to beat.
pub(crate) async fn suspects(
    db: &impl ConnectionTrait,
    limit: u64,
) -> Result<Vec<Node>, StoreError> {
    let rows = Entity::find()
        .filter(COLUMN.status.eq(word(NodeStatus::Suspect)))
        .limit(limit.saturating_add(SPARE_ROWS))
        .all(db)
        .await?;
    Ok(readable(
        rows,
        limit,
        |row| row.name.clone(),
        |row| read(&row),
    ))
}

/// Nodes that were down before an instant and hold no lease.
pub(crate) async fn forgettable(
    db: &impl ConnectionTrait,
    before: DateTimeUtc,
    limit: u64,
) -> Result<Vec<Node>, StoreError> {
    let rows = Entity::find()
        .filter(COLUMN.status.eq(word(NodeStatus::Down)))
        .filter(COLUMN.last_seen.lt(before))
        .filter(COLUMN.name.not_in_subquery(lease_row::names_of_nodes()))
        .limit(limit.saturating_add(SPARE_ROWS))
        .all(db)
        .await?;
    Ok(readable(
        rows,
        limit,
        |row| row.name.clone(),
        |row| read(&row),
    ))
}

/// Names of the nodes that are down.
pub(super) fn names_of_down() -> SelectStatement {
    Entity::find()
        .select_only()
        .column(Column::Name)
        .filter(COLUMN.status.eq(word(NodeStatus::Down)))
        .into_query()
}

pub(crate) async fn save(
    db: &impl ConnectionTrait,
    nodes: &[(&Node, u64)],
) -> Result<Vec<Key>, StoreError> {
    let (forgotten, kept): (Vec<_>, Vec<_>) = nodes.iter().partition(|(node, _)| node.forgotten);
    let mut losers = forget(db, &forgotten).await?;
    for chunk in kept.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk.iter().map(|(node, read)| active(node, *read));
        let won: HashSet<String> = Entity::insert_many(rows.collect::<Result<Vec<_>, _>>()?)
            .on_conflict(guarded(
                "nodes",
                &["name"],
                &["status", "last_seen", "state"],
            ))
            .exec_with_returning_keys(db)
            .await?
            .into_iter()
            .collect();
        let lost = chunk
            .iter()
            .filter(|(node, _)| !won.contains(node.name.as_str()));
        losers.extend(lost.map(|(node, _)| Key::Node(node.name.clone())));
    }
    Ok(losers)
}

/// Removes the rows of nodes that still have the version that was read; returns the other nodes.
async fn forget(
    db: &impl ConnectionTrait,
    nodes: &[&(&Node, u64)],
) -> Result<Vec<Key>, StoreError> {
    let mut losers = Vec::new();
    for chunk in nodes.chunks(ROWS_PER_STATEMENT) {
        let mut any = Condition::any();
        for (node, read) in chunk.iter().copied() {
            let version = i64::try_from(*read).map_err(broken)?;
            let as_read = COLUMN.name.eq(node.name.as_str());
            any = any.add(as_read.and(COLUMN.version.eq(version)));
        }
        let removed = Entity::delete_many()
            .filter(any)
            .exec_with_returning(db)
            .await?;
        let is_left = |node: &Node| !removed.iter().any(|row| row.name == node.name.as_str());
        let left = chunk.iter().filter(|(node, _)| is_left(node));
        losers.extend(left.map(|(node, _)| Key::Node(node.name.clone())));
    }
    Ok(losers)
}

fn active(node: &Node, read: u64) -> Result<ActiveModel, StoreError> {
    Ok(ActiveModel {
        name: Set(node.name.to_string()),
        status: Set(word(node.status).to_owned()),
        version: Set(i64::try_from(node.version).map_err(broken)?),
        prior_version: Set(i64::try_from(read).map_err(broken)?),
        last_seen: Set(node.last_seen),
        state: Set(serde_json::to_string(node).map_err(broken)?),
    })
}

/// Names of a type that the index columns hold.
pub(crate) fn name(text: &str) -> Result<NodeName, StoreError> {
    text.parse().map_err(broken)
}
