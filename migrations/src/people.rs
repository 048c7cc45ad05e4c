//! The read copy of users, the same in every service that keeps one (`holdpoint-user-directory`).

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, boolean, string, string_null, text};

/// All of it, for a service that had none.
pub(crate) async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("users")
                .col(string("workspace"))
                .col(string("name"))
                .col(text("roles"))
                .col(boolean("active"))
                .col(big_integer("version"))
                .col(string_null("email"))
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
    roles(manager).await
}

/// Who is active and has a role.
pub(crate) async fn roles(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager
        .create_table(
            Table::create()
                .table("user_roles")
                .col(string("workspace"))
                .col(string("role"))
                .col(string("name"))
                .primary_key(Index::create().col("workspace").col("role").col("name"))
                .to_owned(),
        )
        .await?;
    manager
        .create_index(
            Index::create()
                .name("user_roles_by_name")
                .table("user_roles")
                .col("workspace")
                .col("name")
                .to_owned(),
        )
        .await
}
