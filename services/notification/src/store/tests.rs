//! One suite for both databases: SQLite always, Postgres where there is one.

use std::collections::BTreeSet;

use holdpoint_migrations::notification::Migrator;
use holdpoint_store::{Location, begin_write, is_sqlite, migrate, open_writer};
use sea_orm::{ColumnTrait, DatabaseConnection, EntityTrait, Iterable, Statement};

use super::old::{forget, has_old};
use super::{copy_row, delivery_row, note_row, preferences_row, secret_row, webhook_row};

pub(crate) use copy_row::Entity as Copies;

/// Migrated columns are those of the entity, and as nullable.
async fn same_columns<E: EntityTrait>(db: &DatabaseConnection, entity: E) {
    use sea_orm::{ConnectionTrait as _, IdenStatic as _};
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
    let migrated: BTreeSet<(String, bool)> = rows
        .iter()
        .map(|row| {
            let nullable = row.try_get("", "nullable").unwrap();
            (row.try_get("", "name").unwrap(), nullable)
        })
        .collect();
    let named =
        E::Column::iter().map(|column| (column.as_str().to_owned(), column.def().is_null()));
    assert_eq!(migrated, named.collect(), "table {table}");
}

async fn all(location: &Location) {
    migrate::<Migrator>(location).await.unwrap();
    let db = open_writer(location).await.unwrap();
    let instant = "2026-01-01T00:00:00Z".parse().unwrap();
    assert!(!has_old(&db, instant).await.unwrap());
    let tx = begin_write(&db).await.unwrap();
    forget(&tx, instant).await.unwrap();
    tx.commit().await.unwrap();
    same_columns(&db, note_row::Entity).await;
    same_columns(&db, copy_row::Entity).await;
    same_columns(&db, delivery_row::Entity).await;
    same_columns(&db, secret_row::Entity).await;
    same_columns(&db, preferences_row::Entity).await;
    same_columns(&db, webhook_row::Entity).await;
    same_columns(&db, holdpoint_people::table::row::user::Entity).await;
    same_columns(&db, holdpoint_people::table::row::role::Entity).await;
}

#[tokio::test]
async fn on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    all(&Location::Sqlite(folder.path().join("notification.db"))).await;
}

#[tokio::test]
async fn on_postgres() {
    let Some(postgres) = holdpoint_testkit::postgres().await.unwrap() else {
        return;
    };
    all(&Location::Postgres {
        url: postgres.url.clone(),
        schema: "notification".to_owned(),
    })
    .await;
}
