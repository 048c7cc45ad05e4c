//! What was said to and by contacts.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{string, string_null, text, timestamp_with_time_zone};

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
                    .table("contact_activities")
                    .col(string("workspace"))
                    .col(string("contact"))
                    .col(string("id"))
                    .col(string("kind").check(Expr::cust(
                        "kind IN ('email_in','email_out','call','note','meeting')",
                    )))
                    .col(string_null("subject"))
                    .col(text("text"))
                    .col(timestamp_with_time_zone("at"))
                    .primary_key(Index::create().col("workspace").col("contact").col("id"))
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(
                Index::create()
                    .name("contact_activities_by_time")
                    .table("contact_activities")
                    .col("workspace")
                    .col("contact")
                    .col("at")
                    .to_owned(),
            )
            .await
    }
}
