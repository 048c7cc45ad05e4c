//! Alarms.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, integer, string, timestamp_with_time_zone, timestamp_with_time_zone_null,
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
        manager
            .create_table(
                Table::create()
                    .table("timers")
                    .col(string("workspace"))
                    .col(string("owner"))
                    .col(string("id"))
                    .col(big_integer("version"))
                    .col(big_integer("prior_version"))
                    .col(big_integer("rev"))
                    .col(integer("shard"))
                    .col(
                        string("status")
                            .check(Expr::cust("status IN ('pending','fired','cleared')")),
                    )
                    .col(timestamp_with_time_zone_null("due_at"))
                    .col(timestamp_with_time_zone("updated_at"))
                    .check(Expr::cust("(status = 'pending') = (due_at IS NOT NULL)"))
                    .primary_key(Index::create().col("workspace").col("owner").col("id"))
                    .to_owned(),
            )
            .await?;
        // Only what may still fire is in it; it grows with time.
        manager
            .get_connection()
            .execute_unprepared(
                "CREATE INDEX timers_by_due_at ON timers (due_at) WHERE status = 'pending'",
            )
            .await?;
        Ok(())
    }
}
