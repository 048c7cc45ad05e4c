//! How runs ended that somebody watches, and how far telling it has come.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, boolean, string, text, timestamp_with_time_zone};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// `rev` is when the run ended, in milliseconds since 1970. The executor is told of what was watched
/// before it was asked to tell of ends.
#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let ends = Table::create()
            .table("ends")
            .col(string("workspace"))
            .col(string("run"))
            .col(big_integer("rev"))
            .col(big_integer("version"))
            .col(big_integer("prior_version"))
            .col(boolean("fanning"))
            .col(text("state"))
            .col(timestamp_with_time_zone("created_at"))
            .col(timestamp_with_time_zone("updated_at"))
            .primary_key(Index::create().col("workspace").col("run").col("rev"))
            .to_owned();
        manager.create_table(ends).await?;
        let statements = [
            "CREATE INDEX ends_to_tell ON ends (created_at) WHERE fanning",
            "CREATE INDEX ends_by_age ON ends (created_at)",
            "INSERT INTO desired_states (kind, workspace, id, rev, body, created_at) \
             SELECT 'watch_run_ends', workspace, person || '/' || target, version, \
             CASE WHEN substr(target, 1, 6) = 'agent_' \
             THEN '{\"agent\":\"' || substr(target, 7) || '\"}' \
             ELSE '{\"run\":\"' || target || '\"}' END, updated_at FROM watches \
             WHERE since IS NOT NULL AND substr(target, 1, 5) <> 'hold_'",
        ];
        for statement in statements {
            manager
                .get_connection()
                .execute_unprepared(statement)
                .await?;
        }
        Ok(())
    }
}
