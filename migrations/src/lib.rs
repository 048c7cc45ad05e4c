//! The tables of every service, one migrator each, with a migration table of its own.
//!
//! A migration is a file of SQL that both databases run. The placeholders in [`statements`] stand for
//! the few types that differ. Forward only: a released file is never edited, and a change is a new
//! file. CHECKs, UNIQUEs and partial indexes are in the file that creates the table, because SQLite
//! cannot add them later. Migrations never use entities: those change.

#![expect(
    elided_lifetimes_in_paths,
    reason = "the migration trait leaves out the lifetime of the manager"
)]

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

const KERNEL: &str = include_str!("shared/kernel.sql");
const DEAD_LETTERS_BY_AGE: &str = include_str!("shared/dead_letters_by_age.sql");
const USER_DIRECTORY: &str = include_str!("shared/user_directory.sql");

/// One migration: its name, and its files in order.
struct Migration {
    name: &'static str,
    files: &'static [&'static str],
}

impl MigrationName for Migration {
    fn name(&self) -> &str {
        self.name
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let backend = manager.get_database_backend();
        for file in self.files {
            for statement in statements(file, backend) {
                let connection = manager.get_connection();
                connection.execute_unprepared(&statement).await?;
            }
        }
        Ok(())
    }
}

/// The statements of a file, with the types of a database.
fn statements(file: &str, backend: DbBackend) -> Vec<String> {
    let types = if backend == DbBackend::Postgres {
        [
            ("{bigint}", "bigint"),
            ("{bytes}", "bytea"),
            // Postgres cannot read a text with a NUL.
            (
                "{contact_fields}",
                "LATERAL json_object_keys(\
                 replace(contacts.state, '\\u0000', '\\ufffd')::json->'fields') AS field(key)",
            ),
            ("{instant}", "timestamp with time zone"),
            (
                "{lease}",
                "timestamp with time zone DEFAULT (now() + interval '30 seconds')",
            ),
            ("{serial}", "bigserial PRIMARY KEY"),
            ("{uuid}", "uuid"),
        ]
    } else {
        // The names that sea-orm gives these types on SQLite.
        [
            ("{bigint}", "integer"),
            ("{bytes}", "blob"),
            (
                "{contact_fields}",
                "json_each(contacts.state, '$.fields') AS field",
            ),
            ("{instant}", "timestamp_with_timezone_text"),
            ("{lease}", "timestamp_with_timezone_text"),
            ("{serial}", "integer NOT NULL PRIMARY KEY AUTOINCREMENT"),
            ("{uuid}", "uuid_text"),
        ]
    };
    let lines = file.lines().filter(|line| !line.starts_with("--"));
    let mut sql = lines.collect::<Vec<_>>().join("\n");
    for (placeholder, name) in types {
        sql = sql.replace(placeholder, name);
    }
    let statements = sql.split(";\n").chain([""]).map(str::trim);
    statements
        .filter(|statement| !statement.is_empty())
        .map(|statement| statement.trim_end_matches(';').to_owned())
        .collect()
}

macro_rules! service {
    ($service:ident: $($name:literal => [$($file:expr),*]),* $(,)?) => {
        #[doc = concat!("Tables of the service `", stringify!($service), "`.")]
        pub mod $service {
            use sea_orm_migration::prelude::*;

            /// Brings the tables up to date.
            #[derive(Debug, Clone, Copy)]
            pub struct Migrator;

            impl MigratorTrait for Migrator {
                fn migration_table_name() -> DynIden {
                    concat!(stringify!($service), "_migrations").into_iden()
                }

                fn migrations() -> Vec<Box<dyn MigrationTrait>> {
                    vec![$(Box::new(super::Migration {
                        name: $name,
                        files: &[$($file),*],
                    })),*]
                }
            }
        }
    };
}

service!(executor:
    "0001_initial" => [super::KERNEL, super::USER_DIRECTORY, include_str!("executor/0001_initial.sql")],
    "0002_ended_runs" => [include_str!("executor/0002_ended_runs.sql")],
    "0003_failed_attempts" => [include_str!("executor/0003_failed_attempts.sql")],
    "0004_dead_letters_by_age" => [super::DEAD_LETTERS_BY_AGE],
    "0005_run_lists" => [include_str!("executor/0005_run_lists.sql")],
    "0006_snapshots" => [include_str!("executor/0006_snapshots.sql")],
    "0030_operations" => [include_str!("executor/0030_operations.sql")],
    "0031_operations_by_age" => [include_str!("executor/0031_operations_by_age.sql")],
    "0053_erasures" => [include_str!("executor/0053_erasures.sql")],
    "0054_run_limits" => [include_str!("executor/0054_run_limits.sql")],
    "0055_awaited_replies" => [include_str!("executor/0055_awaited_replies.sql")],
    "0057_message_ids" => [include_str!("executor/0057_message_ids.sql")],
    "0058_libraries" => [include_str!("executor/0058_libraries.sql")],
    "0063_blobs" => [include_str!("executor/0063_blobs.sql")],
    "0064_contact_fields" => [include_str!("executor/0064_contact_fields.sql")],
    "0066_called_tools" => [include_str!("executor/0066_called_tools.sql")],
);
service!(gateway:
    "0001_initial" => [super::USER_DIRECTORY, include_str!("gateway/0001_initial.sql")],
    "0057_unmatched_replies" => [include_str!("gateway/0057_unmatched_replies.sql")],
    "0059_rehearsals" => [include_str!("gateway/0059_rehearsals.sql")],
);
service!(handoff:
    "0001_initial" => [super::KERNEL, include_str!("handoff/0001_initial.sql")],
    "0002_retention" => [super::DEAD_LETTERS_BY_AGE, include_str!("handoff/0002_retention.sql")],
    "0003_standing_approvals" => [include_str!("handoff/0003_standing_approvals.sql")],
    "0004_early_approvals" => [include_str!("handoff/0004_early_approvals.sql")],
);
service!(notification:
    "0001_initial" => [super::KERNEL, super::USER_DIRECTORY, include_str!("notification/0001_initial.sql")],
    "0002_dead_letters_by_age" => [super::DEAD_LETTERS_BY_AGE],
    "0056_shared_notifications" => [include_str!("notification/0056_shared_notifications.sql")],
    "0061_contact_events" => [include_str!("notification/0061_contact_events.sql")],
);
service!(scheduler:
    "0001_initial" => [super::KERNEL, include_str!("scheduler/0001_initial.sql")],
    "0002_dead_letters_by_age" => [super::DEAD_LETTERS_BY_AGE],
    "0003_schedules" => [include_str!("scheduler/0003_schedules.sql")],
);
