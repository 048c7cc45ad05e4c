//! Agents, contacts, runs, steps, values and history.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, integer, string, string_null, text, text_null, timestamp_with_time_zone,
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
        agents(manager).await?;
        contacts(manager).await?;
        runs(manager).await?;
        steps(manager).await?;
        history(manager).await
    }
}

/// `prior_version` is the version that the writer had read: the guard of the upsert compares it.
async fn agents(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("agents")
                .col(string("workspace"))
                .col(string("name"))
                .col(big_integer("version"))
                .col(big_integer("prior_version"))
                .col(text("state"))
                .col(timestamp_with_time_zone("updated_at"))
                .primary_key(Index::create().col("workspace").col("name"))
                .to_owned(),
        )
        .await?;
    manager
        .create_table(
            Table::create()
                .table("agent_versions")
                .col(string("workspace"))
                .col(string("agent"))
                .col(integer("version"))
                .col(text("plan"))
                .col(timestamp_with_time_zone("created_at"))
                .primary_key(Index::create().col("workspace").col("agent").col("version"))
                .to_owned(),
        )
        .await
}

async fn contacts(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("contacts")
                .col(string("workspace"))
                .col(string("id"))
                .col(big_integer("version"))
                .col(big_integer("prior_version"))
                .col(text("state"))
                .col(timestamp_with_time_zone_null("deleted_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .primary_key(Index::create().col("workspace").col("id"))
                .to_owned(),
        )
        .await
}

async fn runs(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("runs")
                .col(uuid_key("id"))
                .col(string("workspace"))
                .col(string("agent"))
                .col(string("status").check(Expr::cust(
                    "status IN ('queued','running','waiting','awaiting_approval','awaiting_input',\
                     'paused_for_intervention','completed','failed','cancelled')",
                )))
                .col(big_integer("version"))
                .col(big_integer("prior_version"))
                .col(text("state"))
                .col(text("labels"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone_null("resume_at"))
                .col(timestamp_with_time_zone_null("ended_at"))
                .check(Expr::cust(
                    "(ended_at IS NOT NULL) = (status IN ('completed','failed','cancelled'))",
                ))
                .to_owned(),
        )
        .await?;
    // The key grows with time: ids sort by the time of their making.
    manager
        .create_index(
            Index::create()
                .name("runs_by_workspace")
                .table("runs")
                .col("workspace")
                .col("id")
                .to_owned(),
        )
        .await?;
    manager
        .create_table(
            Table::create()
                .table("run_values")
                .col(ColumnDef::new("run_id").uuid().not_null())
                .col(string("name"))
                .col(text("value"))
                .to_owned(),
        )
        .await?;
    manager
        .create_index(
            Index::create()
                .name("run_values_by_name")
                .table("run_values")
                .col("run_id")
                .col("name")
                .unique()
                .to_owned(),
        )
        .await
}

async fn steps(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("steps")
                .col(ColumnDef::new("run_id").uuid().not_null())
                .col(string("step_id"))
                .col(string("status"))
                .col(string_null("tool"))
                .col(text_null("request"))
                .col(text_null("response"))
                .col(string_null("error_code"))
                .col(string_null("claimed_by"))
                .col(timestamp_with_time_zone_null("claimed_at"))
                .col(timestamp_with_time_zone_null("started_at"))
                .col(timestamp_with_time_zone_null("ended_at"))
                .col(integer("attempts"))
                .col(big_integer("dispatch"))
                .to_owned(),
        )
        .await?;
    manager
        .create_index(
            Index::create()
                .name("steps_by_run")
                .table("steps")
                .col("run_id")
                .col("step_id")
                .unique()
                .to_owned(),
        )
        .await
}

/// One row a decision, with its events inside, numbered within the run.
async fn history(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("history")
                .col(ColumnDef::new("run_id").uuid().not_null())
                .col(big_integer("first_seq"))
                .col(big_integer("last_seq"))
                .col(timestamp_with_time_zone("at"))
                .col(text("events"))
                .to_owned(),
        )
        .await?;
    manager
        .create_index(
            Index::create()
                .name("history_by_run")
                .table("history")
                .col("run_id")
                .col("last_seq")
                .unique()
                .to_owned(),
        )
        .await
}

fn uuid_key(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).uuid().not_null().primary_key().take()
}
