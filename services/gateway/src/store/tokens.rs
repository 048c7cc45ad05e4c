//! Creates tokens and stores only their digests.
//!
//! A token is 256 random bits, so a plain SHA-256 suffices. The search by digest reveals nothing through its
//! timing.

pub(super) mod row;
#[cfg(test)]
pub(super) mod tests;

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_auth::Role;
use holdpoint_contracts::{IdempotencyKey, Problem};
use holdpoint_ids::{UserName, Workspace};
use holdpoint_store::{ROWS_PER_STATEMENT, StoreError};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, DatabaseConnection, DbErr, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect,
};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// How long a repetition with the same key gets a token, as for every stored reply.
const REPEATED_WITHIN: TimeDelta = TimeDelta::hours(24);
/// Prefix of every token, so that scanners find leaked ones.
const PREFIX: &str = "hp_";
/// Longest secret that is searched for.
const TOKEN_MAX: usize = 200;
/// Most valid tokens of one workspace that `up` has printed; beyond it the oldest are deleted.
pub(crate) const PRINTED_MAX: u64 = 100;

use super::row_id::row_id;
use crate::problem::database_away;

/// The user of a token, and the role that limits it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) workspace: Workspace,
    pub(crate) user: UserName,
    pub(crate) role: Option<Role>,
}

#[derive(Debug, Clone)]
pub(crate) struct NewToken {
    pub(crate) holder: Holder,
    pub(crate) expires_at: Option<DateTime<Utc>>,
    /// Printed by `up` without a request.
    pub(crate) printed: bool,
    /// A repetition with the same key replaces the token, because its secret is lost.
    pub(crate) asked: Option<IdempotencyKey>,
    /// The creator; absent: `up` or the creation of a workspace.
    pub(crate) made_by: Option<UserName>,
}

/// A token as the API shows it, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct TokenView {
    pub(crate) id: TokenId,
    pub(crate) user: UserName,
    pub(crate) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) made_by: Option<String>,
    #[serde(with = "holdpoint_contracts::instant")]
    pub(crate) created_at: DateTime<Utc>,
    #[serde(with = "holdpoint_contracts::instant::option")]
    pub(crate) expires_at: Option<DateTime<Utc>>,
}

row_id!(TokenId, "token", "tok_");

/// The result of a request for a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Minted {
    /// The only reply with the secret.
    Token(TokenId, String),
    /// The key was used for another token.
    KeyReused,
    /// The key was used for this token, which is too old or has expired.
    KeySpent,
}

/// Creates and stores a token; only this result contains its secret.
pub(crate) async fn mint(
    writer: &DatabaseConnection,
    new: &NewToken,
    now: DateTime<Utc>,
) -> Result<Minted, DbErr> {
    let token = format!("{PREFIX}{}", fresh_secret());
    if let Some(asked) = &new.asked
        && let Some(known) = by_key(writer, &asked.key).await?
    {
        if known.asked_digest.as_ref() != Some(&asked.digest) {
            return Ok(Minted::KeyReused);
        }
        let is_old = known.created_at + REPEATED_WITHIN <= now;
        if is_old || known.expires_at.is_some_and(|end| end <= now) {
            return Ok(Minted::KeySpent);
        }
        row::Entity::update_many()
            .col_expr(row::Column::TokenSha256, Expr::value(digest(&token)))
            .filter(row::Column::Id.eq(known.id))
            .exec(writer)
            .await?;
        return Ok(Minted::Token(TokenId(known.id), token));
    }
    let row = row::ActiveModel {
        workspace: Set(new.holder.workspace.to_string()),
        user_name: Set(new.holder.user.to_string()),
        token_sha256: Set(digest(&token)),
        created_at: Set(now),
        expires_at: Set(new.expires_at),
        role: Set(new.holder.role.map(|role| role.as_str().to_owned())),
        printed: Set(new.printed),
        asked_key: Set(new.asked.as_ref().map(|asked| asked.key.clone())),
        asked_digest: Set(new.asked.as_ref().map(|asked| asked.digest.clone())),
        made_by: Set(new.made_by.as_ref().map(ToString::to_string)),
        ..Default::default()
    };
    let made = row::Entity::insert(row).exec(writer).await?;
    Ok(Minted::Token(TokenId(made.last_insert_id), token))
}

