//! How a contact is found by its mail address.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// What rows of before say in their state.
const SQLITE: &str = "UPDATE contacts SET email = lower(trim(json_extract(state, '$.fields.email'))) \
     WHERE json_type(state, '$.fields.email') = 'text'";

/// The same.
const POSTGRES: &str = "UPDATE contacts SET email = lower(trim(state::json -> 'fields' ->> 'email')) \
     WHERE json_typeof(state::json -> 'fields' -> 'email') = 'string'";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let connection = manager.get_connection();
        let is_postgres = manager.get_database_backend() == DbBackend::Postgres;
        let known = if is_postgres { POSTGRES } else { SQLITE };
        for statement in [
            "ALTER TABLE contacts ADD COLUMN email varchar",
            known,
            "CREATE INDEX contacts_by_mail ON contacts (workspace, email) WHERE email IS NOT NULL",
        ] {
            connection.execute_unprepared(statement).await?;
        }
        Ok(())
    }
}
