//! Table `user_changes`: the newest changes of each user, for the copies in other services. Changes get numbers without
//! gaps. A later commit that changes the user deletes them.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::{UserChange, UserView};
use holdpoint_ids::Workspace;
use holdpoint_store::{BrokenRow as _, ROWS_PER_STATEMENT, StoreError};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _};
use sea_orm::{QueryOrder, QuerySelect};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "user_changes")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub seq: i64,
    pub workspace: String,
    pub body: String,
    pub at: DateTimeUtc,
    /// Of the user; empty in rows that are older than this column.
    pub name: String,
}

impl ActiveModelBehavior for ActiveModel {}

/// Changes with a greater number than `after`, in order, at most `limit`.
pub(crate) async fn list_user_changes(
    db: &impl ConnectionTrait,
    after: u64,
    limit: u64,
) -> Result<Vec<UserChange>, StoreError> {
    let Ok(after) = i64::try_from(after) else {
        return Ok(Vec::new());
    };
    let rows = Entity::find()
        .filter(COLUMN.seq.gt(after))
        .order_by_asc(Column::Seq)
        .limit(limit)
        .all(db)
        .await?;
    rows.iter().map(read).collect()
}

fn read(row: &Model) -> Result<UserChange, StoreError> {
    Ok(UserChange {
        seq: u64::try_from(row.seq).map_err(Entity::broken)?,
        workspace: row.workspace.parse().map_err(Entity::broken)?,
        user: serde_json::from_str(&row.body).map_err(Entity::broken)?,
    })
}

/// Adds changes in order, and deletes earlier changes of the same users. The last one has the number `last`.
pub(crate) async fn insert(
    db: &impl ConnectionTrait,
    changes: &[(&Workspace, &UserView)],
    last: i64,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let first = last + 1 - i64::try_from(changes.len()).map_err(Entity::broken)?;
    let rows = (first..).zip(changes).map(|(seq, (workspace, user))| {
        Ok(ActiveModel {
            seq: Set(seq),
            workspace: Set(workspace.to_string()),
            body: Set(serde_json::to_string(user).map_err(Entity::broken)?),
            at: Set(now),
            name: Set(user.name.to_string()),
        })
    });
    let rows = rows.collect::<Result<Vec<_>, StoreError>>()?;
    let users: BTreeSet<_> = changes
        .iter()
        .map(|(workspace, user)| (workspace.to_string(), user.name.to_string()))
        .collect();
    let users: Vec<_> = users.into_iter().collect();
    for chunk in users.chunks(ROWS_PER_STATEMENT) {
        let user = Expr::tuple([Expr::col(Column::Workspace), Expr::col(Column::Name)]);
        Entity::delete_many()
            .filter(user.in_tuples(chunk.to_vec()))
            .exec(db)
            .await?;
    }
    for chunk in rows.chunks(ROWS_PER_STATEMENT) {
        Entity::insert_many(chunk.to_vec())
            .exec_without_returning(db)
            .await?;
    }
    Ok(())
}
