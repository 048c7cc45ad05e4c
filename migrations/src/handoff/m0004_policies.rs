//! Policies of a workspace, by name.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, boolean, string, text, timestamp_with_time_zone};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table("policies")
            .col(string("workspace"))
            .col(string("name"))
            .col(big_integer("version"))
            .col(big_integer("prior_version"))
            .col(boolean("is_deleted"))
            .col(text("state"))
            .col(timestamp_with_time_zone("updated_at"))
            .primary_key(Index::create().col("workspace").col("name"))
            .to_owned();
        manager.create_table(table).await
    }
}
