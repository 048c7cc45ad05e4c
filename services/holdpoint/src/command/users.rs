//! `user` and `token`: who there is, and what opens the workspace.

use holdpoint_contracts::handoff::UserView;
use holdpoint_contracts::run::Page;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ClientCommand, Session, list, page_query, show};
use crate::cli::{TokenCommand, UserCommand};
use crate::client::{Body, segment};
use crate::exit::Outcome;

/// A token as lists show it; what opens is there only when it was just made.
#[derive(Debug, Deserialize)]
struct Token {
    id: String,
    #[serde(default)]
    token: Option<String>,
    user: String,
    role: Option<String>,
    expires_at: Option<String>,
}

impl ClientCommand for UserCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<Outcome> {
        match self {
            Self::Add { name, email, roles } => {
                let body = json!({ "name": name, "email": email, "roles": roles });
                let answer: Body<UserView> = session.client.post("users", &body).await?;
                show(session, &answer, |user| {
                    format!("@user.{}  {}", user.name, roles_of(user))
                })
            }
            Self::List(page) => {
                let query = page_query(&page);
                let answer: Body<Page<UserView>> = session.client.get("users", &query).await?;
                list(
                    session,
                    &answer,
                    &["USER", "ROLES", "MAIL", "STATUS"],
                    |user| {
                        let status = if user.active { "active" } else { "disabled" };
                        vec![
                            user.name.to_string(),
                            roles_of(user),
                            user.email.clone().unwrap_or_default(),
                            status.to_owned(),
                        ]
                    },
                )
            }
            Self::Disable { name } => {
                let path = format!("users/{}", segment(&name)?);
                let answer: Body<Value> = session.client.delete(&path).await?;
                show(session, &answer, |_| format!("{name}  disabled"))
            }
        }
    }
}

impl ClientCommand for TokenCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<Outcome> {
        match self {
            Self::Create {
                user,
                role,
                expires_in,
            } => {
                let body = json!({ "user": user, "role": role, "expires_in": expires_in });
                let answer: Body<Token> = session.client.post("tokens", &body).await?;
                show(session, &answer, |made| {
                    let token = made.token.as_deref().unwrap_or_default();
                    format!("id     {}\ntoken  {token}   (shown this once)", made.id)
                })
            }
            Self::List(page) => {
                let query = page_query(&page);
                let answer: Body<Page<Token>> = session.client.get("tokens", &query).await?;
                list(
                    session,
                    &answer,
                    &["ID", "USER", "ROLE", "EXPIRES"],
                    |token| {
                        vec![
                            token.id.clone(),
                            token.user.clone(),
                            token.role.clone().unwrap_or_default(),
                            token
                                .expires_at
                                .clone()
                                .unwrap_or_else(|| "never".to_owned()),
                        ]
                    },
                )
            }
            Self::Revoke { id } => {
                let path = format!("tokens/{}", segment(&id)?);
                let answer: Body<Value> = session.client.delete(&path).await?;
                show(session, &answer, |_| format!("{id}  revoked"))
            }
        }
    }
}

fn roles_of(user: &UserView) -> String {
    let roles: Vec<_> = user.roles.iter().map(ToString::to_string).collect();
    roles.join(", ")
}
