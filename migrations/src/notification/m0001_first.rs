//! What happened to requests, and who is told of it.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, boolean, string, text, timestamp_with_time_zone, timestamp_with_time_zone_null,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::kernel::up(manager).await?;
        crate::kernel::ground(manager).await?;
        crate::people::up(manager).await?;
        notes(manager).await?;
        copies(manager).await
    }
}

/// One row a fact; `fanning` while its pages are not all written. `told_rev` is the number in the
/// notification's id: 0 for the first, that something was asked.
async fn notes(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("notes")
                .col(string("workspace"))
                .col(string("hold"))
                .col(big_integer("rev"))
                .col(big_integer("told_rev"))
                .col(big_integer("version"))
                .col(big_integer("prior_version"))
                .col(string("kind").check(Expr::cust(
                    "kind IN ('opened','assigned','escalated','taken_over','decided','expired','withdrawn')",
                )))
                .col(boolean("fanning"))
                .col(text("state"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .primary_key(
                    Index::create().col("workspace").col("hold").col("rev"),
                )
                .to_owned(),
        )
        .await?;
    partial(
        manager,
        "CREATE INDEX notes_fanning ON notes (created_at) WHERE fanning",
    )
    .await
}

/// One row a notification and person; `rev` is that of the notification's id.
async fn copies(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("copies")
                .col(string("workspace"))
                .col(string("person"))
                .col(string("hold"))
                .col(big_integer("rev"))
                .col(timestamp_with_time_zone("at"))
                .col(timestamp_with_time_zone_null("read_at"))
                .primary_key(
                    Index::create()
                        .col("workspace")
                        .col("person")
                        .col("hold")
                        .col("rev"),
                )
                .to_owned(),
        )
        .await?;
    manager
        .create_index(
            Index::create()
                .name("copies_by_at")
                .table("copies")
                .col("workspace")
                .col("person")
                .col("at")
                .to_owned(),
        )
        .await?;
    partial(
        manager,
        "CREATE INDEX copies_unread ON copies (workspace, hold) WHERE read_at IS NULL",
    )
    .await
}

async fn partial(manager: &SchemaManager<'_>, statement: &str) -> Result<(), DbErr> {
    let db = manager.get_connection();
    db.execute_unprepared(statement).await?;
    Ok(())
}
