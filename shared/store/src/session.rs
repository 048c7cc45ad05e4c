//! A name that a process holds while it lives. Other processes on the same Postgres see when it is free.

use sea_orm::sqlx::{self, Connection as _, PgConnection};
use sea_orm::{DbErr, RuntimeErr};

use crate::{Location, StoreError};

/// A Postgres session that holds a name, as an advisory lock. The server frees the name when the session
/// ends, also after a crash of its process.
#[derive(Debug)]
pub struct HeldName {
    session: PgConnection,
}

impl HeldName {
    /// Takes a name. Absent on SQLite, where no other process shares the tables.
    ///
    /// # Errors
    /// [`StoreError`] when the database is unavailable.
    pub async fn take(location: &Location, name: &str) -> Result<Option<Self>, StoreError> {
        let Location::Postgres { url, .. } = location else {
            return Ok(None);
        };
        let mut session = PgConnection::connect(url).await.map_err(unavailable)?;
        sqlx::query("SELECT pg_advisory_lock(hashtextextended($1, 0))")
            .bind(name)
            .execute(&mut session)
            .await
            .map_err(unavailable)?;
        Ok(Some(Self { session }))
    }

    /// Whether the session still lives, and with it the name.
    pub async fn is_held(&mut self) -> bool {
        self.session.ping().await.is_ok()
    }
}

fn unavailable(error: sqlx::Error) -> StoreError {
    StoreError::Database(DbErr::Conn(RuntimeErr::SqlxError(error.into())))
}
