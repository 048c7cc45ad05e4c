//! Messages that are committed and not yet published: one row a batch.

use chrono::{DateTime, Utc};
use holdpoint_bus::Outgoing;
use holdpoint_store::StoreError;
use sea_orm::entity::prelude::*;
use sea_orm::{ActiveValue::Set, DatabaseTransaction, QueryOrder};

mod row {
    #![expect(
        clippy::disallowed_methods,
        reason = "the entity macro generates a nested save that begins"
    )]
    #![expect(unreachable_pub, reason = "the entity macro wants a public model")]
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "outbox")]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i64,
        pub messages: String,
        pub created_at: DateTimeUtc,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

/// Largest message, in bytes: what a NATS server takes by default, less room for headers.
const MESSAGE_BYTES_MAX: usize = (1 << 20) - 4_096;

/// Keeps messages until they are published; returns the row's id.
pub(crate) async fn keep(
    db: &DatabaseTransaction,
    messages: &[Outgoing],
    now: DateTime<Utc>,
) -> Result<Option<i64>, StoreError> {
    if messages.is_empty() {
        return Ok(None);
    }
    for message in messages {
        // Refused before the commit: published it would be refused for ever.
        let bytes = message.subject.len() + message.body.len();
        if bytes > MESSAGE_BYTES_MAX {
            let reason = format!("a message to {} has {bytes} bytes", message.subject);
            return Err(StoreError::broken("outbox", reason));
        }
    }
    let messages =
        serde_json::to_string(messages).map_err(|error| StoreError::broken("outbox", error))?;
    let row = row::ActiveModel {
        messages: Set(messages),
        created_at: Set(now),
        ..Default::default()
    };
    Ok(Some(
        row::Entity::insert(row).exec(db).await?.last_insert_id,
    ))
}

/// Forgets rows whose messages are published.
pub(crate) async fn forget(db: &impl ConnectionTrait, published: &[i64]) -> Result<(), StoreError> {
    if !published.is_empty() {
        row::Entity::delete_many()
            .filter(row::COLUMN.id.is_in(published.iter().copied()))
            .exec(db)
            .await?;
    }
    Ok(())
}

/// Rows that a process left behind, oldest first.
pub(crate) async fn left_behind(
    db: &impl ConnectionTrait,
) -> Result<Vec<(i64, Vec<Outgoing>)>, StoreError> {
    let rows = row::Entity::find()
        .order_by_asc(row::Column::Id)
        .all(db)
        .await?;
    rows.into_iter()
        .map(|row| {
            let messages = serde_json::from_str(&row.messages)
                .map_err(|error| StoreError::broken("outbox", error))?;
            Ok((row.id, messages))
        })
        .collect()
}
