//! Table `outbox`: one row per batch, with the messages that are committed and not yet published.

use std::borrow::Cow;
use std::collections::VecDeque;

use chrono::{DateTime, Utc};
use holdpoint_bus::{Bus, Outgoing};
use holdpoint_store::{StoreError, TableWriter, Transaction};
use sea_orm::entity::prelude::*;
use sea_orm::{ActiveValue::Set, QueryOrder, QueryResult, QuerySelect, QueryTrait, Statement};
use serde::{Deserialize, Serialize};

use crate::error_chain::error_chain;

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
        pub owner: String,
        pub leased_until: Option<DateTimeUtc>,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

/// Bytes reserved for a message's headers.
const HEADERS_BYTES: usize = 4_096;

/// Largest message in bytes: the default limit of a NATS server minus the headers.
pub(crate) const MESSAGE_BYTES_MAX: usize = (1 << 20) - HEADERS_BYTES;

/// Largest message that this bus accepts: its server may be configured with a lower limit.
pub(crate) fn message_bytes_max(bus: &Bus) -> usize {
    let allowed = bus.max_payload().saturating_sub(HEADERS_BYTES);
    allowed.min(MESSAGE_BYTES_MAX)
}

/// How long only its owner may publish a row, on a store that several kernels share. A new row gets the same
/// lease by its column's default.
const LEASE: &str = "30 seconds";

/// Rows that are adopted at once.
const ADOPTED_MAX: u64 = 100;

/// Inserts the row with the commit; returns its id.
pub(crate) async fn commit_with(
    tx: Transaction,
    row: Option<NewRow>,
) -> Result<Option<i64>, StoreError> {
    let Some(NewRow(row)) = row else {
        tx.commit().await?;
        return Ok(None);
    };
    let mut insert = row::Entity::insert(row).into_query();
    insert.returning_col(row::Column::Id);
    let insert = tx.get_database_backend().build(&insert);
    let rows = tx.commit_with(insert).await?;
    let id = rows.first().map(|row| row.try_get_by_index(0));
    Ok(id.transpose()?)
}

/// A row that is not inserted yet.
pub(crate) struct NewRow(row::ActiveModel);

/// The row for messages; `None` if there are none.
pub(crate) fn new_row(
    messages: &[Outgoing],
    owner: &str,
    bytes_max: usize,
    now: DateTime<Utc>,
) -> Result<Option<NewRow>, StoreError> {
    if messages.is_empty() {
        return Ok(None);
    }
    for message in messages {
        // Rejected before the commit: the bus would reject it in every retry.
        let bytes = message.subject.len() + message.body.len();
        if bytes > bytes_max {
            let reason = format!(
                "a message to {} has {bytes} bytes and the bus allows {bytes_max}",
                message.subject
            );
            return Err(StoreError::broken("outbox", reason));
        }
    }
    let messages = write(messages).map_err(|error| StoreError::broken("outbox", error))?;
    Ok(Some(NewRow(row::ActiveModel {
        messages: Set(messages),
        created_at: Set(now),
        owner: Set(owner.to_owned()),
        ..Default::default()
    })))
}

/// Deletes rows whose messages are published.
pub(crate) async fn delete(db: &Transaction, published: &[i64]) -> Result<(), StoreError> {
    if !published.is_empty() {
        let ids = published.iter().copied();
        let delete = row::Entity::delete_many().filter(row::COLUMN.id.is_in(ids));
        db.defer(delete.build(db.get_database_backend())).await?;
    }
    Ok(())
}

/// A row without its messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutboxEntry {
    pub(crate) id: i64,
    /// Approximate length of its messages.
    pub(crate) bytes: usize,
}

