//! `user` and `token`.

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::UserView;
use serde::Deserialize;
use serde_json::json;

use super::{ClientCommand, Session, api_text, cells, instant, page_query};
use crate::cli::workspace::{TokenCommand, UserCommand};
use crate::client::item_path;
use crate::exit::ExitKind;

#[derive(Debug, Deserialize)]
struct Token {
    id: String,
    /// The secret, only in the response to its creation.
    token: Option<String>,
    user: String,
    role: Option<String>,
    expires_at: Option<DateTime<Utc>>,
}

impl ClientCommand for UserCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::Add { name, email, roles } => {
                let known = find_user(session, &name).await?;
                // What is not given stays as it is.
                let email = email.or_else(|| known.as_ref()?.email.clone());
                let email = email.filter(|email| !email.is_empty());
                let kept = known.iter().flat_map(|user| &user.roles);
                let kept: Vec<_> = kept.map(ToString::to_string).collect();
                let roles = if roles.is_empty() { kept } else { roles };
                let body = json!({ "name": name, "email": email, "roles": roles });
                let done = if known.is_some() { "changed" } else { "added" };
                let text = |it: &UserView| {
                    let email = it.email.as_deref().unwrap_or("no email address");
                    format!(
                        "@user.{}  {}  {email}  {done}",
                        it.name,
                        api_text(&it.roles)
                    )
                };
                session.post("users", &body, text).await
            }
            Self::List(page) => {
                let heading = ["USER", "ROLES", "EMAIL", "STATUS"];
                let row = |it: &UserView| {
                    let status = if it.active { "active" } else { "disabled" };
                    cells![it.name, it.roles, it.email, status]
                };
                let query = page_query(&page);
                session.list("users", &query, heading, row).await
            }
            Self::Disable(user) => session.delete("users", &user.name, "disabled").await,
        }
    }
}

async fn find_user(session: &Session, name: &str) -> anyhow::Result<Option<UserView>> {
    match session.client.get(&item_path("users", name)?, &[]).await {
        Ok(found) => Ok(Some(found.value)),
        Err(error) if error.problem().status == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl ClientCommand for TokenCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::Create {
                user,
                role,
                expires_in,
            } => {
                let body = json!({ "user": user, "role": role, "expires_in": expires_in });
                let text = |created: &Token| {
                    let token = created.token.as_deref().unwrap_or_default();
                    format!("id     {}\ntoken  {token}   (shown once)", created.id)
                };
                session.post("tokens", &body, text).await
            }
            Self::List(page) => {
                let heading = ["ID", "USER", "ROLE", "EXPIRES"];
                let row = |it: &Token| {
                    let expires_at = it.expires_at.map_or_else(|| "never".to_owned(), instant);
                    cells![it.id, it.user, it.role, expires_at]
                };
                let query = page_query(&page);
                session.list("tokens", &query, heading, row).await
            }
            Self::Revoke(token) => session.delete("tokens", &token.id, "revoked").await,
        }
    }
}
