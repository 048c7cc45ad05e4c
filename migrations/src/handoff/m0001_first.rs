//! Requests and users, and the numbered facts about users.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, boolean, integer, string, string_null, text, timestamp_with_time_zone,
    timestamp_with_time_zone_null,
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
        requests(manager).await?;
        users(manager).await?;
        user_changes(manager).await
    }
}

/// `kind` is missing in a tombstone: of a hold that was gone before anybody knew it.
async fn requests(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("requests")
                .col(string("workspace"))
                .col(string("id"))
                .col(big_integer("version"))
                .col(big_integer("prior_version"))
                .col(string("status").check(Expr::cust(
                    "status IN ('open','decided','expired','withdrawn')",
                )))
                .col(
                    string_null("kind")
                        .check(Expr::cust("kind IN ('timer','approval','input','handoff')")),
                )
                .col(ColumnDef::new("run_id").uuid().null())
                .col(string_null("effect").check(Expr::cust(
                    "effect IN ('applied','on_resume','run_ended','pending')",
                )))
                .col(timestamp_with_time_zone_null("deadline_at"))
                .col(text("state"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .check(Expr::cust("kind IS NOT NULL OR status = 'withdrawn'"))
                .primary_key(Index::create().col("workspace").col("id"))
                .to_owned(),
        )
        .await?;
    manager
        .create_index(
            Index::create()
                .name("requests_by_created_at")
                .table("requests")
                .col("workspace")
                .col("created_at")
                .col("id")
                .to_owned(),
        )
        .await?;
    // The inbox: only what nobody has decided is in it.
    manager
        .get_connection()
        .execute_unprepared(
            "CREATE INDEX requests_open ON requests (workspace, created_at, id) WHERE status = 'open'",
        )
        .await?;
    manager
        .create_index(
            Index::create()
                .name("requests_by_run")
                .table("requests")
                .col("run_id")
                .to_owned(),
        )
        .await
}

async fn users(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("users")
                .col(string("workspace"))
                .col(string("name"))
                .col(big_integer("version"))
                .col(big_integer("prior_version"))
                .col(boolean("is_active_owner"))
                .col(text("state"))
                .col(timestamp_with_time_zone("updated_at"))
                .primary_key(Index::create().col("workspace").col("name"))
                .to_owned(),
        )
        .await
}

/// The counter is one row, and whoever changes a user writes it: numbers have no gaps, and changes
/// of users happen one after the other.
async fn user_changes(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("user_changes")
                .col(big_integer("seq").primary_key())
                .col(string("workspace"))
                .col(text("body"))
                .col(timestamp_with_time_zone("at"))
                .to_owned(),
        )
        .await?;
    manager
        .create_table(
            Table::create()
                .table("user_change_counter")
                .col(integer("id").primary_key().check(Expr::cust("id = 1")))
                .col(big_integer("last"))
                .to_owned(),
        )
        .await?;
    manager
        .get_connection()
        .execute_unprepared("INSERT INTO user_change_counter (id, last) VALUES (1, 0)")
        .await?;
    Ok(())
}
