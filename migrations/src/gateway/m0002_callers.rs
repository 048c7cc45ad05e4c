//! Who a token speaks for, the read copy of users, workspaces, and commands on their way.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, boolean, string, string_null, text, text_null, timestamp_with_time_zone,
    timestamp_with_time_zone_null,
};

#[derive(Debug, Clone, Copy)]
pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0002_callers"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        tokens(manager).await?;
        users(manager).await?;
        commands(manager).await
    }
}

/// Tokens of before were all printed by `up`, for the owner. SQLite takes one column at a time.
async fn tokens(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let columns = [
        string_null("role"),
        boolean("printed").default(true).to_owned(),
        string_null("asked_key"),
        string_null("asked_digest"),
    ];
    for column in columns {
        let change = Table::alter().table("tokens").add_column(column).to_owned();
        manager.alter_table(change).await?;
    }
    for (name, columns, unique) in [
        ("tokens_by_asked_key", &["asked_key"][..], true),
        ("tokens_by_workspace", &["workspace", "id"][..], false),
    ] {
        let mut index = Index::create().name(name).table("tokens").to_owned();
        for column in columns {
            index.col(*column);
        }
        if unique {
            index.unique();
        }
        manager.create_index(index).await?;
    }
    Ok(())
}

/// `sync_cursors` says up to which number of a publisher's facts the copy has come.
async fn users(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("users")
                .col(string("workspace"))
                .col(string("name"))
                .col(text("roles"))
                .col(boolean("active"))
                .col(big_integer("version"))
                .primary_key(Index::create().col("workspace").col("name"))
                .to_owned(),
        )
        .await?;
    manager
        .create_table(
            Table::create()
                .table("sync_cursors")
                .col(string("source").primary_key())
                .col(big_integer("seq"))
                .to_owned(),
        )
        .await?;
    manager
        .create_table(
            Table::create()
                .table("workspaces")
                .col(string("name").primary_key())
                .col(string("made_by"))
                .col(timestamp_with_time_zone("created_at"))
                .to_owned(),
        )
        .await
}

/// Commands that were accepted while their owner was down.
async fn commands(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("commands")
                .col(string("id").primary_key())
                .col(string("workspace"))
                .col(string("caller"))
                .col(text("roles"))
                .col(string("service"))
                .col(text("subject"))
                .col(text("ask_subject"))
                .col(text("envelope"))
                .col(string("key").unique_key())
                .col(string("digest"))
                .col(string_null("after_id"))
                .col(string("state").check(Expr::cust("state IN ('accepted','done')")))
                .col(text_null("answer"))
                .col(boolean("published"))
                .col(big_integer("tries"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone_null("done_at"))
                .check(Expr::cust(
                    "(state = 'done') = (answer IS NOT NULL AND done_at IS NOT NULL)",
                ))
                .to_owned(),
        )
        .await?;
    manager
        .create_index(
            Index::create()
                .name("commands_open")
                .table("commands")
                .col("tries")
                .col("id")
                .and_where(Expr::col("state").eq("accepted"))
                .to_owned(),
        )
        .await?;
    manager
        .create_index(
            Index::create()
                .name("commands_by_done_at")
                .table("commands")
                .col("done_at")
                .to_owned(),
        )
        .await
}
