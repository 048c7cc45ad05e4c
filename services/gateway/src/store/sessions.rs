//! Sessions of browsers, and one-time links that open a session. Both are 256 random bits, of which only the
//! digest is stored. A browser may be signed in to several workspaces and shows one of them.

pub(super) mod row;
#[cfg(test)]
pub(super) mod tests;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_ids::{UserName, Workspace};
use holdpoint_store::{StoreError, begin_write};
use sea_orm::sea_query::{Expr, ExprTrait, SimpleExpr};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseConnection, DbErr, EntityTrait,
    QueryFilter, QueryOrder, QuerySelect,
};

use super::row_id::row_id;
use super::tokens::{self, Holder, TokenId, digest, fresh_secret};
use row::{login, session};
use serde::Serialize;

/// Longest life of a session, even in use.
const LASTS: TimeDelta = TimeDelta::days(30);
/// A session without use ends after this time.
const IDLE: TimeDelta = TimeDelta::days(7);
/// Shortest interval between two writes of a session's last use.
const NOTED_EVERY: TimeDelta = TimeDelta::hours(1);
/// Most sessions of one user; beyond it the oldest end.
const PER_USER_MAX: u64 = 50;
/// Life of a one-time link.
pub(crate) const LOGIN_LASTS: TimeDelta = TimeDelta::hours(24);
/// Longest secret that is searched for.
const SECRET_MAX: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    /// The user in the workspace that it shows.
    pub(crate) holder: Holder,
    pub(crate) others: Vec<Workspace>,
}

/// A session as the API shows it, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SessionView {
    pub(crate) id: SessionId,
    /// Role that the opening token is limited to; absent: all rights of the user.
    pub(crate) role: Option<String>,
    /// The opening token, with which it ends; absent: a one-time link opened it.
    pub(crate) token: Option<TokenId>,
    #[serde(with = "holdpoint_contracts::instant")]
    pub(crate) created_at: DateTime<Utc>,
    #[serde(with = "holdpoint_contracts::instant")]
    pub(crate) last_seen: DateTime<Utc>,
    /// Whether it belongs to the calling browser.
    #[serde(skip)]
    pub(crate) is_this_one: bool,
}

row_id!(SessionId, "session", "ses_");

/// Signs a browser in and returns its new secret. The sessions of the old secret (`before`) move to the new
/// one, and the old one becomes invalid.
pub(crate) async fn open(
    writer: &DatabaseConnection,
    holder: &Holder,
    token: Option<TokenId>,
    before: Option<&str>,
    now: DateTime<Utc>,
) -> Result<String, StoreError> {
    let secret = fresh_secret();
    let tx = begin_write(writer).await?;
    session::Entity::delete_many()
        .filter(is_over(now))
        .exec(&tx)
        .await?;
    if let Some(before) = before.filter(|text| text.len() <= SECRET_MAX) {
        let old = session::Column::SessionSha256.eq(digest(before));
        session::Entity::delete_many()
            .filter(old.clone())
            .filter(session::Column::Workspace.eq(holder.workspace.as_str()))
            .exec(&tx)
            .await?;
        session::Entity::update_many()
            .col_expr(session::Column::SessionSha256, Expr::value(digest(&secret)))
            .col_expr(session::Column::Shown, Expr::value(false))
            .filter(old)
            .exec(&tx)
            .await?;
    }
    make_room(&tx, holder).await?;
    let row = session::ActiveModel {
        session_sha256: Set(digest(&secret)),
        workspace: Set(holder.workspace.to_string()),
        user_name: Set(holder.user.to_string()),
        role: Set(holder.role.map(|role| role.as_str().to_owned())),
        token_id: Set(token.map(|id| id.0)),
        shown: Set(true),
        created_at: Set(now),
        seen_at: Set(now),
        ..Default::default()
    };
    session::Entity::insert(row)
        .exec_without_returning(&tx)
        .await?;
    tx.commit().await?;
    Ok(secret)
}

async fn make_room(db: &impl ConnectionTrait, holder: &Holder) -> Result<(), DbErr> {
    let theirs = is_of((&holder.workspace, &holder.user));
    let first_gone = session::Entity::find()
        .filter(theirs.clone())
        .order_by_desc(session::Column::Id)
        .offset(PER_USER_MAX - 1)
        .limit(1)
        .one(db)
        .await?;
    if let Some(row) = first_gone {
        session::Entity::delete_many()
            .filter(theirs.and(session::Column::Id.lte(row.id)))
            .exec(db)
            .await?;
    }
    Ok(())
}

/// The session of a browser; absent without a valid one. Records its use.
pub(crate) async fn find(
    tables: (&DatabaseConnection, &DatabaseConnection),
    secret: &str,
    now: DateTime<Utc>,
) -> Result<Option<Session>, StoreError> {
    let (readers, writer) = tables;
    if secret.is_empty() || secret.len() > SECRET_MAX {
        return Ok(None);
    }
    let own = session::Column::SessionSha256.eq(digest(secret));
    let rows = session::Entity::find()
        .filter(own.clone())
        .filter(is_over(now).not())
        .order_by_asc(session::Column::Workspace)
        .all(readers)
        .await?;
    let Some(shown) = rows.iter().find(|row| row.shown).or(rows.first()) else {
        return Ok(None);
    };
    if let Some(token) = shown.token_id
        && !tokens::is_alive(readers, token, now).await?
    {
        return Ok(None);
    }
    if rows.iter().any(|row| now - row.seen_at >= NOTED_EVERY) {
        session::Entity::update_many()
            .col_expr(session::Column::SeenAt, Expr::value(now))
            .filter(own)
            .filter(is_over(now).not())
            .exec(writer)
            .await?;
    }
    let holder = Holder::read(
        "sessions",
        (&shown.workspace, &shown.user_name),
        shown.role.as_deref(),
    )?;
    let others = rows.iter().filter(|row| row.id != shown.id);
    let others = others
        .map(|row| row.workspace.parse())
        .collect::<Result<_, _>>()
        .map_err(|error| StoreError::broken("sessions", error))?;
    Ok(Some(Session { holder, others }))
}

