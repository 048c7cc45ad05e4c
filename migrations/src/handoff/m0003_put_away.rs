//! How requests are found that somebody has put away for later, and those that were delegated.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{text, timestamp_with_time_zone_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// `additional_deciders`: words between blanks, as `audience`. Rows of before show up as if nobody had put them away
/// or delegated them, until they change.
#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let columns = [
            timestamp_with_time_zone_null("snoozed_until"),
            text("additional_deciders").default("").to_owned(),
        ];
        // SQLite takes one column at a time.
        for column in columns {
            let change = Table::alter()
                .table("requests")
                .add_column(column)
                .to_owned();
            manager.alter_table(change).await?;
        }
        Ok(())
    }
}
