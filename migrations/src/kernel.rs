//! Tables that the kernel needs in every service.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, integer, string, text, timestamp_with_time_zone, timestamp_with_time_zone_null,
};
use sea_orm_migration::sea_orm::DbBackend;

/// Messages that are committed and not yet published, keys that were used, and dead letters.
pub(crate) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("outbox")
                .col(big_integer("id").auto_increment().primary_key())
                .col(text("messages"))
                .col(timestamp_with_time_zone("created_at"))
                .to_owned(),
        )
        .await?;
    manager
        .create_table(
            Table::create()
                .table("idempotency")
                .col(string("key").primary_key())
                .col(string("digest"))
                .col(text("answer"))
                .col(timestamp_with_time_zone("created_at"))
                .to_owned(),
        )
        .await?;
    manager
        .create_index(
            Index::create()
                .name("idempotency_by_created_at")
                .table("idempotency")
                .col("created_at")
                .to_owned(),
        )
        .await?;
    manager
        .create_table(
            Table::create()
                .table("dead_letters")
                .col(big_integer("id").auto_increment().primary_key())
                .col(text("subject"))
                .col(text("body"))
                .col(text("reason"))
                .col(timestamp_with_time_zone("created_at"))
                .to_owned(),
        )
        .await
}

/// Desired states that no receiver has confirmed, and whose outbox row is whose.
pub(crate) async fn ground(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("desired_states")
                .col(string("kind"))
                .col(string("workspace"))
                .col(string("id"))
                .col(big_integer("rev"))
                .col(text("body"))
                .col(timestamp_with_time_zone("created_at"))
                .primary_key(Index::create().col("kind").col("workspace").col("id"))
                .to_owned(),
        )
        .await?;
    let mut leased_until = timestamp_with_time_zone_null("leased_until");
    // Replicas compare leases by the one clock that they share, which is the database's; the kernel
    // takes rows over for as long (`outbox.rs`, `LEASE`).
    if manager.get_database_backend() == DbBackend::Postgres {
        leased_until.default(Expr::cust("now() + interval '30 seconds'"));
    }
    // SQLite adds one column a statement.
    for column in [string("owner").default("").take(), leased_until.take()] {
        manager
            .alter_table(Table::alter().table("outbox").add_column(column).to_owned())
            .await?;
    }
    Ok(())
}

/// Which kernels run, which inputs may have ended their process, by which digest a dead letter is known, and
/// whose it is.
pub(crate) async fn suspects(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("kernels")
                .col(string("name").primary_key())
                .col(integer("deaths"))
                .col(timestamp_with_time_zone("started_at"))
                .to_owned(),
        )
        .await?;
    manager
        .create_table(
            Table::create()
                .table("suspects")
                .col(string("digest").primary_key())
                .col(integer("begun"))
                .col(timestamp_with_time_zone("noted_at"))
                .to_owned(),
        )
        .await?;
    // SQLite adds one column a statement.
    for column in ["digest", "workspace"] {
        let mut dead = Table::alter();
        dead.table("dead_letters")
            .add_column(string(column).default(""));
        manager.alter_table(dead).await?;
    }
    manager
        .create_index(
            Index::create()
                .name("dead_letters_by_workspace")
                .table("dead_letters")
                .col("workspace")
                .col("id")
                .to_owned(),
        )
        .await
}
