//! `/tokens`: what opens the workspace; owner and admin only.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{delete, get};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use holdpoint_auth::{Right, Role, authorize};
use holdpoint_contracts::run::Page;
use holdpoint_contracts::{Problem, duration};
use holdpoint_ids::UserName;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::body::{Body, invalid_field};
use crate::caller::{Caller, PathId};
use crate::forward::{key_reused, key_spent};
use crate::params::{NoParams, Params};
use crate::problem::{ApiError, database_away};
use crate::rights::{grants, narrowed};
use crate::store::tokens::{self, Holder, Minted, NewToken, TokenId, TokenView};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/tokens", get(list).post(make))
        .route("/tokens/{id}", delete(revoke))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenBody {
    user: UserName,
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    expires_in: Option<String>,
}

/// The only answer that ever shows the token.
#[derive(Debug, Serialize)]
struct MadeToken {
    id: TokenId,
    token: String,
    user: UserName,
    role: Option<&'static str>,
    #[serde(with = "holdpoint_contracts::instant::option")]
    expires_at: Option<DateTime<Utc>>,
}

/// A token never has more than its user, nor makes its maker more than they are.
async fn make(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    body: Body,
) -> Result<(StatusCode, Json<MadeToken>), ApiError> {
    caller.may(Right::Administer)?;
    // A new token outlasts the one that asks for it.
    caller.in_person()?;
    params.only(&[])?;
    let wanted: TokenBody = body.json()?;
    let role = wanted.role.as_deref().map(role).transpose()?;
    let now = app.clock.now();
    let expires_at = wanted
        .expires_in
        .as_deref()
        .map(|text| expiry(text, now))
        .transpose()?;
    let user = app.people.find(&caller.workspace, &wanted.user).await?;
    let user = user
        .filter(|user| user.active)
        .ok_or_else(|| invalid_field("/user", &format!("there is no user `{}`", wanted.user)))?;
    let roles = narrowed(&user.roles, role);
    within(&caller, &roles)?;
    in_own_name(&caller, &wanted.user, &roles)?;
    let new = NewToken {
        holder: Holder {
            workspace: caller.workspace.clone(),
            user: wanted.user.clone(),
            role,
        },
        expires_at,
        printed: false,
        asked: body.key,
        made_by: Some(caller.claims.user.clone()),
    };
    let minted = tokens::mint(&app.writer, &new, now)
        .await
        .map_err(database_away)?;
    let (id, token) = match minted {
        Minted::Token(id, token) => (id, token),
        Minted::KeyReused => return Err(ApiError(key_reused())),
        Minted::KeySpent => return Err(ApiError(key_spent())),
    };
    let made = MadeToken {
        id,
        token,
        user: wanted.user,
        role: role.map(Role::as_str),
        expires_at,
    };
    Ok((StatusCode::CREATED, Json(made)))
}

/// Oldest first.
async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Page<TokenView>>, ApiError> {
    caller.may(Right::Administer)?;
    let params = params.only(&["limit", "cursor"])?;
    let limit = params.limit()?;
    let page = (params.read_as("cursor")?, limit + 1);
    let mut items = tokens::list(&app.readers, &caller.workspace, page, app.clock.now())
        .await
        .map_err(database_away)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next_cursor = items
        .last()
        .filter(|_last| has_more)
        .map(|last| last.id.to_string());
    Ok(Json(Page { items, next_cursor }))
}

async fn revoke(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId<TokenId>,
    _: NoParams,
) -> Result<StatusCode, ApiError> {
    caller.may(Right::Administer)?;
    of_no_owner(&app, &caller, id).await?;
    let was_there = tokens::revoke(&app.writer, &caller.workspace, id)
        .await
        .map_err(database_away)?;
    if was_there {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(ApiError(Problem::not_found(format!(
            "there is no token `{id}`"
        ))))
    }
}

/// A token that decides in another person's name is made by owners only: an administrator would otherwise
/// give two approvals (A-M3).
fn in_own_name(
    caller: &Caller,
    user: &UserName,
    roles: &[holdpoint_ids::RoleName],
) -> Result<(), Problem> {
    let decides_for_another = *user != caller.claims.user && grants(roles, Right::Decide);
    if !decides_for_another || caller.may(Right::Own).is_ok() {
        return Ok(());
    }
    let detail = "a token that decides for another user is made by owners only; narrow it to `agent` or `viewer`";
    Err(Problem::new(403, "forbidden", detail))
}

/// Tokens of owners are revoked by owners.
async fn of_no_owner(app: &App, caller: &Caller, id: TokenId) -> Result<(), Problem> {
    let user = tokens::user_of(&app.readers, &caller.workspace, id)
        .await
        .map_err(database_away)?;
    let Some(user) = user.filter(|user| *user != caller.claims.user) else {
        return Ok(());
    };
    let user = app.people.find(&caller.workspace, &user).await?;
    if user.is_some_and(|user| grants(&user.roles, Right::Own)) {
        caller.may(Right::Own)?;
    }
    Ok(())
}

/// No token for an owner from somebody who is none.
fn within(caller: &Caller, roles: &[holdpoint_ids::RoleName]) -> Result<(), Problem> {
    Right::ALL
        .into_iter()
        .filter(|right| grants(roles, *right))
        .try_for_each(|right| authorize(Some(&caller.claims), right))
}

fn role(name: &str) -> Result<Role, Problem> {
    Role::named(name).ok_or_else(|| {
        let known: Vec<_> = Role::ALL.into_iter().map(Role::as_str).collect();
        let message = format!("no role that grants rights; those are {}", known.join(", "));
        invalid_field("/role", &message)
    })
}

fn expiry(text: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, Problem> {
    let wrong = |message: &str| invalid_field("/expires_in", message);
    let time = duration::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if time.is_zero() {
        return Err(wrong("a token is good for more than no time"));
    }
    chrono::TimeDelta::from_std(time)
        .ok()
        .and_then(|time| now.checked_add_signed(time))
        .ok_or_else(|| wrong("that is too far away; leave it out for a token that stays"))
}
