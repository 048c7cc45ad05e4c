//! Who has put a request away for later, each for themselves.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::text;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// `|name=2026-01-01T00:00:00.000Z|`, one after the other. Rows of before show up as if nobody had put
/// them away, until they change.
#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let change = Table::alter()
            .table("requests")
            .add_column(text("snoozed_by").default("").to_owned())
            .to_owned();
        manager.alter_table(change).await
    }
}
