//! Commands that were accepted while their owner was down. They are stored before the reply 202. Answers that the
//! gateway itself gave under an idempotency key are rows that are done, and are forgotten with them.

pub(super) mod row;

use chrono::{DateTime, Utc};
use holdpoint_contracts::{IdempotencyKey, Problem, Reply};
use holdpoint_ids::{CommandId, ContactId, RoleName, UserName, Workspace};
use holdpoint_store::{
    BrokenRow as _, StoreError, begin_write, contains_text, mark_for_compaction,
};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseConnection, EntityTrait,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};
use serde_json::{Value, json};

const ACCEPTED: &str = "accepted";
const DONE: &str = "done";

/// A stored command without a reply of its owner.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stored {
    pub(crate) id: CommandId,
    pub(crate) workspace: Workspace,
    pub(crate) caller: UserName,
    /// Roles at its acceptance; it never gets more.
    pub(crate) roles: Vec<RoleName>,
    pub(crate) service: String,
    /// Subject in the owner's command stream.
    pub(crate) subject: String,
    /// Subject of the same command as a core request.
    pub(crate) ask_subject: String,
    /// The envelope without the assertion, which is signed anew each time.
    pub(crate) envelope: Value,
    pub(crate) key: IdempotencyKey,
    /// The command that must succeed first. If it is refused, this one is dropped.
    pub(crate) after: Option<CommandId>,
    pub(crate) created_at: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// Stored under this id; a repetition with the same key gets the same id.
    Under(CommandId),
    /// The key was used for another command.
    KeyReused,
    /// The workspace has reached the limit of stored commands for this service.
    Full,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Progress {
    pub(crate) workspace: String,
    /// Absent until the owner replies.
    pub(crate) answer: Option<Reply<Value>>,
}

/// Stores a command, unless its key is known or its workspace has `most` stored commands for its service.
pub(crate) async fn accept(
    writer: &DatabaseConnection,
    command: &Stored,
    most: u64,
) -> Result<Accepted, StoreError> {
    let tx = begin_write(writer).await?;
    let known = row::Entity::find()
        .filter(row::Column::Key.eq(command.key.key.as_str()))
        .one(&tx)
        .await?;
    if let Some(known) = known {
        if known.digest != command.key.digest {
            return Ok(Accepted::KeyReused);
        }
        return Ok(Accepted::Under(id_of(&known.id)?));
    }
    let on_their_way = row::Entity::find()
        .filter(row::Column::State.eq(ACCEPTED))
        .filter(row::Column::Workspace.eq(command.workspace.as_str()))
        .filter(row::Column::Service.eq(command.service.as_str()))
        .count(&tx)
        .await?;
    if on_their_way >= most {
        return Ok(Accepted::Full);
    }
    row::Entity::insert(as_row(command)?)
        .exec_without_returning(&tx)
        .await?;
    tx.commit().await?;
    Ok(Accepted::Under(command.id))
}

/// Commands without a reply, those with the fewest attempts first. A command that cannot be read is
/// passed over and affects no other.
pub(crate) async fn open(
    readers: &DatabaseConnection,
    limit: u64,
) -> Result<Vec<Stored>, StoreError> {
    let rows = row::Entity::find()
        .filter(row::Column::State.eq(ACCEPTED))
        .order_by_asc(row::Column::Tries)
        .order_by_asc(row::Column::Id)
        .limit(limit)
        .all(readers)
        .await?;
    let unreadable = |error: &StoreError| tracing::error!(%error, "stored command cannot be read; it is passed over");
    let read = |row| read(row).inspect_err(unreadable).ok();
    Ok(rows.into_iter().filter_map(read).collect())
}

/// The progress of a command; absent if it is unknown or was deleted after its reply.
pub(crate) async fn progress(
    readers: &DatabaseConnection,
    id: CommandId,
) -> Result<Option<Progress>, StoreError> {
    let found = row::Entity::find_by_id(id.to_string()).one(readers).await?;
    found
        .map(|row| {
            let answer = row.answer.as_deref().map(serde_json::from_str).transpose();
            Ok(Progress {
                workspace: row.workspace,
                answer: answer.map_err(row::Entity::broken)?,
            })
        })
        .transpose()
}

/// Keeps the first reply.
pub(crate) async fn done(
    writer: &DatabaseConnection,
    id: CommandId,
    answer: &Reply<Value>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let answer = serde_json::to_string(answer).map_err(row::Entity::broken)?;
    row::Entity::update_many()
        .col_expr(row::Column::State, Expr::value(DONE))
        .col_expr(row::Column::Answer, Expr::value(answer))
        .col_expr(row::Column::DoneAt, Expr::value(now))
        // Nothing reads it again, and it may be personal.
        .col_expr(row::Column::Envelope, Expr::value("{}"))
        .filter(row::Column::Id.eq(id.to_string()))
        .filter(row::Column::State.eq(ACCEPTED))
        .exec(writer)
        .await?;
    Ok(())
}

/// Counts a failed attempt for these commands.
pub(crate) async fn tried(
    writer: &DatabaseConnection,
    ids: &[CommandId],
) -> Result<(), StoreError> {
    if ids.is_empty() {
        return Ok(());
    }
    let ids = ids.iter().map(ToString::to_string);
    row::Entity::update_many()
        .col_expr(row::Column::Tries, Expr::col(row::Column::Tries).add(1))
        .filter(row::Column::Id.is_in(ids))
        .exec(writer)
        .await?;
    Ok(())
}

