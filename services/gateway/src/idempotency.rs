//! Idempotency of requests that the gateway answers itself: it stores the answer under the caller's key.

use chrono::{DateTime, Utc};
use holdpoint_contracts::{IdempotencyKey, Problem};
use serde_json::Value;

use crate::app::App;
use crate::auth::caller::Caller;
use crate::problem::{database_away, key_reused};
use crate::store::commands::{self, GivenAnswer, KeyUse};
use crate::store::tokens::{Minted, TokenId};

pub(crate) const MASKED: &str = "***";

/// The answer that was given under a key in the last 24 hours.
///
/// # Errors
/// 422 where the key was used for another request.
pub(crate) async fn find_answer(
    app: &App,
    key: Option<&IdempotencyKey>,
) -> Result<Option<Value>, Problem> {
    let Some(key) = key else {
        return Ok(None);
    };
    // Readers of the database may lag behind the answer to a request that has just ended.
    let found = commands::find_answer(&app.writer, key).await;
    match found.map_err(database_away)? {
        KeyUse::New => Ok(None),
        KeyUse::Answered(answer) => Ok(Some(answer)),
        KeyUse::Reused => Err(key_reused()),
    }
}

/// Keeps an answer for repetitions, with masked secrets: the table would show them for 24 hours. What was done is
/// done, so a failure is logged and not answered.
pub(crate) async fn keep_answer(
    app: &App,
    caller: &Caller,
    key: Option<&IdempotencyKey>,
    mut answer: Value,
) {
    let Some(key) = key else {
        return;
    };
    mask_secrets(&mut answer);
    let given = given_answer(caller, key, &answer, app.clock.now());
    if let Err(error) = commands::keep_answer(&app.writer, &given).await {
        tracing::error!(%error, "an answer was not kept; a repetition of the request is not recognized");
    }
}

/// Replaces the members `secret` and `token` at any depth.
fn mask_secrets(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if ["secret", "token"].contains(&name.as_str()) && member.is_string() {
                    *member = MASKED.into();
                } else {
                    mask_secrets(member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_secrets),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

pub(crate) fn given_answer<'a>(
    caller: &'a Caller,
    key: &'a IdempotencyKey,
    answer: &'a Value,
    at: DateTime<Utc>,
) -> GivenAnswer<'a> {
    GivenAnswer {
        workspace: &caller.workspace,
        caller: &caller.claims.user,
        key,
        answer,
        at,
    }
}

impl Minted {
    /// The new token.
    ///
    /// # Errors
    /// 422 or 409 for a key without a new token.
    pub(crate) fn into_token(self) -> Result<(TokenId, String), Problem> {
        match self {
            Self::Token(id, token) => Ok((id, token)),
            Self::KeyReused => Err(key_reused()),
            Self::KeySpent => Err(Problem::new(
                409,
                "key_spent",
                "the token of this Idempotency-Key was created more than 24 hours ago or has expired; use a new key for a new token",
            )),
        }
    }
}
