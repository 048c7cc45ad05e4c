//! Workspaces that were made here: one maker of a name wins.

pub(super) mod row;

use chrono::{DateTime, Utc};
use holdpoint_ids::Workspace;
use holdpoint_store::StoreError;
use sea_orm::{ActiveValue::Set, DatabaseConnection, EntityTrait, TryInsertResult};

/// Notes who makes a workspace; the answer is who came first.
pub(crate) async fn claim(
    writer: &DatabaseConnection,
    name: &Workspace,
    maker: &str,
    now: DateTime<Utc>,
) -> Result<String, StoreError> {
    let row = row::ActiveModel {
        name: Set(name.to_string()),
        made_by: Set(maker.to_owned()),
        created_at: Set(now),
    };
    let inserted = row::Entity::insert(row)
        .on_conflict_do_nothing()
        .exec_without_returning(writer)
        .await?;
    match inserted {
        TryInsertResult::Inserted(rows) if rows > 0 => Ok(maker.to_owned()),
        TryInsertResult::Inserted(_) | TryInsertResult::Conflicted | TryInsertResult::Empty => {
            let found = row::Entity::find_by_id(name.as_str()).one(writer).await?;
            Ok(found.map_or_else(|| maker.to_owned(), |row| row.made_by))
        }
    }
}
