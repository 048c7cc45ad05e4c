//! Table `user_fact_counter`: one row, the number of the newest fact. Whoever changes a user writes it.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use holdpoint_store::StoreError;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "user_fact_counter")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i32,
    pub last: i64,
}

impl ActiveModelBehavior for ActiveModel {}

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken("user_fact_counter", error)
}

/// Takes `count` numbers and returns the last one. Nobody else gets any until the commit, so that no
/// number is seen before a smaller one.
pub(crate) async fn take(db: &impl ConnectionTrait, count: usize) -> Result<i64, StoreError> {
    let count = i64::try_from(count).map_err(broken)?;
    let rows = Entity::update_many()
        .col_expr(Column::Last, Expr::col(Column::Last).add(count))
        .exec_with_returning(db)
        .await?;
    let row = rows.into_iter().next();
    Ok(row.ok_or_else(|| broken("the row is missing"))?.last)
}

/// Waits for everybody who changes a user now, and lets nobody in until the commit.
pub(crate) async fn lock(db: &impl ConnectionTrait) -> Result<(), StoreError> {
    take(db, 0).await.map(drop)
}