/// Whether a token with this key exists.
pub(crate) async fn is_made_under(db: &DatabaseConnection, key: &str) -> Result<bool, DbErr> {
    Ok(by_key(db, key).await?.is_some())
}

async fn by_key(db: &DatabaseConnection, key: &str) -> Result<Option<row::Model>, DbErr> {
    row::Entity::find()
        .filter(row::Column::AskedKey.eq(key))
        .one(db)
        .await
}

/// Deletes the oldest printed tokens of a workspace beyond the limit, and all expired tokens.
pub(crate) async fn tidy(
    writer: &DatabaseConnection,
    workspace: &Workspace,
    now: DateTime<Utc>,
) -> Result<(), DbErr> {
    let printed = row::Column::Workspace
        .eq(workspace.as_str())
        .and(row::Column::Printed.eq(true));
    let last_kept = row::Entity::find()
        .filter(printed.clone())
        .order_by_desc(row::Column::Id)
        .offset(PRINTED_MAX)
        .limit(1)
        .one(writer)
        .await?;
    let mut gone = Condition::any().add(row::Column::ExpiresAt.lte(now));
    if let Some(first_gone) = last_kept {
        gone = gone.add(printed.and(row::Column::Id.lte(first_gone.id)));
    }
    row::Entity::delete_many().filter(gone).exec(writer).await?;
    Ok(())
}

/// The holder of a token; absent if it is unknown or has expired. With the id of the token, by which a session
/// ends with its token.
pub(crate) async fn holder(
    readers: &DatabaseConnection,
    token: &str,
    now: DateTime<Utc>,
) -> Result<Option<(TokenId, Holder)>, StoreError> {
    if !is_token(token) {
        return Ok(None);
    }
    let found = row::Entity::find()
        .filter(row::Column::TokenSha256.eq(digest(token)))
        .one(readers)
        .await?;
    found
        .filter(|row| row.expires_at.is_none_or(|end| now < end))
        .map(|row| Ok((TokenId(row.id), holder_of(&row)?)))
        .transpose()
}

/// Holders by token.
pub(crate) type Holders = HashMap<String, Result<Holder, Problem>>;

/// The holders of tokens, by token; those that are unknown or have expired are left out. A row that cannot be read is a
/// problem of its own token only.
pub(crate) async fn holders<'t>(
    readers: &DatabaseConnection,
    tokens: impl Iterator<Item = &'t str>,
    now: DateTime<Utc>,
) -> Result<Holders, StoreError> {
    let tokens: HashMap<String, &str> = tokens.map(|token| (digest(token), token)).collect();
    let digests: Vec<&String> = tokens.keys().collect();
    let mut holders = HashMap::new();
    for chunk in digests.chunks(ROWS_PER_STATEMENT) {
        // Powers of two make few different statements, so that the database keeps them prepared.
        let padded = chunk.iter().cycle().take(chunk.len().next_power_of_two());
        let rows = row::Entity::find()
            .filter(row::Column::TokenSha256.is_in(padded.copied()))
            .all(readers)
            .await?;
        let valid = rows.into_iter();
        let valid = valid.filter(|row| row.expires_at.is_none_or(|end| now < end));
        for row in valid {
            if let Some(token) = tokens.get(&row.token_sha256) {
                let holder = holder_of(&row).map_err(database_away);
                holders.insert((*token).to_owned(), holder);
            }
        }
    }
    Ok(holders)
}

/// Whether a text may be a token.
pub(crate) fn is_token(text: &str) -> bool {
    text.starts_with(PREFIX) && text.len() <= TOKEN_MAX
}

