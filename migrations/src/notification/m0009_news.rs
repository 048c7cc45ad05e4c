//! In which order people's notifications changed: what is live goes on from there.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{big_integer, string};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// `seq` is the number of the commit that last changed a copy, counted a workspace; what is there
/// already has 0.
#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let counted = Table::create()
            .table("changes")
            .col(string("workspace").primary_key())
            .col(big_integer("seq"))
            .to_owned();
        manager.create_table(counted).await?;
        let seq = Table::alter()
            .table("copies")
            .add_column(big_integer("seq").default(0))
            .to_owned();
        manager.alter_table(seq).await?;
        let db = manager.get_connection();
        for statement in [
            "CREATE INDEX copies_by_seq ON copies (workspace, person, seq)",
            "CREATE INDEX copies_unread_of ON copies (workspace, person) WHERE read_at IS NULL",
        ] {
            db.execute_unprepared(statement).await?;
        }
        Ok(())
    }
}
