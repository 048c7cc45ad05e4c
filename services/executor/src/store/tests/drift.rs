//! Migrations against entities, and indexes against what is asked.

use std::collections::{BTreeMap, BTreeSet};

use holdpoint_store::is_sqlite;
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseConnection, EntityTrait, Iterable, Statement};

use crate::store::suspension::{blob_chunk_row, snapshot_row};
use crate::store::{
    activity_row, agent_row, agent_version_row, contact_field_row, contact_row, history_row,
    lease_event_row, lease_row, library_row, node_row, operation_result_row, operation_row,
    run_limit_row, run_row, run_value_row, step_row, tool_row, workspace_row,
};

/// S1-R11: the migrated schema has every table, and each one the columns of its rows.
pub(super) async fn columns(db: &DatabaseConnection) {
    same_columns(db, activity_row::Entity).await;
    same_columns(db, agent_row::Entity).await;
    same_columns(db, agent_version_row::Entity).await;
    same_columns(db, contact_field_row::Entity).await;
    same_columns(db, contact_row::Entity).await;
    same_columns(db, history_row::Entity).await;
    same_columns(db, run_row::Entity).await;
    same_columns(db, run_limit_row::Entity).await;
    same_columns(db, run_value_row::Entity).await;
    same_columns(db, step_row::Entity).await;
    same_columns(db, workspace_row::Entity).await;
    same_columns(db, lease_event_row::Entity).await;
    same_columns(db, lease_row::Entity).await;
    same_columns(db, node_row::Entity).await;
    same_columns(db, tool_row::Entity).await;
    same_columns(db, library_row::Entity).await;
    same_columns(db, snapshot_row::Entity).await;
    same_columns(db, blob_chunk_row::Entity).await;
    same_columns(db, operation_row::Entity).await;
    same_columns(db, operation_result_row::Entity).await;
    let owned = "agents agent_versions blob_chunks contact_activities contact_fields contacts history lease_events leases libraries nodes operation_results operations runs run_limits run_values \
                 snapshots steps tools workspace_scopes users user_roles sync_cursors";
    let of_kernel =
        "outbox idempotency dead_letters desired_states kernels suspects executor_migrations";
    let expected = owned.split(' ').chain(of_kernel.split(' '));
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
    assert_eq!(
        found,
        expected.map(str::to_owned).collect(),
        "a table without an entity"
    );
}

/// Name and whether it may be null, of every column.
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

/// Sweeps search for pending scopes, queued steps and awaited replies all the time: by an index, however many rows exist.
#[tokio::test]
async fn what_sweeps_search_for_is_found_by_an_index() {
    let (_dir, db) = super::sqlite().await;
    let plans = holdpoint_testkit::Plans::of(&db);
    agent_row::to_sync(&plans, 9).await.unwrap();
    workspace_row::to_sync(&plans, 9).await.unwrap();
    step_row::queued(&plans, None, &[], 9).await.unwrap();
    operation_row::unfinished(&plans, 9).await.unwrap();
    let contact = |id: &str| ("acme".parse().unwrap(), id.parse().unwrap());
    let contacts = [contact("ada"), contact("bob")];
    run_row::awaiting_reply_of(&plans, &contacts, 9)
        .await
        .unwrap();
    run_row::awaiting_reply(&plans, None, 9).await.unwrap();
    assert_eq!(plans.whole_tables(), Vec::<String>::new());
}
