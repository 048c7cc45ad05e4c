//! The first user of a workspace, `owner`, with its tokens and login links.

use std::time::Duration;

use holdpoint_contracts::handoff::PutUser;
use holdpoint_contracts::{Envelope, IdempotencyKey, Problem};
use holdpoint_ids::{RoleName, UserName, Workspace};
use tokio::time::Instant;

use crate::app::App;
use crate::problem::database_away;
use crate::store::sessions;
use crate::store::tokens::{self, Holder, NewToken};

/// Name of the user and of its role.
const OWNER: &str = "owner";
/// How long the handoff service may take to answer while everything starts.
const PATIENCE: Duration = Duration::from_secs(15);
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// Creates a token of the owner, and the owner if it does not exist. The newest hundred tokens stay valid.
pub(crate) async fn create_token(
    app: &App,
    workspace: &Workspace,
    asked: Option<IdempotencyKey>,
) -> Result<String, Problem> {
    let user = await_owner(app, workspace).await?;
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
    minted.into_token().map(|(_id, token)| token)
}

/// The token of an earlier start if it still has all rights of the owner, else a new one.
pub(crate) async fn reuse_token(
    app: &App,
    workspace: &Workspace,
    kept: &str,
) -> Result<String, Problem> {
    let user = await_owner(app, workspace).await?;
    let holder = tokens::holder(&app.readers, kept, app.clock.now())
        .await
        .map_err(database_away)?;
    let is_good = holder.is_some_and(|holder| {
        holder.workspace == *workspace && holder.user == user && holder.role.is_none()
    });
    if is_good {
        return Ok(kept.to_owned());
    }
    create_token(app, workspace, None).await
}

/// Creates a token and revokes all that `up` has printed for this workspace.
pub(crate) async fn replace_token(app: &App, workspace: &Workspace) -> Result<String, Problem> {
    await_owner(app, workspace).await?;
    tokens::revoke_printed(&app.writer, workspace)
        .await
        .map_err(database_away)?;
    create_token(app, workspace, None).await
}

/// Waits until the workspace has an owner. The handoff service may still be starting.
async fn await_owner(app: &App, workspace: &Workspace) -> Result<UserName, Problem> {
    let user = parse_name::<UserName>()?;
    let by = Instant::now() + PATIENCE;
    loop {
        match ensure_owner(app, workspace, &user).await {
            Ok(()) => return Ok(user),
            Err(problem) if problem.is_transient() && Instant::now() < by => {
                tokio::time::sleep(TRY_AGAIN).await;
            }
            Err(problem) => return Err(problem),
        }
    }
}

/// The path of a one-time link for the owner.
pub(crate) async fn create_login_path(app: &App, workspace: &Workspace) -> Result<String, Problem> {
    let user = parse_name::<UserName>()?;
    let code = sessions::make_login(&app.writer, workspace, &user, app.clock.now())
        .await
        .map_err(database_away)?;
    Ok(format!("/login/{code}"))
}

/// Creates the owner of a workspace without users. It is the only command without a signed assertion, and the
/// handoff service accepts it only there.
async fn ensure_owner(app: &App, workspace: &Workspace, name: &UserName) -> Result<(), Problem> {
    let role = parse_name::<RoleName>()?;
    if let Some(user) = app.people.find(workspace, name).await? {
        if !user.active || !user.roles.contains(&role) {
            tracing::warn!(%workspace, "the user `owner` is disabled or has lost its role; its tokens have fewer rights until another owner restores it");
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

fn parse_name<T: std::str::FromStr<Err = holdpoint_ids::IdError>>() -> Result<T, Problem> {
    OWNER.parse().map_err(|error| {
        tracing::error!(%error, "invalid name of the owner");
        Problem::internal()
    })
}
