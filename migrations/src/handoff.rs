//! Tables of the handoff service.

mod m0001_first;
mod m0002_handling;
mod m0003_put_away;
mod m0004_policies;
mod m0005_voted;
mod m0006_away;
mod m0007_suspects;

use sea_orm_migration::prelude::*;

/// Brings the handoff service's tables up to date.
#[derive(Debug)]
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migration_table_name() -> DynIden {
        "handoff_migrations".into_iden()
    }

    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m0001_first::Migration),
            Box::new(m0002_handling::Migration),
            Box::new(m0003_put_away::Migration),
            Box::new(m0004_policies::Migration),
            Box::new(m0005_voted::Migration),
            Box::new(m0006_away::Migration),
            Box::new(m0007_suspects::Migration),
        ]
    }
}