/// Whether a token is valid, neither revoked nor expired.
pub(super) async fn is_alive(
    readers: &DatabaseConnection,
    id: i64,
    now: DateTime<Utc>,
) -> Result<bool, DbErr> {
    let found = row::Entity::find_by_id(id).one(readers).await?;
    Ok(found.is_some_and(|row| row.expires_at.is_none_or(|end| now < end)))
}

/// Valid tokens of a workspace, oldest first, after the given one.
pub(crate) async fn list(
    readers: &DatabaseConnection,
    workspace: &Workspace,
    page: (Option<TokenId>, u64),
    now: DateTime<Utc>,
) -> Result<Vec<TokenView>, StoreError> {
    let (after, limit) = page;
    let alive = row::Column::ExpiresAt
        .is_null()
        .or(row::Column::ExpiresAt.gt(now));
    let query = row::Entity::find()
        .filter(row::Column::Workspace.eq(workspace.as_str()))
        .filter(row::Column::Id.gt(after.map_or(0, |id| id.0)))
        .filter(alive)
        .order_by_asc(row::Column::Id);
    holdpoint_store::page(readers, query, limit, |row| view(&row)).await
}

/// The user of a token; absent if the workspace has no such token.
pub(crate) async fn user_of(
    readers: &DatabaseConnection,
    workspace: &Workspace,
    id: TokenId,
) -> Result<Option<UserName>, StoreError> {
    let found = row::Entity::find_by_id(id.0)
        .filter(row::Column::Workspace.eq(workspace.as_str()))
        .one(readers)
        .await?;
    found.map(|row| Ok(holder_of(&row)?.user)).transpose()
}

/// Revokes a token of a workspace; returns whether it existed.
pub(crate) async fn revoke(
    writer: &DatabaseConnection,
    workspace: &Workspace,
    id: TokenId,
) -> Result<bool, DbErr> {
    let deleted = row::Entity::delete_many()
        .filter(row::Column::Workspace.eq(workspace.as_str()))
        .filter(row::Column::Id.eq(id.0))
        .exec(writer)
        .await?;
    Ok(deleted.rows_affected > 0)
}

/// Revokes all tokens of a workspace that `up` has printed.
pub(crate) async fn revoke_printed(
    writer: &DatabaseConnection,
    workspace: &Workspace,
) -> Result<(), DbErr> {
    row::Entity::delete_many()
        .filter(row::Column::Workspace.eq(workspace.as_str()))
        .filter(row::Column::Printed.eq(true))
        .exec(writer)
        .await?;
    Ok(())
}

fn holder_of(row: &row::Model) -> Result<Holder, StoreError> {
    Holder::read(
        "tokens",
        (&row.workspace, &row.user_name),
        row.role.as_deref(),
    )
}

impl Holder {
    /// From the columns of a row: workspace, user and limiting role.
    pub(super) fn read(
        table: &'static str,
        (workspace, user): (&str, &str),
        role: Option<&str>,
    ) -> Result<Self, StoreError> {
        let broken = |error: holdpoint_ids::IdError| StoreError::broken(table, error);
        let named = |name: &str| {
            let unknown = || StoreError::broken(table, format!("unknown role `{name}`"));
            Role::named(name).ok_or_else(unknown)
        };
        Ok(Self {
            workspace: workspace.parse().map_err(broken)?,
            user: user.parse().map_err(broken)?,
            role: role.map(named).transpose()?,
        })
    }
}

fn view(row: &row::Model) -> Result<TokenView, StoreError> {
    let Holder { user, role, .. } = holder_of(row)?;
    Ok(TokenView {
        id: TokenId(row.id),
        user,
        role: role.map(Role::as_str),
        made_by: row.made_by.clone(),
        created_at: row.created_at,
        expires_at: row.expires_at,
    })
}

/// 256 random bits.
pub(super) fn fresh_secret() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}

pub(super) fn digest(token: &str) -> String {
    format!("{:x}", Sha256::digest(token.as_bytes()))
}