/// Rows of an earlier process, oldest first. For a store that only this process writes.
pub(crate) async fn load_pending(
    db: &impl ConnectionTrait,
) -> Result<VecDeque<OutboxEntry>, StoreError> {
    let sql = "SELECT id, length(messages) FROM outbox ORDER BY id";
    let rows = db
        .query_all_raw(Statement::from_string(db.get_database_backend(), sql))
        .await?;
    let entry = |row: QueryResult| {
        let bytes: i64 = row.try_get_by_index(1)?;
        Ok(OutboxEntry {
            id: row.try_get_by_index(0)?,
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        })
    };
    rows.into_iter().map(entry).collect()
}

/// The messages of a row of the backlog. `None`: another kernel has adopted the row and publishes it.
pub(crate) async fn load_messages(
    db: &impl ConnectionTrait,
    id: i64,
    owner: Option<&str>,
) -> Result<Option<Vec<Outgoing>>, StoreError> {
    let row = row::Entity::find_by_id(id).one(db).await?;
    let ours = row.filter(|row| owner.is_none_or(|owner| row.owner == owner));
    ours.map(|row| read(row.id, &row.messages).map(|(_, messages)| messages))
        .transpose()
}

/// Outbox rows with their messages.
pub(crate) type Pending = Vec<(i64, Vec<Outgoing>)>;

/// Readable rows of a kernel that are not among those it knows, oldest first.
pub(crate) async fn load_unknown(
    db: &TableWriter,
    owner: &str,
    known: &[i64],
) -> Result<Pending, StoreError> {
    let tx = db.begin().await?;
    let own = row::Entity::find()
        .filter(row::COLUMN.owner.eq(owner))
        .filter(row::COLUMN.id.is_not_in(known.iter().copied()))
        .order_by_asc(row::Column::Id)
        .limit(ADOPTED_MAX);
    let rows = own.all(&tx).await?;
    tx.commit().await?;
    let mut found = Vec::new();
    for row in rows {
        match read(row.id, &row.messages) {
            Ok(row) => found.push(row),
            Err(error) => log_unreadable(row.id, &error),
        }
    }
    Ok(found)
}

/// Adopts rows whose lease has expired and returns the readable ones, oldest first. They belong to other
/// kernels, or to this one if the confirmation of their commit was lost.
///
/// A lease is never renewed: a row usually lives for milliseconds, and publishing an old one twice is
/// harmless. Leases are compared by the database's clock, which all replicas share.
pub(crate) async fn adopt_orphaned(
    db: &impl ConnectionTrait,
    owner: &str,
    known: &[i64],
) -> Result<Pending, StoreError> {
    let known: Vec<_> = known.iter().map(i64::to_string).collect();
    // The list must not be empty, and no row has the id zero.
    let known = format!("0,{}", known.join(","))
        .trim_end_matches(',')
        .to_owned();
    let sql = format!(
        "UPDATE outbox SET owner = $1, leased_until = now() + interval '{LEASE}' \
         WHERE id IN (SELECT id FROM outbox WHERE (owner <> $1 OR id NOT IN ({known})) \
         AND coalesce(leased_until, created_at) < now() ORDER BY id LIMIT {ADOPTED_MAX} \
         FOR UPDATE SKIP LOCKED) RETURNING id, messages"
    );
    let backend = db.get_database_backend();
    let update = Statement::from_sql_and_values(backend, sql, [owner.into()]);
    let mut taken = Vec::new();
    for row in db.query_all_raw(update).await? {
        let (id, messages): (_, String) = (row.try_get_by_index(0)?, row.try_get_by_index(1)?);
        match read(id, &messages) {
            Ok(row) => taken.push(row),
            Err(error) => log_unreadable(id, &error),
        }
    }
    taken.sort_by_key(|(id, _)| *id);
    Ok(taken)
}

/// Logs a row that stays: the later version that wrote it can read it.
pub(crate) fn log_unreadable(row: i64, error: &StoreError) {
    tracing::error!(row, error = %error_chain(error), "outbox row cannot be read and stays; newer rows are published");
}

