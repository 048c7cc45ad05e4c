//! Finds timers that are over, oldest first, so that they can be forgotten.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // It grows with time, at its end.
        manager
            .get_connection()
            .execute_unprepared(
                "CREATE INDEX timers_over_by_updated_at ON timers (updated_at) WHERE status <> 'pending'",
            )
            .await?;
        Ok(())
    }
}
