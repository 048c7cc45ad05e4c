//! Lists and ends the sessions of a user in one workspace. Sessions of the same browser in other workspaces
//! remain.

use chrono::{DateTime, Utc};
use holdpoint_ids::{UserName, Workspace};
use holdpoint_store::StoreError;
use sea_orm::sea_query::{ExprTrait, SimpleExpr};
use sea_orm::{ColumnTrait, DatabaseConnection, DbErr, EntityTrait, QueryFilter, QueryOrder};
use serde::Serialize;

use super::{is_over, session};
use crate::store::row_id::row_id;
use crate::store::tokens::{self, TokenId, digest};

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

/// Ends one session of a user, or all; returns their number.
pub(crate) async fn end(
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
