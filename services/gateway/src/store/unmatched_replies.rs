//! Replies whose sender is not a contact. They are listed until a person assigns or removes them.
//!
//! A closed reply has lost its texts. Its row stays as long as the others, so that a repetition is not listed again.

pub(super) mod row;
#[cfg(test)]
pub(super) mod tests;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::IdempotencyKey;
use holdpoint_ids::{ContactId, HookName, Workspace};
use holdpoint_store::{
    BrokenRow as _, StoreError, begin_write, contains_text, mark_for_compaction,
};
use sea_orm::sea_query::{Expr, ExprTrait as _, OnConflict};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseConnection, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect,
};
use serde::{Deserialize, Serialize};

use super::row_id::row_id;

/// Most replies of one workspace, closed ones included. One more drops the oldest.
pub(crate) const KEPT_MAX: u64 = 1_000;

/// How long a reply is kept after its arrival.
pub(crate) const KEPT_FOR: TimeDelta = TimeDelta::days(30);

row_id!(UnmatchedId, "unmatched reply", "unm_");

/// What a contact wrote, as a program reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InboundReply {
    pub(crate) from: Option<String>,
    pub(crate) subject: Option<String>,
    pub(crate) text: String,
    /// Without angle brackets. `in_reply_to` may have several, separated by spaces.
    pub(crate) message_id: Option<String>,
    pub(crate) in_reply_to: Option<String>,
    pub(crate) sentiment: Option<Sentiment>,
    #[serde(with = "holdpoint_contracts::instant")]
    pub(crate) at: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sentiment {
    Positive,
    Neutral,
    Negative,
}

/// A reply that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct UnmatchedReply {
    pub(crate) id: UnmatchedId,
    pub(crate) hook: HookName,
    #[serde(flatten)]
    pub(crate) reply: InboundReply,
    #[serde(with = "holdpoint_contracts::instant")]
    pub(crate) received_at: DateTime<Utc>,
    /// Recording it under this key again changes nothing.
    #[serde(skip)]
    pub(crate) key: IdempotencyKey,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stored {
    Listed(Box<UnmatchedReply>),
    Assigned(ContactId),
    Removed(UnmatchedId),
}

/// A reply as a hook has received it.
#[derive(Debug)]
pub(crate) struct NewReply<'r> {
    pub(crate) workspace: &'r Workspace,
    pub(crate) hook: &'r HookName,
    pub(crate) key: &'r IdempotencyKey,
    pub(crate) reply: &'r InboundReply,
    pub(crate) received_at: DateTime<Utc>,
}

/// Adds a reply, unless its key is known, and returns the id of its key.
pub(crate) async fn add(
    writer: &DatabaseConnection,
    new: &NewReply<'_>,
) -> Result<UnmatchedId, StoreError> {
    let reply = serde_json::to_string(new.reply).map_err(row::Entity::broken)?;
    let row = row::ActiveModel {
        workspace: Set(new.workspace.to_string()),
        key: Set(new.key.key.clone()),
        digest: Set(new.key.digest.clone()),
        hook: Set(new.hook.to_string()),
        reply: Set(Some(reply)),
        contact: Set(None),
        received_at: Set(new.received_at),
        ..Default::default()
    };
    let tx = begin_write(writer).await?;
    row::Entity::insert(row)
        .on_conflict(OnConflict::column(row::Column::Key).do_nothing().to_owned())
        .exec_without_returning(&tx)
        .await?;
    let row = row::Entity::find()
        .filter(row::Column::Key.eq(new.key.key.as_str()))
        .one(&tx)
        .await?;
    let row = row.ok_or_else(|| row::Entity::broken("the added reply is missing"))?;
    drop_oldest(&tx, new.workspace).await?;
    tx.commit().await?;
    Ok(UnmatchedId(row.id))
}

async fn drop_oldest(db: &impl ConnectionTrait, workspace: &Workspace) -> Result<(), StoreError> {
    let newest_to_drop = row::Entity::find()
        .filter(row::Column::Workspace.eq(workspace.as_str()))
        .order_by_desc(row::Column::Id)
        .offset(KEPT_MAX)
        .one(db)
        .await?;
    if let Some(last) = newest_to_drop {
        tracing::warn!(%workspace, "more than {KEPT_MAX} unmatched replies; the oldest are dropped");
        row::Entity::delete_many()
            .filter(row::Column::Workspace.eq(workspace.as_str()))
            .filter(row::Column::Id.lte(last.id))
            .exec(db)
            .await?;
    }
    Ok(())
}

