//! Sessions of people's browsers, and one-time links that open one. Both are 256 random bits, known
//! here by their digest only. A browser may be signed in to several workspaces; it shows one.

pub(crate) mod own;
pub(super) mod row;
#[cfg(test)]
pub(super) mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_ids::{UserName, Workspace};
use holdpoint_store::{StoreError, begin_write};
use sea_orm::sea_query::{Expr, ExprTrait, SimpleExpr};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseConnection, DbErr, EntityTrait,
    QueryFilter, QueryOrder, QuerySelect,
};

use super::tokens::{self, Holder, TokenId, digest};
use row::{login, session};

/// A session that is used ends after this time all the same.
const LASTS: TimeDelta = TimeDelta::days(30);
/// A session that is not used ends after this time.
const IDLE: TimeDelta = TimeDelta::days(7);
/// A session's use is noted no more often than this.
const NOTED_EVERY: TimeDelta = TimeDelta::hours(1);
/// Sessions of one user; the oldest go.
const PER_USER_MAX: u64 = 50;
/// How long a one-time link waits for whoever it was printed for.
pub(crate) const LOGIN_LASTS: TimeDelta = TimeDelta::hours(24);
/// Longest text that is looked up.
const SECRET_MAX: usize = 200;

/// A browser that is signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    /// Whom it speaks for in the workspace that it shows.
    pub(crate) holder: Holder,
    /// The other workspaces that it is signed in to.
    pub(crate) others: Vec<Workspace>,
}

/// Signs a browser in; returns its new secret. What it was signed in to before (`before`) comes
/// along, under the new secret: the old one opens nothing any more.
pub(crate) async fn open(
    writer: &DatabaseConnection,
    holder: &Holder,
    token: Option<TokenId>,
    before: Option<&str>,
    now: DateTime<Utc>,
) -> Result<String, StoreError> {
    let secret = fresh();
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
        token_id: Set(token.map(TokenId::number)),
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
    let theirs = session::Column::Workspace
        .eq(holder.workspace.as_str())
        .and(session::Column::UserName.eq(holder.user.as_str()));
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

/// Whom a browser speaks for; none when it is not, or no longer, signed in. Notes that it was used.
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

/// Shows another workspace that the browser is signed in to; any other changes nothing.
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

/// Signs a browser out of everything.
pub(crate) async fn end(writer: &DatabaseConnection, secret: &str) -> Result<(), DbErr> {
    session::Entity::delete_many()
        .filter(session::Column::SessionSha256.eq(digest(secret)))
        .exec(writer)
        .await?;
    Ok(())
}

/// A one-time link's code for a user. It replaces the one before, and none that has expired stays.
pub(crate) async fn make_login(
    writer: &DatabaseConnection,
    workspace: &Workspace,
    user: &UserName,
    now: DateTime<Utc>,
) -> Result<String, StoreError> {
    let code = fresh();
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

/// Whom a one-time link is for; looking at it uses nothing up.
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

/// Uses a one-time link up: of several who try, one gets the holder.
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

fn fresh() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}
