//! Nodes, leases, who had a step when, and registered tools.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, string, text, timestamp_with_time_zone, timestamp_with_time_zone_null,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        nodes(manager).await?;
        leases(manager).await?;
        lease_events(manager).await?;
        tools(manager).await?;
        // The sweep of dispatches looks at these alone.
        manager
            .create_index(
                Index::create()
                    .name("steps_queued")
                    .table("steps")
                    .col("run_id")
                    .col("step_id")
                    .and_where(Expr::cust("status = 'queued'"))
                    .to_owned(),
            )
            .await
    }
}

async fn nodes(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("nodes")
                .col(string("name").primary_key())
                .col(
                    string("status")
                        .check(Expr::cust("status IN ('UP','SUSPECT','DRAINING','DOWN')")),
                )
                .col(big_integer("version"))
                .col(big_integer("prior_version"))
                .col(timestamp_with_time_zone("last_seen"))
                .col(text("state"))
                .to_owned(),
        )
        .await
}

/// `expires_ms` is `heartbeat_at` plus the lease, in milliseconds since 1970: both databases can add.
async fn leases(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("leases")
                .col(string("id").primary_key())
                .col(ColumnDef::new("run_id").uuid().not_null())
                .col(string("step_id"))
                .col(string("workspace"))
                .col(string("node"))
                .col(big_integer("dispatch"))
                .col(timestamp_with_time_zone("claimed_at"))
                .col(timestamp_with_time_zone("heartbeat_at"))
                .col(big_integer("lease_ms"))
                .col(big_integer("expires_ms"))
                .to_owned(),
        )
        .await?;
    for (name, column) in [
        ("leases_by_node", "node"),
        ("leases_by_expiry", "expires_ms"),
    ] {
        manager
            .create_index(
                Index::create()
                    .name(name)
                    .table("leases")
                    .col(column)
                    .to_owned(),
            )
            .await?;
    }
    Ok(())
}

/// Appended, never rewritten (S4-R7).
async fn lease_events(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("lease_events")
                .col(ColumnDef::new("run_id").uuid().not_null())
                .col(string("step_id"))
                .col(big_integer("dispatch"))
                .col(
                    string("action")
                        .check(Expr::cust("action IN ('claimed','taken_over','released')")),
                )
                .col(string("node"))
                .col(timestamp_with_time_zone("at"))
                .to_owned(),
        )
        .await?;
    manager
        .create_index(
            Index::create()
                .name("handovers_by_step")
                .table("lease_events")
                .col("run_id")
                .col("step_id")
                .col("dispatch")
                .col("action")
                .unique()
                .to_owned(),
        )
        .await
}

async fn tools(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("tools")
                .col(string("workspace"))
                .col(string("name"))
                .col(big_integer("version"))
                .col(big_integer("prior_version"))
                .col(text("state"))
                .col(timestamp_with_time_zone_null("deleted_at"))
                .primary_key(Index::create().col("workspace").col("name"))
                .to_owned(),
        )
        .await
}