/// Replaces the kept answers of a workspace that name an erased contact. A command without an answer is on its way and
/// stays.
pub(crate) async fn erase(
    writer: &DatabaseConnection,
    workspace: &Workspace,
    contact: &ContactId,
) -> Result<(), StoreError> {
    let detail = "the answer to this command was erased together with a contact";
    let erased = Reply::<Value>::Problem(Problem::new(410, "erased", detail));
    let erased = serde_json::to_string(&erased).map_err(row::Entity::broken)?;
    let id = serde_json::to_string(contact).map_err(row::Entity::broken)?;
    let has = |text: String| contains_text(writer, row::Column::Answer, text);
    let names_it = has(format!(r#""contact":{id}"#)).or(has(format!(r#"{{"ok":{{"id":{id}"#)));
    let tx = begin_write(writer).await?;
    row::Entity::update_many()
        .col_expr(row::Column::Answer, Expr::value(erased))
        .filter(row::Column::State.eq(DONE))
        .filter(row::Column::Workspace.eq(workspace.as_str()))
        .filter(names_it)
        .exec(&tx)
        .await?;
    mark_for_compaction(&tx).await?;
    tx.commit().await
}

/// Deletes commands that were finished before an instant.
pub(crate) async fn forget(
    writer: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<(), StoreError> {
    row::Entity::delete_many()
        .filter(row::Column::DoneAt.lt(before))
        .exec(writer)
        .await?;
    Ok(())
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum KeyUse {
    /// It was not used in the last 24 hours.
    New,
    /// The same request got this answer.
    Answered(Value),
    /// It was used for another request.
    Reused,
}

pub(crate) async fn find_answer(
    readers: &DatabaseConnection,
    key: &IdempotencyKey,
) -> Result<KeyUse, StoreError> {
    let found = row::Entity::find()
        .filter(row::Column::Key.eq(key.key.as_str()))
        .one(readers)
        .await?;
    let Some(found) = found else {
        return Ok(KeyUse::New);
    };
    if found.digest != key.digest {
        return Ok(KeyUse::Reused);
    }
    let answer = found.answer.as_deref().map(serde_json::from_str);
    Ok(match answer.transpose().map_err(row::Entity::broken)? {
        Some(Reply::Ok(answer)) => KeyUse::Answered(answer),
        Some(Reply::<Value>::Problem(_)) | None => KeyUse::New,
    })
}

/// An answer to be kept for repetitions.
#[derive(Debug)]
pub(crate) struct GivenAnswer<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) caller: &'a UserName,
    pub(crate) key: &'a IdempotencyKey,
    pub(crate) answer: &'a Value,
    pub(crate) at: DateTime<Utc>,
}

/// Keeps an answer under its key. Of two at the same moment the first is kept.
pub(crate) async fn keep_answer(
    writer: &impl ConnectionTrait,
    given: &GivenAnswer<'_>,
) -> Result<(), StoreError> {
    let command = Stored {
        id: CommandId::fresh(),
        workspace: given.workspace.clone(),
        caller: given.caller.clone(),
        roles: Vec::new(),
        service: "gateway".to_owned(),
        subject: String::new(),
        ask_subject: String::new(),
        envelope: json!({}),
        key: given.key.clone(),
        after: None,
        created_at: given.at,
    };
    let answer = serde_json::to_string(&Reply::Ok(given.answer)).map_err(row::Entity::broken)?;
    let row = row::ActiveModel {
        state: Set(DONE.to_owned()),
        answer: Set(Some(answer)),
        done_at: Set(Some(given.at)),
        ..as_row(&command)?
    };
    row::Entity::insert(row)
        .on_conflict_do_nothing()
        .exec_without_returning(writer)
        .await?;
    Ok(())
}

fn as_row(command: &Stored) -> Result<row::ActiveModel, StoreError> {
    Ok(row::ActiveModel {
        id: Set(command.id.to_string()),
        workspace: Set(command.workspace.to_string()),
        caller: Set(command.caller.to_string()),
        roles: Set(serde_json::to_string(&command.roles).map_err(row::Entity::broken)?),
        service: Set(command.service.clone()),
        subject: Set(command.subject.clone()),
        ask_subject: Set(command.ask_subject.clone()),
        envelope: Set(command.envelope.to_string()),
        key: Set(command.key.key.clone()),
        digest: Set(command.key.digest.clone()),
        after_id: Set(command.after.map(|id| id.to_string())),
        state: Set(ACCEPTED.to_owned()),
        answer: Set(None),
        // Commands were put into streams once.
        published: Set(false),
        tries: Set(0),
        created_at: Set(command.created_at),
        done_at: Set(None),
    })
}

fn read(row: row::Model) -> Result<Stored, StoreError> {
    Ok(Stored {
        id: id_of(&row.id)?,
        workspace: row.workspace.parse().map_err(row::Entity::broken)?,
        caller: row.caller.parse().map_err(row::Entity::broken)?,
        roles: serde_json::from_str(&row.roles).map_err(row::Entity::broken)?,
        service: row.service,
        subject: row.subject,
        ask_subject: row.ask_subject,
        envelope: serde_json::from_str(&row.envelope).map_err(row::Entity::broken)?,
        key: IdempotencyKey {
            key: row.key,
            digest: row.digest,
        },
        after: row.after_id.as_deref().map(id_of).transpose()?,
        created_at: row.created_at,
    })
}

fn id_of(text: &str) -> Result<CommandId, StoreError> {
    text.parse().map_err(row::Entity::broken)
}
