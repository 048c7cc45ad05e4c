//! What people are told of that is of no request.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, string, text, timestamp_with_time_zone};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// `hold` and `rev` are those of the notification's id, as copies have them.
#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let notices = Table::create()
            .table("notices")
            .col(string("workspace"))
            .col(string("hold"))
            .col(big_integer("rev"))
            .col(text("state"))
            .col(timestamp_with_time_zone("created_at"))
            .primary_key(Index::create().col("workspace").col("hold").col("rev"))
            .to_owned();
        manager.create_table(notices).await?;
        let by_age = Index::create()
            .name("notices_by_age")
            .table("notices")
            .col("created_at")
            .to_owned();
        manager.create_index(by_age).await
    }
}