/// Shows another workspace of the browser. A workspace without a session changes nothing.
pub(crate) async fn show(
    writer: &DatabaseConnection,
    secret: &str,
    workspace: &Workspace,
) -> Result<(), StoreError> {
    let own = session::Column::SessionSha256.eq(digest(secret));
    let tx = begin_write(writer).await?;
    let there = session::Entity::find()
        .filter(own.clone())
        .filter(session::Column::Workspace.eq(workspace.as_str()))
        .one(&tx)
        .await?;
    if let Some(there) = there {
        let is_it = Expr::col(session::Column::Id).eq(there.id);
        session::Entity::update_many()
            .col_expr(session::Column::Shown, is_it)
            .filter(own)
            .exec(&tx)
            .await?;
    }
    tx.commit().await
}

/// Signs a browser out of all workspaces.
pub(crate) async fn end(writer: &DatabaseConnection, secret: &str) -> Result<(), DbErr> {
    session::Entity::delete_many()
        .filter(session::Column::SessionSha256.eq(digest(secret)))
        .exec(writer)
        .await?;
    Ok(())
}

/// The valid sessions of a user, newest first. `secret` is the secret of the calling browser.
pub(crate) async fn list(
    readers: &DatabaseConnection,
    holder: (&Workspace, &UserName),
    secret: Option<&str>,
    now: DateTime<Utc>,
) -> Result<Vec<SessionView>, StoreError> {
    let rows = session::Entity::find()
        .filter(is_of(holder))
        .filter(is_over(now).not())
        .order_by_desc(session::Column::Id)
        .all(readers)
        .await?;
    let secret = secret.map(digest);
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        if let Some(token) = row.token_id
            && !tokens::is_alive(readers, token, now).await?
        {
            continue;
        }
        found.push(SessionView {
            id: SessionId(row.id),
            role: row.role,
            token: row.token_id.map(TokenId),
            created_at: row.created_at,
            last_seen: row.seen_at,
            is_this_one: secret.as_ref() == Some(&row.session_sha256),
        });
    }
    Ok(found)
}

/// Ends one session of a user, or all; returns their number. Sessions of the same browser in other workspaces remain.
pub(crate) async fn end_own(
    writer: &DatabaseConnection,
    holder: (&Workspace, &UserName),
    id: Option<SessionId>,
) -> Result<u64, DbErr> {
    let mut ended = session::Entity::delete_many().filter(is_of(holder));
    if let Some(SessionId(id)) = id {
        ended = ended.filter(session::Column::Id.eq(id));
    }
    Ok(ended.exec(writer).await?.rows_affected)
}

fn is_of((workspace, user): (&Workspace, &UserName)) -> SimpleExpr {
    session::Column::Workspace
        .eq(workspace.as_str())
        .and(session::Column::UserName.eq(user.as_str()))
}

/// Creates the code of a one-time link for a user. Replaces the previous code and deletes expired ones.
pub(crate) async fn make_login(
    writer: &DatabaseConnection,
    workspace: &Workspace,
    user: &UserName,
    now: DateTime<Utc>,
) -> Result<String, StoreError> {
    let code = fresh_secret();
    let before = login::Column::Workspace
        .eq(workspace.as_str())
        .and(login::Column::UserName.eq(user.as_str()));
    let tx = begin_write(writer).await?;
    login::Entity::delete_many()
        .filter(before.or(login::Column::ExpiresAt.lte(now)))
        .exec(&tx)
        .await?;
    let row = login::ActiveModel {
        code_sha256: Set(digest(&code)),
        workspace: Set(workspace.to_string()),
        user_name: Set(user.to_string()),
        expires_at: Set(now + LOGIN_LASTS),
    };
    login::Entity::insert(row)
        .exec_without_returning(&tx)
        .await?;
    tx.commit().await?;
    Ok(code)
}

/// The user of a one-time link, without consuming it.
pub(crate) async fn login(
    readers: &DatabaseConnection,
    code: &str,
    now: DateTime<Utc>,
) -> Result<Option<Holder>, StoreError> {
    if code.len() > SECRET_MAX {
        return Ok(None);
    }
    let found = login::Entity::find_by_id(digest(code)).one(readers).await?;
    found
        .filter(|row| now < row.expires_at)
        .map(|row| Holder::read("logins", (&row.workspace, &row.user_name), None))
        .transpose()
}

/// Consumes a one-time link. Of several attempts one gets the user.
pub(crate) async fn take_login(
    writer: &DatabaseConnection,
    code: &str,
    now: DateTime<Utc>,
) -> Result<Option<Holder>, StoreError> {
    let found = login(writer, code, now).await?;
    let used = login::Entity::delete_by_id(digest(code))
        .exec(writer)
        .await?;
    Ok(found.filter(|_holder| used.rows_affected == 1))
}

fn is_over(now: DateTime<Utc>) -> SimpleExpr {
    session::Column::CreatedAt
        .lte(now - LASTS)
        .or(session::Column::SeenAt.lte(now - IDLE))
}