/// The head of a message in a row: subject, headers and length of the body in bytes.
#[derive(Serialize, Deserialize)]
struct Head<'m>(
    #[serde(borrow)] Cow<'m, str>,
    Cow<'m, [(String, String)]>,
    usize,
);

/// Writes the heads in the first line and then the bodies. Bodies in JSON strings would be escaped byte by
/// byte.
fn write(messages: &[Outgoing]) -> Result<String, serde_json::Error> {
    let heads: Vec<_> = messages
        .iter()
        .map(|it| Head((&it.subject).into(), (&it.headers).into(), it.body.len()))
        .collect();
    let mut text = serde_json::to_string(&heads)?;
    text.push(BODIES);
    text.extend(messages.iter().map(|it| it.body.as_str()));
    Ok(text)
}

/// Ends the heads. JSON in one line does not contain it.
const BODIES: char = '\n';

fn read(id: i64, text: &str) -> Result<(i64, Vec<Outgoing>), StoreError> {
    let broken = |error: &dyn std::fmt::Display| StoreError::broken("outbox", error);
    let Some((heads, mut bodies)) = text.split_once(BODIES) else {
        // The format of earlier versions.
        let messages = serde_json::from_str(text).map_err(|error| broken(&error))?;
        return Ok((id, messages));
    };
    let heads: Vec<Head<'_>> = serde_json::from_str(heads).map_err(|error| broken(&error))?;
    let mut messages = Vec::with_capacity(heads.len());
    for Head(subject, headers, bytes) in heads {
        let (body, rest) = bodies
            .split_at_checked(bytes)
            .ok_or_else(|| broken(&"a body is cut off"))?;
        bodies = rest;
        messages.push(Outgoing {
            subject: subject.into_owned(),
            body: body.to_owned(),
            headers: headers.into_owned(),
        });
    }
    Ok((id, messages))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<Outgoing> {
        let one = Outgoing::json("hp.default.a".to_owned(), &"two\nlines, \"quoted\" – ü").unwrap();
        let other = Outgoing::json("hp.default.b".to_owned(), &[1, 2]).unwrap();
        vec![one, other.header("hp-reply", "_INBOX.1")]
    }

    /// A body may be something else than JSON, and have several lines.
    fn odd_ones() -> Vec<Outgoing> {
        let bodies = ["", "\n", "\n\n[\"s\"]\n", "üüü", "\"[", ""];
        let odd = |body: &str| Outgoing {
            subject: "hp.default.c".to_owned(),
            body: body.to_owned(),
            headers: Vec::new(),
        };
        let odd = bodies.into_iter().map(odd);
        odd.map(|it| it.header("hp-\"odd\"", "a\r\nb\t; ü"))
            .collect()
    }

    #[test]
    fn written_messages_are_read_back() {
        for messages in [messages(), odd_ones(), odd_ones().split_off(5)] {
            let text = write(&messages).unwrap();
            assert_eq!(read(7, &text).unwrap(), (7, messages));
        }
        assert_eq!(read(7, &write(&[]).unwrap()).unwrap(), (7, Vec::new()));
    }

    /// Rows of an earlier version are published, too.
    #[test]
    fn rows_of_earlier_versions_are_read() {
        let text = r#"[{"s":"hp.default.a","b":"[1,2]","h":[["hp-reply","_INBOX.1"]]},{"s":"hp.default.b","b":"{}"}]"#;
        let (_, read) = read(7, text).unwrap();
        assert_eq!(
            read[0].headers,
            [("hp-reply".to_owned(), "_INBOX.1".to_owned())]
        );
        assert_eq!(
            (read[1].subject.as_str(), read[1].body.as_str()),
            ("hp.default.b", "{}")
        );
    }

    #[test]
    fn a_truncated_row_is_an_error() {
        let mut text = write(&messages()).unwrap();
        text.pop();
        let error = read(7, &text).unwrap_err().to_string();
        assert!(
            error.contains("outbox") && error.contains("cut off"),
            "{error}"
        );
    }
}
