//! Tables of the scheduler.

mod m0001_first;
mod m0002_ground;
mod m0003_forget;
mod m0004_suspects;

use sea_orm_migration::prelude::*;

/// Brings the scheduler's tables up to date.
#[derive(Debug)]
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migration_table_name() -> DynIden {
        "scheduler_migrations".into_iden()
    }

    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m0001_first::Migration),
            Box::new(m0002_ground::Migration),
            Box::new(m0003_forget::Migration),
            Box::new(m0004_suspects::Migration),
        ]
    }
}
