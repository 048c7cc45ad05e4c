//! How people want to be told; deliveries have a priority, go to more than people, and may be dropped.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, string, text, text_null, timestamp_with_time_zone, timestamp_with_time_zone_null,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let preferences = Table::create()
            .table("preferences")
            .col(string("workspace"))
            .col(string("person"))
            .col(text("said"))
            .col(big_integer("version"))
            .col(big_integer("prior_version"))
            .col(timestamp_with_time_zone("created_at"))
            .col(timestamp_with_time_zone("updated_at"))
            .primary_key(Index::create().col("workspace").col("person"))
            .to_owned();
        manager.create_table(preferences).await?;
        let db = manager.get_connection();
        // SQLite changes no check: the rows move into a table that has the new ones.
        db.execute_unprepared("ALTER TABLE deliveries RENAME TO deliveries_before")
            .await?;
        deliveries(manager).await?;
        for statement in [
            "INSERT INTO deliveries (workspace, hold, rev, channel, target, priority, state, attempts, next_at, \
             last_error, receipt, version, prior_version, created_at, updated_at) \
             SELECT workspace, hold, rev, channel, person, 'normal', state, attempts, next_at, \
             last_error, receipt, version, prior_version, created_at, updated_at FROM deliveries_before",
            "DROP TABLE deliveries_before",
            "CREATE INDEX deliveries_due ON deliveries (channel, next_at) WHERE state = 'pending'",
        ] {
            db.execute_unprepared(statement).await?;
        }
        Ok(())
    }
}

/// `target` is a person's name or a webhook's id, or empty where there is only one. `priority` is that
/// of the request when it happened.
async fn deliveries(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let table = Table::create()
        .table("deliveries")
        .col(string("workspace"))
        .col(string("hold"))
        .col(big_integer("rev"))
        .col(string("channel").check(Expr::cust("channel IN ('email','callback','webhook')")))
        .col(string("target"))
        .col(string("priority").check(Expr::cust(
            "priority IN ('low','normal','high','urgent','critical')",
        )))
        .col(string("state").check(Expr::cust("state IN ('pending','sent','failed','dropped')")))
        .col(big_integer("attempts"))
        .col(timestamp_with_time_zone_null("next_at"))
        .col(text_null("last_error"))
        .col(text_null("receipt"))
        .col(big_integer("version"))
        .col(big_integer("prior_version"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .check(Expr::cust("(state = 'pending') = (next_at IS NOT NULL)"))
        .primary_key(
            Index::create()
                .col("workspace")
                .col("hold")
                .col("rev")
                .col("channel")
                .col("target"),
        )
        .to_owned();
    manager.create_table(table).await
}
