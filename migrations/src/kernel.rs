//! Tables that the kernel needs in every service.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, string, text, timestamp_with_time_zone};

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
