//! How requests are found by who has them or may take them, by urgency and by how far a handoff is;
//! and users by their roles.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// `audience` and `roles` are words between blanks, so that one is found by ` word `.
const COLUMNS: [&str; 9] = [
    "ALTER TABLE requests ADD COLUMN stage varchar CHECK (stage IN \
     ('offered','accepted','taken_over','reassigned','completed'))",
    "ALTER TABLE requests ADD COLUMN assignee varchar",
    "ALTER TABLE requests ADD COLUMN audience text NOT NULL DEFAULT ''",
    "ALTER TABLE requests ADD COLUMN priority varchar NOT NULL DEFAULT 'normal' \
     CHECK (priority IN ('low','normal','high','urgent','critical'))",
    "ALTER TABLE users ADD COLUMN roles text NOT NULL DEFAULT ''",
    "ALTER TABLE users ADD COLUMN is_active boolean NOT NULL DEFAULT TRUE",
    "ALTER TABLE users ADD COLUMN is_leaving boolean NOT NULL DEFAULT FALSE",
    // Loads: who has how many.
    "CREATE INDEX requests_open_by_assignee ON requests (workspace, assignee) \
     WHERE status = 'open' AND assignee IS NOT NULL",
    // Users whose requests are on their way to others: few, and for a short time.
    "CREATE INDEX users_leaving ON users (workspace, name) WHERE is_leaving",
];

/// What rows of before say in their state.
const SQLITE: [&str; 2] = [
    "UPDATE users SET is_active = json_extract(state, '$.active'), roles = coalesce(' ' || \
     (SELECT group_concat(value, ' ') FROM json_each(users.state, '$.roles')) || ' ', '')",
    "UPDATE requests SET audience = coalesce(' ' || (SELECT group_concat(value, ' ') \
     FROM json_each(requests.state, '$.spec.to')) || ' ', ' @role.owner ') WHERE kind IS NOT NULL",
];

/// The same.
const POSTGRES: [&str; 2] = [
    "UPDATE users SET is_active = (state::json ->> 'active')::boolean, roles = coalesce(' ' || \
     (SELECT string_agg(value, ' ') FROM json_array_elements_text(state::json -> 'roles')) || ' ', '')",
    "UPDATE requests SET audience = coalesce(' ' || (SELECT string_agg(value, ' ') FROM \
     json_array_elements_text(coalesce(state::json -> 'spec' -> 'to', '[]'::json))) || ' ', \
     ' @role.owner ') WHERE kind IS NOT NULL",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let connection = manager.get_connection();
        let is_postgres = manager.get_database_backend() == DbBackend::Postgres;
        let known = if is_postgres { POSTGRES } else { SQLITE };
        for statement in COLUMNS.into_iter().chain(known) {
            connection.execute_unprepared(statement).await?;
        }
        Ok(())
    }
}
