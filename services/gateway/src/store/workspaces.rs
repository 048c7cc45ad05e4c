//! Names of created workspaces: of several creators of one name one wins.

pub(super) mod row;

use chrono::{DateTime, Utc};
use holdpoint_ids::Workspace;
use holdpoint_store::StoreError;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, DatabaseConnection, EntityTrait, PaginatorTrait, QueryFilter,
    TryInsertResult,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reserved {
    By(String),
    /// The name is free, but the limit of workspaces is reached.
    Full,
}

/// Records the creator of a workspace if the limit allows it; returns the first creator.
pub(crate) async fn reserve_name(
    writer: &DatabaseConnection,
    name: &Workspace,
    maker: &str,
    (max, now): (u64, DateTime<Utc>),
) -> Result<Reserved, StoreError> {
    let found = row::Entity::find_by_id(name.as_str()).one(writer).await?;
    if let Some(row) = found {
        return Ok(Reserved::By(row.made_by));
    }
    if row::Entity::find().count(writer).await? >= max {
        return Ok(Reserved::Full);
    }
    let row = row::ActiveModel {
        name: Set(name.to_string()),
        made_by: Set(maker.to_owned()),
        created_at: Set(now),
        token_made_at: Set(None),
    };
    let inserted = row::Entity::insert(row)
        .on_conflict_do_nothing()
        .exec_without_returning(writer)
        .await?;
    match inserted {
        TryInsertResult::Inserted(rows) if rows > 0 => Ok(Reserved::By(maker.to_owned())),
        TryInsertResult::Inserted(_) | TryInsertResult::Conflicted | TryInsertResult::Empty => {
            let found = row::Entity::find_by_id(name.as_str()).one(writer).await?;
            let first = found.map_or_else(|| maker.to_owned(), |row| row.made_by);
            Ok(Reserved::By(first))
        }
    }
}

/// Whether the creator of a workspace got its token.
pub(crate) async fn has_token(
    db: &DatabaseConnection,
    name: &Workspace,
) -> Result<bool, StoreError> {
    let found = row::Entity::find_by_id(name.as_str()).one(db).await?;
    Ok(found.is_some_and(|row| row.token_made_at.is_some()))
}

/// Records that the creator got the token of the workspace.
pub(crate) async fn note_token(
    writer: &DatabaseConnection,
    name: &Workspace,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    row::Entity::update_many()
        .col_expr(row::Column::TokenMadeAt, Expr::value(now))
        .filter(row::Column::Name.eq(name.as_str()))
        .exec(writer)
        .await?;
    Ok(())
}
