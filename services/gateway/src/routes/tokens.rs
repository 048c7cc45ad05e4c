//! `/tokens`: the API tokens of the workspace; owner and admin only.

use axum::http::StatusCode;
use axum::routing::{delete, get};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use holdpoint_auth::{Right, Role};
use holdpoint_contracts::run::Page;
use holdpoint_contracts::{Problem, duration};
use holdpoint_ids::UserName;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::auth::may::{Administer, InPerson, May};
use crate::auth::token_scope::{grants, narrow_roles};
use crate::body::invalid_field;
use crate::call::{Call, JsonBody};
use crate::params::Params;
use crate::path::NoId;
use crate::problem::{ApiError, ApiResult, JsonResult};
use crate::store::tokens::{self, Holder, NewToken, TokenId, TokenView};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/tokens", get(list).post(create))
        .route("/tokens/{id}", delete(revoke))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenBody {
    user: UserName,
    role: Option<String>,
    expires_in: Option<String>,
}

/// Only this answer shows the token.
#[derive(Debug, Serialize)]
struct MadeToken {
    id: TokenId,
    token: String,
    user: UserName,
    role: Option<&'static str>,
    #[serde(with = "holdpoint_contracts::instant::option")]
    expires_at: Option<DateTime<Utc>>,
}

/// Creates a token with at most the rights of its user and of its maker. It outlasts the token of the request, so
/// a narrowed one is refused.
async fn create(
    call: Call<InPerson<Administer>, NoId, JsonBody<TokenBody>>,
) -> ApiResult<(StatusCode, Json<MadeToken>)> {
    let caller = call.caller;
    let now = caller.app.clock.now();
    let body = call.body;
    let user = body.user;
    let role = body.role.as_deref().map(parse_role).transpose()?;
    let expires_at = body.expires_in.map(|text| parse_expiry(&text, now));
    let expires_at = expires_at.transpose()?;
    check_rights(&caller, &user, role).await?;
    let new = NewToken {
        holder: Holder {
            workspace: caller.workspace.clone(),
            user: user.clone(),
            role,
        },
        expires_at,
        printed: false,
        asked: call.key,
        made_by: Some(caller.claims.user.clone()),
    };
    let minted = tokens::mint(&caller.app.writer, &new, now).await?;
    let (id, token) = minted.into_token()?;
    let made = MadeToken {
        id,
        token,
        user,
        role: role.map(Role::as_str),
        expires_at,
    };
    Ok((StatusCode::CREATED, Json(made)))
}

/// # Errors
/// 422 where the user does not exist or is not active. 403 for a token that the caller must not create.
async fn check_rights(
    caller: &May<InPerson<Administer>>,
    name: &UserName,
    role: Option<Role>,
) -> Result<(), Problem> {
    let user = caller.app.people.find(&caller.workspace, name).await?;
    let user = user.filter(|user| user.active);
    let user = user.ok_or_else(|| invalid_field("/user", &format!("user `{name}` not found")))?;
    let roles = narrow_roles(&user.roles, role);
    let mut granted = Right::ALL.iter().filter(|right| grants(&roles, **right));
    granted.try_for_each(|right| caller.may(*right))?;
    let decides_for_another = *name != caller.claims.user && grants(&roles, Right::Decide);
    // With it an administrator could give two approvals (A-M3).
    if decides_for_another && caller.may(Right::Own).is_err() {
        let detail = "only owners can create a token that decides for another user; narrow it to `agent` or `viewer`";
        return Err(Problem::new(403, "forbidden", detail));
    }
    Ok(())
}

/// Oldest first.
async fn list(caller: May<Administer>, params: Params) -> JsonResult<Page<TokenView>> {
    let params = params.only(&["limit", "cursor"])?;
    let limit = params.limit()?;
    let page = (params.read_as("cursor")?, limit + 1);
    let (db, now) = (&caller.app.readers, caller.app.clock.now());
    let items = tokens::list(db, &caller.workspace, page, now).await?;
    Ok(Json(Page::cut(items, limit, |last| last.id.to_string())))
}

async fn revoke(call: Call<Administer, TokenId>) -> ApiResult<StatusCode> {
    let (caller, id) = (call.caller, call.id);
    let app = &caller.app;
    if let Some(user) = tokens::user_of(&app.readers, &caller.workspace, id).await? {
        caller.guard_owner(app, &user).await?;
    }
    if tokens::revoke(&app.writer, &caller.workspace, id).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let detail = format!("token `{id}` not found");
    Err(ApiError(Problem::not_found(detail)))
}

fn parse_role(name: &str) -> Result<Role, Problem> {
    Role::named(name).ok_or_else(|| {
        let known: Vec<_> = Role::ALL.iter().map(|role| role.as_str()).collect();
        let message = format!("must be one of {}", known.join(", "));
        invalid_field("/role", &message)
    })
}

fn parse_expiry(text: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, Problem> {
    let wrong = |message: &str| invalid_field("/expires_in", message);
    let time = duration::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if time.is_zero() {
        return Err(wrong("must be longer than 0"));
    }
    chrono::TimeDelta::from_std(time)
        .ok()
        .and_then(|time| now.checked_add_signed(time))
        .ok_or_else(|| wrong("is too far in the future; omit it for a token that does not expire"))
}
