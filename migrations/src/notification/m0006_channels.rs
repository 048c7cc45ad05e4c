//! People are told by chat, too, and by one way after the other.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, string, string_null, text, text_null, timestamp_with_time_zone,
    timestamp_with_time_zone_null,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    /// SQLite changes no check: the rows move into a table that has the new ones. What was tried before
    /// waits for another try; the rest was held back or is due, which the next look at it finds out.
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        db.execute_unprepared("ALTER TABLE deliveries RENAME TO deliveries_before")
            .await?;
        deliveries(manager).await?;
        for statement in [
            "INSERT INTO deliveries (workspace, hold, rev, channel, target, priority, after, state, attempts, \
             next_at, waits, last_error, receipt, version, prior_version, created_at, updated_at) \
             SELECT workspace, hold, rev, channel, target, priority, '[]', state, attempts, next_at, \
             CASE WHEN state <> 'pending' THEN NULL WHEN attempts > 0 THEN 'retry' ELSE 'quiet_hours' END, \
             last_error, receipt, version, prior_version, created_at, updated_at FROM deliveries_before",
            "DROP TABLE deliveries_before",
            "CREATE INDEX deliveries_due ON deliveries (channel, next_at) WHERE state = 'pending'",
            "CREATE INDEX deliveries_to_webhooks ON deliveries (workspace, target, created_at) \
             WHERE channel = 'webhook'",
        ] {
            db.execute_unprepared(statement).await?;
        }
        Ok(())
    }
}

/// `after`: the ways that failed before this one, as a JSON array. `waits`: what it is pending for.
async fn deliveries(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let channel = "channel IN ('email','callback','webhook','chat','digest')";
    let priority = "priority IN ('low','normal','high','urgent','critical')";
    let waits = "waits IN ('turn','quiet_hours','retry','answer')";
    let table = Table::create()
        .table("deliveries")
        .col(string("workspace"))
        .col(string("hold"))
        .col(big_integer("rev"))
        .col(string("channel").check(Expr::cust(channel)))
        .col(string("target"))
        .col(string("priority").check(Expr::cust(priority)))
        .col(text("after"))
        .col(string("state").check(Expr::cust("state IN ('pending','sent','failed','dropped')")))
        .col(big_integer("attempts"))
        .col(timestamp_with_time_zone_null("next_at"))
        .col(string_null("waits").check(Expr::cust(waits)))
        .col(text_null("last_error"))
        .col(text_null("receipt"))
        .col(big_integer("version"))
        .col(big_integer("prior_version"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .check(Expr::cust("(state = 'pending') = (next_at IS NOT NULL)"))
        .check(Expr::cust("(state = 'pending') = (waits IS NOT NULL)"))
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
