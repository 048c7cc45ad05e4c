//! The first user of a workspace: its `owner`, and tokens of it that nobody had to ask for.

use std::time::Duration;

use holdpoint_contracts::handoff::PutUser;
use holdpoint_contracts::{Envelope, IdempotencyKey, Problem};
use holdpoint_ids::{RoleName, UserName, Workspace};
use tokio::time::Instant;

use crate::app::App;
use crate::forward::{key_reused, key_spent};
use crate::problem::database_away;
use crate::store::sessions;
use crate::store::tokens::{self, Holder, Minted, NewToken};

/// Name of the user, as of the role.
const OWNER: &str = "owner";
/// How long the handoff service may take to answer while everything starts.
const PATIENCE: Duration = Duration::from_secs(15);
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// A token of the workspace's owner, who is made where there is none. Earlier ones stay valid, as
/// long as they are among the newest hundred.
pub(crate) async fn token(
    app: &App,
    workspace: &Workspace,
    asked: Option<IdempotencyKey>,
) -> Result<String, Problem> {
    let user = ready(app, workspace).await?;
    let holder = Holder {
        workspace: workspace.clone(),
        user,
        role: None,
    };
    let new = NewToken {
        holder,
        expires_at: None,
        printed: true,
        asked,
        made_by: None,
    };
    let now = app.clock.now();
    let minted = tokens::mint(&app.writer, &new, now)
        .await
        .map_err(database_away)?;
    tokens::tidy(&app.writer, workspace, now)
        .await
        .map_err(database_away)?;
    match minted {
        Minted::Token(_id, token) => Ok(token),
        Minted::KeyReused => Err(key_reused()),
        Minted::KeySpent => Err(key_spent()),
    }
}

/// The token that the owner has from an earlier start, if it still opens the workspace with all rights
/// of the owner; else a new one.
pub(crate) async fn kept_token(
    app: &App,
    workspace: &Workspace,
    kept: &str,
) -> Result<String, Problem> {
    let user = ready(app, workspace).await?;
    let holder = tokens::holder(&app.readers, kept, app.clock.now())
        .await
        .map_err(database_away)?;
    let is_good = holder.is_some_and(|holder| {
        holder.workspace == *workspace && holder.user == user && holder.role.is_none()
    });
    if is_good {
        return Ok(kept.to_owned());
    }
    token(app, workspace, None).await
}

/// A new token of the owner in place of all that `up` has printed for this workspace before.
pub(crate) async fn replace_token(app: &App, workspace: &Workspace) -> Result<String, Problem> {
    ready(app, workspace).await?;
    tokens::revoke_printed(&app.writer, workspace)
        .await
        .map_err(database_away)?;
    token(app, workspace, None).await
}

/// The owner's name, once the workspace has an owner.
async fn ready(app: &App, workspace: &Workspace) -> Result<UserName, Problem> {
    let user = named::<UserName>()?;
    let by = Instant::now() + PATIENCE;
    loop {
        match ensure(app, workspace, &user).await {
            Ok(()) => return Ok(user),
            Err(problem) if problem.is_transient() && Instant::now() < by => {
                tokio::time::sleep(TRY_AGAIN).await;
            }
            Err(problem) => return Err(problem),
        }
    }
}

/// The path of a one-time link for the workspace's owner.
pub(crate) async fn login(app: &App, workspace: &Workspace) -> Result<String, Problem> {
    let user = named::<UserName>()?;
    let code = sessions::make_login(&app.writer, workspace, &user, app.clock.now())
        .await
        .map_err(database_away)?;
    Ok(format!("/login/{code}"))
}

/// A workspace without anybody gets its owner: the one thing that is done without a person's
/// proof, and that the handoff service takes from the gateway only there.
async fn ensure(app: &App, workspace: &Workspace, name: &UserName) -> Result<(), Problem> {
    let role = named::<RoleName>()?;
    if let Some(user) = app.people.find(workspace, name).await? {
        if !user.active || !user.roles.contains(&role) {
            tracing::warn!(%workspace, "the user `owner` is disabled or no owner any more; another owner can mend that");
        }
        return Ok(());
    }
    let put = PutUser {
        name: name.clone(),
        email: None,
        roles: vec![role],
    };
    let envelope = Envelope::of_service("gateway", put);
    let made = app.bus.ask(workspace, &envelope).await?;
    app.people.take(workspace, &made).await
}

fn named<T: std::str::FromStr<Err = holdpoint_ids::IdError>>() -> Result<T, Problem> {
    OWNER.parse().map_err(|error| {
        tracing::error!(%error, "the owner has no name");
        Problem::internal()
    })
}
