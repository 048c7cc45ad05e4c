//! Columns of keys that several tables have, and places in an order of columns.

use holdpoint_ids::NotificationId;
use holdpoint_store::{BrokenRow as _, StoreError};
use sea_orm::sea_query::{Expr, ExprTrait as _};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter as _, Value};

/// The columns `workspace` and `hold`.
pub(super) type HoldRow = (String, String);

/// The columns `workspace`, `hold` and `rev`.
pub(super) type NumberedRow = (String, String, i64);

/// The number of a notification's id, as rows have it.
pub(super) const fn stored_rev(id: NotificationId) -> u64 {
    match id.rev {
        Some(rev) => rev,
        None => 0,
    }
}

pub(super) fn number<E: EntityTrait>(value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(E::broken)
}

/// Deletes the rows whose two columns have one of these values.
pub(super) async fn delete_rows<E: EntityTrait>(
    db: &impl ConnectionTrait,
    columns: [E::Column; 2],
    rows: impl IntoIterator<Item = (String, String)>,
) -> Result<(), StoreError> {
    let of = Expr::tuple(columns.map(Expr::col));
    E::delete_many().filter(of.in_tuples(rows)).exec(db).await?;
    Ok(())
}

/// Deletes the rows whose columns `workspace`, `hold` and `rev` have one of these values.
pub(super) async fn delete_numbered<E: EntityTrait>(
    db: &impl ConnectionTrait,
    columns: [E::Column; 3],
    rows: &[NumberedRow],
) -> Result<(), StoreError> {
    let of = Expr::tuple(columns.map(Expr::col));
    let rows = rows.iter().cloned();
    E::delete_many().filter(of.in_tuples(rows)).exec(db).await?;
    Ok(())
}

/// Rows after a place in the ascending order of these columns.
pub(super) fn after<const N: usize>(columns: [impl ColumnTrait; N], place: [Value; N]) -> Expr {
    Expr::tuple(columns.map(Expr::col)).gt(Expr::tuple(place.map(Expr::val)))
}

/// Rows after a place in the descending order of these columns.
pub(super) fn before<const N: usize>(columns: [impl ColumnTrait; N], place: [Value; N]) -> Expr {
    Expr::tuple(columns.map(Expr::col)).lt(Expr::tuple(place.map(Expr::val)))
}
