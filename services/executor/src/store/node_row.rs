//! Table `nodes`.

use chrono::{DateTime, Utc};
use holdpoint_contracts::steps::NodeStatus;
use holdpoint_ids::NodeName;
use holdpoint_store::{
    BrokenRow as _, ChangedState, ROWS_PER_STATEMENT, StateRow as _, StoreError, Transaction,
};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::ExprTrait;
use sea_orm::{Condition, QueryOrder, Select};

use crate::domain::{Key, Node};

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

state_row!(Node, |node, stored| ActiveModel {
    name: Set(node.name.to_string()),
    status: Set(status_text(node.status).to_owned()),
    version: Set(stored.version),
    prior_version: Set(stored.prior_version),
    last_seen: Set(node.last_seen),
    state: Set(stored.state),
});

const fn status_text(status: NodeStatus) -> &'static str {
    match status {
        NodeStatus::Up => "UP",
        NodeStatus::Suspect => "SUSPECT",
        NodeStatus::Draining => "DRAINING",
        NodeStatus::Down => "DOWN",
    }
}

pub(crate) async fn named(
    db: &impl ConnectionTrait,
    names: impl IntoIterator<Item = &NodeName>,
) -> Result<Vec<Node>, StoreError> {
    let keys: Vec<_> = names.into_iter().map(ToString::to_string).collect();
    Entity::load_states(db, &keys).await
}

/// Nodes that are not down first, then the other nodes; those seen last come first.
pub(crate) async fn list(db: &impl ConnectionTrait, limit: u64) -> Result<Vec<Node>, StoreError> {
    let is_down = ExprTrait::eq(Expr::col(Column::Status), status_text(NodeStatus::Down));
    let query = Entity::find()
        .order_by_asc(is_down)
        .order_by_desc(Column::LastSeen)
        .order_by_asc(Column::Name);
    Entity::page(db, query, limit).await
}

/// Nodes that were probed and have not replied yet.
pub(crate) async fn suspects(
    db: &impl ConnectionTrait,
    limit: u64,
) -> Result<Vec<Node>, StoreError> {
    let suspect = COLUMN.status.eq(status_text(NodeStatus::Suspect));
    Entity::page(db, Entity::find().filter(suspect), limit).await
}

pub(super) fn down() -> Select<Entity> {
    Entity::find().filter(COLUMN.status.eq(status_text(NodeStatus::Down)))
}

/// Saves nodes, and deletes the rows of forgotten ones; returns the keys that another writer changed.
pub(super) async fn save(
    db: &Transaction,
    nodes: Vec<ChangedState<'_, Node, Key>>,
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    let (forgotten, kept): (Vec<_>, Vec<_>) =
        nodes.into_iter().partition(|one| one.state.forgotten);
    let mut losers = forget(db, &forgotten).await?;
    losers.extend(Entity::save(db, &kept, now).await?);
    Ok(losers)
}

/// Deletes the rows of nodes that still have the version that was read; returns the other keys.
async fn forget(
    db: &Transaction,
    nodes: &[ChangedState<'_, Node, Key>],
) -> Result<Vec<Key>, StoreError> {
    let mut losers = Vec::new();
    for chunk in nodes.chunks(ROWS_PER_STATEMENT) {
        let mut any = Condition::any();
        for one in chunk {
            let version = i64::try_from(one.read_version).map_err(Entity::broken)?;
            let as_read = COLUMN.name.eq(one.state.name.as_str());
            any = any.add(as_read.and(COLUMN.version.eq(version)));
        }
        let removed = Entity::delete_many()
            .filter(any)
            .exec_with_returning(db)
            .await?;
        let is_left = |node: &Node| removed.iter().all(|row| row.name != node.name.as_str());
        let left = chunk.iter().filter(|one| is_left(one.state));
        losers.extend(left.map(|one| one.key.clone()));
    }
    Ok(losers)
}
