//! Ways in for programs outside, each with the secret that they sign with.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{string, timestamp_with_time_zone};

#[derive(Debug, Clone, Copy)]
pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0004_inbound_hooks"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("inbound_hooks")
                    .col(string("workspace"))
                    .col(string("name"))
                    .col(string("secret"))
                    .col(string("made_by"))
                    .col(timestamp_with_time_zone("created_at"))
                    .primary_key(Index::create().col("workspace").col("name"))
                    .to_owned(),
            )
            .await
    }
}
