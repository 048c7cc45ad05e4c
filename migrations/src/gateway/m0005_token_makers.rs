//! Who made a token, and whether the maker of a workspace has been given its token.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{string_null, timestamp_with_time_zone_null};

#[derive(Debug, Clone, Copy)]
pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0005_token_makers"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let maker = Table::alter()
            .table("tokens")
            .add_column(string_null("made_by"))
            .to_owned();
        manager.alter_table(maker).await?;
        let given = Table::alter()
            .table("workspaces")
            .add_column(timestamp_with_time_zone_null("token_made_at"))
            .to_owned();
        manager.alter_table(given).await
    }
}
