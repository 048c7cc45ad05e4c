//! Answers that the gateway itself gave under an idempotency key. They are rows of `commands` that are done,
//! and are forgotten with them.

use chrono::{DateTime, Utc};
use holdpoint_contracts::{IdempotencyKey, Reply};
use holdpoint_ids::{CommandId, UserName, Workspace};
use holdpoint_store::StoreError;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseConnection, EntityTrait, QueryFilter,
};
use serde_json::{Value, json};

use super::{DONE, Stored, as_row, broken, row};

/// The earlier use of a key.
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
    Ok(match answer.transpose().map_err(broken)? {
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
    let answer = serde_json::to_string(&Reply::Ok(given.answer)).map_err(broken)?;
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
