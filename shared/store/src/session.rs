//! A name that a process holds while it lives: other processes on the same Postgres see when it is gone.

use sea_orm::sqlx::{self, Connection as _, PgConnection};
use sea_orm::{DbErr, RuntimeErr};

use crate::{Location, StoreError};

/// A session of Postgres that holds a name (an advisory lock). The server lets the name go when the
/// session ends, however its process ended.
#[derive(Debug)]
pub struct HeldName {
    session: PgConnection,
}

impl HeldName {
    /// Takes a name; none: on SQLite no other process shares the tables, and nobody has to see it.
    ///
    /// # Errors
    /// [`StoreError`] when the database is away.
    pub async fn take(location: &Location, name: &str) -> Result<Option<Self>, StoreError> {
        let Location::Postgres { url, .. } = location else {
            return Ok(None);
        };
        let mut session = PgConnection::connect(url).await.map_err(away)?;
        sqlx::query("SELECT pg_advisory_lock(hashtextextended($1, 0))")
            .bind(name)
            .execute(&mut session)
            .await
            .map_err(away)?;
        Ok(Some(Self { session }))
    }

    /// Whether the session still lives, and with it the name.
    pub async fn is_held(&mut self) -> bool {
        self.session.ping().await.is_ok()
    }
}

fn away(error: sqlx::Error) -> StoreError {
    StoreError::Database(DbErr::Conn(RuntimeErr::SqlxError(error.into())))
}
