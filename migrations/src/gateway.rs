//! Tables of the gateway: tokens.
//!
//! Forward only: a migration that has been released is never edited. What the tables mean is the
//! gateway's business.

mod m0001_tokens;

use sea_orm_migration::prelude::*;

/// Brings the gateway's tables up to date.
#[derive(Debug, Clone, Copy)]
pub struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![Box::new(m0001_tokens::Migration)]
    }

    fn migration_table_name() -> DynIden {
        "gateway_migrations".into_iden()
    }
}
