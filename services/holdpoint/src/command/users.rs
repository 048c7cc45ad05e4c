//! `user` and `token`.

use holdpoint_contracts::handoff::UserView;
use serde::Deserialize;
use serde_json::json;

use super::{ClientCommand, Session, page_query};
use crate::cli::{TokenCommand, UserCommand};
use crate::exit::ExitKind;

#[derive(Debug, Deserialize)]
struct Token {
    id: String,
    /// The secret, only in the response to its creation.
    #[serde(default)]
    token: Option<String>,
    user: String,
    role: Option<String>,
    expires_at: Option<String>,
}

impl ClientCommand for UserCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::Add { name, email, roles } => {
                let body = json!({ "name": name, "email": email, "roles": roles });
                let text = |user: &UserView| format!("@user.{}  {}", user.name, roles_of(user));
                session.post("users", &body, text).await
            }
            Self::List(page) => {
                let heading = ["USER", "ROLES", "EMAIL", "STATUS"];
                let row = |user: &UserView| {
                    let status = if user.active { "active" } else { "disabled" };
                    [
                        user.name.to_string(),
                        roles_of(user),
                        user.email.clone().unwrap_or_default(),
                        status.to_owned(),
                    ]
                };
                let query = page_query(&page);
                session.list("users", &query, heading, row).await
            }
            Self::Disable(user) => session.delete("users", &user.name, "disabled").await,
        }
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
                let row = |token: &Token| {
                    let expires_at = token.expires_at.as_deref();
                    [
                        token.id.clone(),
                        token.user.clone(),
                        token.role.clone().unwrap_or_default(),
                        expires_at.unwrap_or("never").to_owned(),
                    ]
                };
                let query = page_query(&page);
                session.list("tokens", &query, heading, row).await
            }
            Self::Revoke(token) => session.delete("tokens", &token.id, "revoked").await,
        }
    }
}

fn roles_of(user: &UserView) -> String {
    let roles: Vec<_> = user.roles.iter().map(ToString::to_string).collect();
    roles.join(", ")
}
