//! Programs that are told of what happens to requests.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, string, text, text_null, timestamp_with_time_zone, timestamp_with_time_zone_null,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// `events`: names as a JSON array. One that was removed stays, without its secret, as long as there
/// may be deliveries of it.
#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let webhooks = Table::create()
            .table("webhooks")
            .col(string("workspace"))
            .col(string("id"))
            .col(text("url"))
            .col(text("events"))
            .col(string("format").check(Expr::cust("format IN ('standard','slack')")))
            .col(text("secret"))
            .col(string("status").check(Expr::cust("status IN ('active','disabled','removed')")))
            .col(string("created_by"))
            .col(timestamp_with_time_zone("created_at"))
            .col(timestamp_with_time_zone_null("failing_since"))
            .col(timestamp_with_time_zone_null("disabled_at"))
            .col(text_null("last_error"))
            .col(big_integer("version"))
            .col(big_integer("prior_version"))
            .col(timestamp_with_time_zone("updated_at"))
            .check(Expr::cust(
                "(status = 'disabled') = (disabled_at IS NOT NULL)",
            ))
            .primary_key(Index::create().col("workspace").col("id"))
            .to_owned();
        manager.create_table(webhooks).await?;
        let db = manager.get_connection();
        db.execute_unprepared(
            "CREATE INDEX deliveries_to_webhooks ON deliveries (workspace, target, created_at) \
             WHERE channel = 'webhook'",
        )
        .await?;
        Ok(())
    }
}
