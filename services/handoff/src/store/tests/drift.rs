//! Migrations against entities.

use std::collections::{BTreeMap, BTreeSet};

use holdpoint_store::is_sqlite;
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseConnection, EntityTrait, Iterable, Statement};

use crate::store::{
    counter_row, policy_row, request_row, standing_approval_row, standing_approval_use_row,
    user_change_row, user_row,
};

pub(super) async fn columns(db: &DatabaseConnection) {
    same_columns(db, request_row::Entity).await;
    same_columns(db, user_row::Entity).await;
    same_columns(db, policy_row::Entity).await;
    same_columns(db, user_change_row::Entity).await;
    same_columns(db, counter_row::Entity).await;
    same_columns(db, standing_approval_row::Entity).await;
    same_columns(db, standing_approval_use_row::Entity).await;
    let sql = if is_sqlite(db) {
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    } else {
        "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = current_schema()"
    };
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let rows = db.query_all_raw(statement).await.unwrap();
    let found: BTreeSet<String> = rows
        .iter()
        .map(|row| row.try_get("", "name").unwrap())
        .collect();
    let owned = "requests users policies user_changes user_change_counter standing_approvals \
                 standing_approval_uses";
    let of_kernel =
        "outbox idempotency dead_letters desired_states kernels suspects handoff_migrations";
    let expected = owned.split(' ').chain(of_kernel.split(' '));
    let expected: BTreeSet<_> = expected.map(str::to_owned).collect();
    assert_eq!(found, expected, "a table without an entity");
}

/// Compares the name and the nullability of every column.
async fn same_columns<E: EntityTrait>(db: &DatabaseConnection, entity: E) {
    let table = entity.table_name().to_owned();
    let sql = if is_sqlite(db) {
        format!("SELECT name, \"notnull\" = 0 AS nullable FROM pragma_table_info('{table}')")
    } else {
        format!(
            "SELECT column_name::text AS name, is_nullable = 'YES' AS nullable FROM information_schema.columns \
             WHERE table_schema = current_schema() AND table_name = '{table}'"
        )
    };
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let rows = db.query_all_raw(statement).await.unwrap();
    let migrated: BTreeMap<String, bool> = rows
        .iter()
        .map(|row| {
            let nullable = row.try_get("", "nullable").unwrap();
            (row.try_get("", "name").unwrap(), nullable)
        })
        .collect();
    let named = E::Column::iter().map(|column| {
        use sea_orm::IdenStatic as _;
        (column.as_str().to_owned(), column.def().is_null())
    });
    assert_eq!(migrated, named.collect(), "table {table}");
}
