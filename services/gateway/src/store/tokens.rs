//! Tokens: made here, and from then on known by their digest only.
//!
//! A token is 256 random bits, so a plain SHA-256 is enough, and finding it by that digest tells
//! an onlooker nothing by its timing.

mod row;
#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use holdpoint_ids::Workspace;
use sea_orm::{ActiveValue::Set, ColumnTrait, DatabaseConnection, DbErr, EntityTrait, QueryFilter};
use sha2::{Digest, Sha256};

/// What every token starts with, so that scanners find leaked ones.
const PREFIX: &str = "hp_";
/// Longest text that is looked up.
const TOKEN_MAX: usize = 200;

/// Whose token it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) workspace: String,
    pub(crate) user: String,
}

/// Makes and stores a token that does not expire; the answer is the only time it is seen.
pub(crate) async fn mint(
    writer: &DatabaseConnection,
    workspace: &Workspace,
    user: &str,
    now: DateTime<Utc>,
) -> Result<String, DbErr> {
    let token = format!(
        "{PREFIX}{}",
        URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
    );
    let row = row::ActiveModel {
        workspace: Set(workspace.to_string()),
        user_name: Set(user.to_owned()),
        token_sha256: Set(digest(&token)),
        created_at: Set(now),
        expires_at: Set(None),
        ..Default::default()
    };
    row::Entity::insert(row)
        .exec_without_returning(writer)
        .await?;
    Ok(token)
}

/// Whose token this is; none for an unknown or expired one.
pub(crate) async fn holder(
    readers: &DatabaseConnection,
    token: &str,
    now: DateTime<Utc>,
) -> Result<Option<Holder>, DbErr> {
    if !token.starts_with(PREFIX) || token.len() > TOKEN_MAX {
        return Ok(None);
    }
    let found = row::Entity::find()
        .filter(row::Column::TokenSha256.eq(digest(token)))
        .one(readers)
        .await?;
    Ok(found
        .filter(|row| row.expires_at.is_none_or(|end| now < end))
        .map(|row| Holder {
            workspace: row.workspace,
            user: row.user_name,
        }))
}

fn digest(token: &str) -> String {
    format!("{:x}", Sha256::digest(token.as_bytes()))
}
