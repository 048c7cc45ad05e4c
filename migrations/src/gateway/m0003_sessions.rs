//! Sessions of people's browsers, and one-time links that open one; all by digest only.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, big_integer_null, boolean, string, string_null, timestamp_with_time_zone,
};

#[derive(Debug, Clone, Copy)]
pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0003_sessions"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        sessions(manager).await?;
        manager
            .create_table(
                Table::create()
                    .table("logins")
                    .col(string("code_sha256").primary_key())
                    .col(string("workspace"))
                    .col(string("user_name"))
                    .col(timestamp_with_time_zone("expires_at"))
                    .to_owned(),
            )
            .await
    }
}

/// One row a browser and workspace; one of a browser's rows is the workspace it shows.
async fn sessions(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let digest = Expr::expr(Func::char_length(Expr::col("session_sha256"))).eq(64);
    manager
        .create_table(
            Table::create()
                .table("sessions")
                .col(big_integer("id").auto_increment().primary_key())
                .col(string("session_sha256").check(digest))
                .col(string("workspace"))
                .col(string("user_name"))
                .col(string_null("role"))
                .col(big_integer_null("token_id"))
                .col(boolean("shown"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("seen_at"))
                .to_owned(),
        )
        .await?;
    for (name, columns, unique) in [
        ("sessions_by_digest", ["session_sha256", "workspace"], true),
        ("sessions_by_user", ["workspace", "user_name"], false),
    ] {
        let mut index = Index::create().name(name).table("sessions").to_owned();
        for column in columns {
            index.col(column);
        }
        if unique {
            index.unique();
        }
        manager.create_index(index).await?;
    }
    Ok(())
}
