//! The first user of a workspace, `owner`, with its tokens.

use std::time::Duration;

use holdpoint_contracts::handoff::PutUser;
use holdpoint_contracts::{Envelope, IdempotencyKey, Problem};
use holdpoint_ids::{RoleName, UserName, Workspace};
use tokio::time::Instant;

use crate::app::App;
use crate::problem::database_away;
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

/// Waits until the workspace has an owner. The handoff service may still be starting.
pub(crate) async fn await_owner(app: &App, workspace: &Workspace) -> Result<UserName, Problem> {
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

pub(crate) fn parse_name<T: std::str::FromStr<Err = holdpoint_ids::IdError>>() -> Result<T, Problem>
{
    OWNER.parse().map_err(|error| {
        tracing::error!(%error, "invalid name of the owner");
        Problem::internal()
    })
}
