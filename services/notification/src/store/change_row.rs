//! Table `changes`: the number of the last commit that changed inbox entries, for each workspace.

use std::collections::{BTreeMap, BTreeSet};

use holdpoint_ids::Workspace;
use holdpoint_store::{BrokenRow as _, ROWS_PER_STATEMENT, StoreError};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, OnConflict};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "changes")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    pub seq: i64,
}

impl ActiveModelBehavior for ActiveModel {}

/// The number of this commit in each workspace. The rows stay locked until the commit, so that numbers become
/// visible in their order: a reader of the feed never misses a lower number.
pub(super) async fn next<'w>(
    db: &impl ConnectionTrait,
    workspaces: &BTreeSet<&'w Workspace>,
) -> Result<BTreeMap<&'w Workspace, i64>, StoreError> {
    let all: Vec<_> = workspaces.iter().copied().collect();
    let mut numbers = BTreeMap::new();
    for chunk in all.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk.iter().map(|workspace| ActiveModel {
            workspace: Set(workspace.to_string()),
            seq: Set(1),
        });
        let one_more = Expr::col((Entity, Column::Seq)).add(1);
        let counted = OnConflict::column(Column::Workspace)
            .value(Column::Seq, one_more)
            .to_owned();
        let rows = Entity::insert_many(rows)
            .on_conflict(counted)
            .exec_with_returning(db)
            .await?;
        for Model { workspace, seq } in rows {
            let of = chunk.iter().find(|one| one.as_str() == workspace);
            let of = of.ok_or_else(|| Entity::broken("a workspace that was not requested"))?;
            numbers.insert(*of, seq);
        }
    }
    Ok(numbers)
}

/// The number of the newest change; 0 if there was none.
pub(crate) async fn newest(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
) -> Result<u64, StoreError> {
    let row = Entity::find_by_id(workspace.as_str()).one(db).await?;
    let seq = row.map_or(0, |row| row.seq);
    u64::try_from(seq).map_err(Entity::broken)
}
