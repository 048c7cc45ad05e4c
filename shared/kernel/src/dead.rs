//! Dead letters: messages that cannot be handled, kept with the reason.

use chrono::{DateTime, Utc};
use holdpoint_store::{ROWS_PER_STATEMENT, StoreError, TableWriter};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;

use crate::task::Raw;

mod row {
    #![expect(
        clippy::disallowed_methods,
        reason = "the entity macro generates a nested save that begins"
    )]
    #![expect(unreachable_pub, reason = "the entity macro wants a public model")]
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "dead_letters")]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i64,
        pub subject: String,
        pub body: String,
        pub reason: String,
        pub created_at: DateTimeUtc,
        /// Of the input that must not be decided again; empty: none.
        pub digest: String,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

/// A message that cannot be handled.
pub(crate) struct Letter {
    pub(crate) raw: Raw,
    pub(crate) reason: String,
    /// Of the input that must not be decided again; empty: none.
    pub(crate) digest: String,
}

/// Keeps messages that cannot be handled, each with the reason.
pub(crate) async fn bury(
    db: &TableWriter,
    letters: &[Letter],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let tx = db.begin().await?;
    for chunk in letters.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk.iter().map(|letter| row::ActiveModel {
            subject: Set(letter.raw.subject.clone()),
            // Postgres takes no NUL in a text.
            body: Set(String::from_utf8_lossy(&letter.raw.body).replace('\0', "\u{fffd}")),
            reason: Set(letter.reason.replace('\0', "\u{fffd}")),
            created_at: Set(now),
            digest: Set(letter.digest.clone()),
            ..Default::default()
        });
        row::Entity::insert_many(rows)
            .exec_without_returning(&tx)
            .await?;
    }
    tx.commit().await
}
