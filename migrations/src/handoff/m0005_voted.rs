//! Who has voted on a request that still waits for the votes of others.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::text;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Words between blanks, as `audience`. Rows of before show up as if nobody had voted, until they change.
#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let change = Table::alter()
            .table("requests")
            .add_column(text("voters").default("").to_owned())
            .to_owned();
        manager.alter_table(change).await
    }
}
