//! Tables of the executor.

mod m0001_first;
mod m0002_ground;
mod m0003_scopes;
mod m0004_leases_and_tools;
mod m0005_activities;
mod m0006_contacts_by_mail;
mod m0007_users;
mod m0008_suspects;
mod m0009_raw_errors;

use sea_orm_migration::prelude::*;

/// Brings the executor's tables up to date.
#[derive(Debug)]
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migration_table_name() -> DynIden {
        "executor_migrations".into_iden()
    }

    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m0001_first::Migration),
            Box::new(m0002_ground::Migration),
            Box::new(m0003_scopes::Migration),
            Box::new(m0004_leases_and_tools::Migration),
            Box::new(m0005_activities::Migration),
            Box::new(m0006_contacts_by_mail::Migration),
            Box::new(m0007_users::Migration),
            Box::new(m0008_suspects::Migration),
            Box::new(m0009_raw_errors::Migration),
        ]
    }
}
