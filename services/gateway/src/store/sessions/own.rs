//! In which browsers a user is signed in to a workspace, and ending that. A browser that is signed in to
//! several workspaces stays so in the others.

use chrono::{DateTime, Utc};
use holdpoint_ids::{UserName, Workspace};
use holdpoint_store::StoreError;
use sea_orm::sea_query::{ExprTrait, SimpleExpr};
use sea_orm::{ColumnTrait, DatabaseConnection, DbErr, EntityTrait, QueryFilter, QueryOrder};
use serde::Serialize;

use super::{is_over, session};
use crate::store::tokens::{self, TokenId, digest};

/// What the id of every session starts with.
const ID_PREFIX: &str = "ses_";

/// A browser that is signed in, as it is shown; never its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SessionView {
    pub(crate) id: SessionId,
    /// What the token that opened it is narrowed to; none: it has all rights of its user.
    pub(crate) role: Option<String>,
    /// The token that opened it, with which it ends; none: a log-in link opened it.
    pub(crate) token: Option<TokenId>,
    #[serde(with = "holdpoint_contracts::instant")]
    pub(crate) created_at: DateTime<Utc>,
    #[serde(with = "holdpoint_contracts::instant")]
    pub(crate) last_seen: DateTime<Utc>,
    /// Whether it is of the secret that was asked with.
    #[serde(skip)]
    pub(crate) is_this_one: bool,
}

/// Names a session without opening anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub(crate) struct SessionId(i64);

impl std::fmt::Display for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{ID_PREFIX}{}", self.0)
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.to_string()
    }
}

impl std::str::FromStr for SessionId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.strip_prefix(ID_PREFIX)
            .filter(|number| number.chars().all(|c| c.is_ascii_digit()))
            .and_then(|number| number.parse().ok())
            .map(Self)
            .ok_or_else(|| {
                let text = crate::excerpt::excerpt(text);
                format!("`{text}` is no session id: expected `{ID_PREFIX}` and a number")
            })
    }
}

/// The sessions of a user, newest first: those that still open something. `secret`: of the browser that
/// asks.
pub(crate) async fn list(
    readers: &DatabaseConnection,
    whose: (&Workspace, &UserName),
    secret: Option<&str>,
    now: DateTime<Utc>,
) -> Result<Vec<SessionView>, StoreError> {
    let rows = session::Entity::find()
        .filter(of(whose))
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
            token: row.token_id.map(TokenId::numbered),
            created_at: row.created_at,
            last_seen: row.seen_at,
            is_this_one: secret.as_ref() == Some(&row.session_sha256),
        });
    }
    Ok(found)
}

/// Ends one session of a user, or all; how many there were.
pub(crate) async fn end(
    writer: &DatabaseConnection,
    whose: (&Workspace, &UserName),
    which: Option<SessionId>,
) -> Result<u64, DbErr> {
    let mut ended = session::Entity::delete_many().filter(of(whose));
    if let Some(SessionId(id)) = which {
        ended = ended.filter(session::Column::Id.eq(id));
    }
    Ok(ended.exec(writer).await?.rows_affected)
}

fn of((workspace, user): (&Workspace, &UserName)) -> SimpleExpr {
    session::Column::Workspace
        .eq(workspace.as_str())
        .and(session::Column::UserName.eq(user.as_str()))
}
