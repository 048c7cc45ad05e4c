//! Tables of the gateway: tokens, sessions, inbound hooks, the read copy of users, workspaces, commands on their way.
//!
//! Forward only: a migration that has been released is never edited. What the tables mean is the
//! gateway's business.

mod m0001_tokens;
mod m0002_callers;
mod m0003_people;
mod m0003_sessions;
mod m0004_inbound_hooks;
mod m0005_token_makers;

use sea_orm_migration::prelude::*;

/// Brings the gateway's tables up to date.
#[derive(Debug, Clone, Copy)]
pub struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m0001_tokens::Migration),
            Box::new(m0002_callers::Migration),
            Box::new(m0003_sessions::Migration),
            Box::new(m0003_people::Migration),
            Box::new(m0004_inbound_hooks::Migration),
            Box::new(m0005_token_makers::Migration),
        ]
    }

    fn migration_table_name() -> DynIden {
        "gateway_migrations".into_iden()
    }
}
