//! How what is old is found: requests that have ended, and all copies of one.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The index of all copies of a request finds the unread ones as well.
#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        for statement in [
            "DROP INDEX copies_unread",
            "CREATE INDEX copies_of_request ON copies (workspace, hold)",
            "CREATE INDEX notes_ended ON notes (updated_at) \
             WHERE kind IN ('decided','expired','withdrawn')",
        ] {
            db.execute_unprepared(statement).await?;
        }
        Ok(())
    }
}
