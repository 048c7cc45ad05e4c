//! Tables of the notification service.

mod m0001_first;
mod m0002_deliveries;
mod m0003_preferences;
mod m0004_webhooks;
mod m0005_forgetting;
mod m0006_channels;
mod m0007_notices;
mod m0008_digests;
mod m0009_news;
mod m0010_watches;
mod m0011_ends;
mod m0012_suspects;

use sea_orm_migration::prelude::*;

/// Brings the notification service's tables up to date.
#[derive(Debug)]
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migration_table_name() -> DynIden {
        "notification_migrations".into_iden()
    }

    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m0001_first::Migration),
            Box::new(m0002_deliveries::Migration),
            Box::new(m0003_preferences::Migration),
            Box::new(m0004_webhooks::Migration),
            Box::new(m0005_forgetting::Migration),
            Box::new(m0006_channels::Migration),
            Box::new(m0007_notices::Migration),
            Box::new(m0008_digests::Migration),
            Box::new(m0009_news::Migration),
            Box::new(m0010_watches::Migration),
            Box::new(m0011_ends::Migration),
            Box::new(m0012_suspects::Migration),
        ]
    }
}
