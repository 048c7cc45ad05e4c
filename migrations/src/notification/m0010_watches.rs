//! What people watch, and which copies they have because of that.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, boolean, string, timestamp_with_time_zone, timestamp_with_time_zone_null,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// `target`: `hold_…`, `run_…` or `agent_<name>`. Without `since` it is watched no more.
#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let watches = Table::create()
            .table("watches")
            .col(string("workspace"))
            .col(string("person"))
            .col(string("target"))
            .col(timestamp_with_time_zone_null("since"))
            .col(big_integer("version"))
            .col(big_integer("prior_version"))
            .col(timestamp_with_time_zone("updated_at"))
            .primary_key(Index::create().col("workspace").col("person").col("target"))
            .to_owned();
        manager.create_table(watches).await?;
        let watching = Table::alter()
            .table("copies")
            .add_column(boolean("watching").default(false))
            .to_owned();
        manager.alter_table(watching).await?;
        let db = manager.get_connection();
        db.execute_unprepared("CREATE INDEX watches_of ON watches (workspace, target, person)")
            .await?;
        Ok(())
    }
}
