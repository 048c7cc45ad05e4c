//! What leaves the application: deliveries by mail and callback, and what callbacks are signed with.

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
        deliveries(manager).await?;
        manager
            .create_table(
                Table::create()
                    .table("webhook_secrets")
                    .col(string("workspace").primary_key())
                    .col(text("secret"))
                    .col(big_integer("version"))
                    .col(big_integer("prior_version"))
                    .col(timestamp_with_time_zone("created_at"))
                    .to_owned(),
            )
            .await
    }
}

/// One row a notification, way and person; `rev` is that of the notification's id, `person` is empty
/// where it goes to no person. `next_at`: from when on it is tried, or tried again.
async fn deliveries(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("deliveries")
                .col(string("workspace"))
                .col(string("hold"))
                .col(big_integer("rev"))
                .col(string("channel").check(Expr::cust("channel IN ('email','callback')")))
                .col(string("person"))
                .col(string("state").check(Expr::cust("state IN ('pending','sent','failed')")))
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
                        .col("person"),
                )
                .to_owned(),
        )
        .await?;
    let db = manager.get_connection();
    db.execute_unprepared(
        "CREATE INDEX deliveries_due ON deliveries (channel, next_at) WHERE state = 'pending'",
    )
    .await?;
    Ok(())
}
