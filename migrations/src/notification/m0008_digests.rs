//! When people are next mailed of what is open.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::timestamp_with_time_zone_null;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let next = Table::alter()
            .table("preferences")
            .add_column(timestamp_with_time_zone_null("digest_at"))
            .to_owned();
        manager.alter_table(next).await?;
        let db = manager.get_connection();
        for statement in [
            "CREATE INDEX preferences_digest ON preferences (digest_at) WHERE digest_at IS NOT NULL",
            "CREATE INDEX deliveries_digests ON deliveries (updated_at) WHERE channel = 'digest'",
        ] {
            db.execute_unprepared(statement).await?;
        }
        Ok(())
    }
}
