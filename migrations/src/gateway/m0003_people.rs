//! The copy of users as every service keeps it: with mail addresses, and by role.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::string_null;

#[derive(Debug, Clone, Copy)]
pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0003_people"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let email = Table::alter()
            .table("users")
            .add_column(string_null("email"))
            .to_owned();
        manager.alter_table(email).await?;
        crate::people::roles(manager).await?;
        // A copy is read again from its beginning: whoever is unknown is asked for at once.
        for table in ["users", "sync_cursors"] {
            let all = Query::delete().from_table(table).to_owned();
            manager.exec_stmt(all).await?;
        }
        Ok(())
    }
}