/// The reply of a key, with the digest under which it arrived.
pub(crate) async fn find_by_key(
    db: &DatabaseConnection,
    key: &IdempotencyKey,
) -> Result<Option<(String, Stored)>, StoreError> {
    let found = row::Entity::find().filter(row::Column::Key.eq(key.key.as_str()));
    let found = found.one(db).await?;
    let read = |row: row::Model| Ok((row.digest.clone(), read(row)?));
    found.map(read).transpose()
}

pub(crate) async fn find(
    db: &DatabaseConnection,
    workspace: &Workspace,
    id: UnmatchedId,
) -> Result<Option<Stored>, StoreError> {
    let found = row::Entity::find_by_id(id.0)
        .filter(row::Column::Workspace.eq(workspace.as_str()))
        .one(db)
        .await?;
    found.map(read).transpose()
}

/// The listed replies before an id, newest first.
pub(crate) async fn list(
    readers: &DatabaseConnection,
    workspace: &Workspace,
    before: Option<UnmatchedId>,
    limit: u64,
) -> Result<Vec<UnmatchedReply>, StoreError> {
    let query = row::Entity::find()
        .filter(row::Column::Workspace.eq(workspace.as_str()))
        .filter(row::Column::Id.lt(before.map_or(i64::MAX, |id| id.0)))
        .filter(row::Column::Reply.is_not_null())
        .order_by_desc(row::Column::Id);
    let listed = |row| match read(row)? {
        Stored::Listed(reply) => Ok(*reply),
        Stored::Assigned(_) | Stored::Removed(_) => {
            Err(row::Entity::broken("a closed reply is listed"))
        }
    };
    holdpoint_store::page(readers, query, limit, listed).await
}

/// Closes a listed reply, which deletes its texts. Returns whether it was listed.
pub(crate) async fn close(
    writer: &DatabaseConnection,
    workspace: &Workspace,
    id: UnmatchedId,
    contact: Option<&ContactId>,
) -> Result<bool, StoreError> {
    let closed = row::Entity::update_many()
        .col_expr(row::Column::Reply, Expr::value(None::<String>))
        .col_expr(
            row::Column::Contact,
            Expr::value(contact.map(ToString::to_string)),
        )
        .filter(row::Column::Workspace.eq(workspace.as_str()))
        .filter(row::Column::Id.eq(id.0))
        .filter(match contact {
            // A reply that is recorded is assigned, also if a person has removed it meanwhile.
            Some(_) => row::Column::Contact.is_null(),
            None => row::Column::Reply.is_not_null(),
        })
        .exec(writer)
        .await?;
    Ok(closed.rows_affected > 0)
}

/// Deletes the texts of the listed replies of a sender.
pub(crate) async fn erase(
    writer: &DatabaseConnection,
    workspace: &Workspace,
    email: &str,
) -> Result<(), StoreError> {
    let sender = |email: &str| serde_json::to_string(email).map_err(row::Entity::broken);
    let is_from = |sender: String| {
        let text = format!(r#""from":{sender}"#);
        contains_text(writer, row::Column::Reply, text)
    };
    let (as_written, in_lower_case) = (sender(email)?, sender(&email.to_lowercase())?);
    let tx = begin_write(writer).await?;
    row::Entity::update_many()
        .col_expr(row::Column::Reply, Expr::value(None::<String>))
        .filter(row::Column::Workspace.eq(workspace.as_str()))
        .filter(is_from(as_written).or(is_from(in_lower_case)))
        .exec(&tx)
        .await?;
    mark_for_compaction(&tx).await?;
    tx.commit().await
}

/// Deletes replies that arrived before an instant.
pub(crate) async fn forget(
    writer: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<(), StoreError> {
    row::Entity::delete_many()
        .filter(row::Column::ReceivedAt.lt(before))
        .exec(writer)
        .await?;
    Ok(())
}

fn read(row: row::Model) -> Result<Stored, StoreError> {
    let id = UnmatchedId(row.id);
    match (row.reply, row.contact) {
        (Some(reply), _) => Ok(Stored::Listed(Box::new(UnmatchedReply {
            id,
            hook: row.hook.parse().map_err(row::Entity::broken)?,
            reply: serde_json::from_str(&reply).map_err(row::Entity::broken)?,
            received_at: row.received_at,
            key: IdempotencyKey {
                key: row.key,
                digest: row.digest,
            },
        }))),
        (None, Some(contact)) => Ok(Stored::Assigned(
            contact.parse().map_err(row::Entity::broken)?,
        )),
        (None, None) => Ok(Stored::Removed(id)),
    }
}
