//! What is commanded for all runs of an agent or a workspace, and how its pages find the runs.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, boolean, string, text};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_table(
                Table::create()
                    .table("workspace_scopes")
                    .col(string("workspace").primary_key())
                    .col(big_integer("version"))
                    .col(big_integer("prior_version"))
                    .col(text("state"))
                    .col(boolean("is_followed"))
                    .to_owned(),
            )
            .await?;
        let statements = [
            "ALTER TABLE agents ADD COLUMN status varchar NOT NULL DEFAULT 'active' \
             CHECK (status IN ('active','paused','deleted'))",
            "ALTER TABLE agents ADD COLUMN is_followed boolean NOT NULL DEFAULT TRUE",
            // Scopes with pages to come: few, and for a short time.
            "CREATE INDEX agents_to_follow ON agents (workspace, name) WHERE NOT is_followed",
            "CREATE INDEX workspace_scopes_to_follow ON workspace_scopes (workspace) \
             WHERE NOT is_followed",
            // The pages of an agent and of a workspace go through the same index.
            "CREATE INDEX runs_open_by_agent ON runs (workspace, agent, id) WHERE ended_at IS NULL",
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
