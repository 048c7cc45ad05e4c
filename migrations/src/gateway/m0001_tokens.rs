//! `tokens`: who may speak, by the digest of what they show.

use sea_orm_migration::prelude::*;

#[derive(Debug, Clone, Copy)]
pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0001_tokens"
    }
}

#[derive(DeriveIden)]
enum Tokens {
    Table,
    Id,
    Workspace,
    UserName,
    TokenSha256,
    CreatedAt,
    ExpiresAt,
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let digest = Expr::expr(Func::char_length(Expr::col(Tokens::TokenSha256))).eq(64);
        let table = Table::create()
            .table(Tokens::Table)
            .col(
                ColumnDef::new(Tokens::Id)
                    .big_integer()
                    .not_null()
                    .auto_increment()
                    .primary_key(),
            )
            .col(ColumnDef::new(Tokens::Workspace).text().not_null())
            .col(ColumnDef::new(Tokens::UserName).text().not_null())
            .col(
                ColumnDef::new(Tokens::TokenSha256)
                    .text()
                    .not_null()
                    .unique_key()
                    .check(digest),
            )
            .col(
                ColumnDef::new(Tokens::CreatedAt)
                    .timestamp_with_time_zone()
                    .not_null(),
            )
            .col(ColumnDef::new(Tokens::ExpiresAt).timestamp_with_time_zone())
            .to_owned();
        manager.create_table(table).await
    }
}
