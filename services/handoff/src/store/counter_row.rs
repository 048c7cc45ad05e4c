//! Table `user_change_counter`: one row with the number of the newest change. Every change of a user
//! writes it.

use holdpoint_store::{BrokenRow as _, StoreError};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "user_change_counter")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i32,
    pub last: i64,
}

impl ActiveModelBehavior for ActiveModel {}

/// Takes `count` numbers and returns the last one. Other transactions wait until the commit, so that no
/// reader sees a number before a smaller one.
pub(crate) async fn take(db: &impl ConnectionTrait, count: usize) -> Result<i64, StoreError> {
    let count = i64::try_from(count).map_err(Entity::broken)?;
    let rows = Entity::update_many()
        .col_expr(Column::Last, Expr::col(Column::Last).add(count))
        .exec_with_returning(db)
        .await?;
    let row = rows.into_iter().next();
    Ok(row
        .ok_or_else(|| Entity::broken("the row of the counter is missing"))?
        .last)
}

/// Waits for other transactions that change users, and excludes them until the commit.
pub(crate) async fn lock(db: &impl ConnectionTrait) -> Result<(), StoreError> {
    take(db, 0).await.map(drop)
}
