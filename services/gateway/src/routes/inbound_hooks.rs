//! `/hooks/inbound`: ways in for programs outside, which sign what they send (Standard Webhooks).

mod reply;
mod signed;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use holdpoint_auth::{Right, WebhookSecret};
use holdpoint_contracts::run::Page;
use holdpoint_contracts::{Problem, instant};
use holdpoint_ids::{HookName, UserName, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::app::App;
use crate::body::Body;
use crate::caller::{Caller, PathId};
use crate::params::{NoParams, Params};
use crate::problem::{ApiError, database_away};
use crate::repetition;
use crate::store::hooks::{self, Added, Hook};

/// Hooks of one workspace.
const HOOKS_MAX: u64 = 100;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/hooks/inbound", get(list).post(make))
        .route("/hooks/inbound/{name}", post(reply::take).delete(remove))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HookBody {
    name: HookName,
}

#[derive(Debug, Serialize)]
struct HookView {
    name: HookName,
    /// Where to post, from the root of this server.
    path: String,
    made_by: UserName,
    #[serde(with = "holdpoint_contracts::instant")]
    created_at: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

fn view(workspace: &Workspace, hook: Hook, secret: Option<String>) -> HookView {
    HookView {
        path: format!("/v1/workspaces/{workspace}/hooks/inbound/{}", hook.name),
        name: hook.name,
        made_by: hook.made_by,
        created_at: hook.created_at,
        secret,
    }
}

/// What comes in by it is done on behalf of whoever makes it, as long as they are there.
async fn make(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    body: Body,
) -> Result<(StatusCode, Json<HookView>), ApiError> {
    caller.may(Right::Administer)?;
    params.only(&[])?;
    let HookBody { name } = body.json()?;
    if let Some(made) = repetition::find_answer(&app, body.key.as_ref()).await? {
        return Ok((
            StatusCode::CREATED,
            Json(made_before(&app, &caller, &name, &made).await?),
        ));
    }
    let hook = Hook {
        name,
        secret: WebhookSecret::fresh(),
        made_by: caller.claims.user.clone(),
        created_at: app.clock.now(),
    };
    let added = hooks::add(&app.writer, &caller.workspace, &hook, HOOKS_MAX).await;
    match added.map_err(database_away)? {
        Added::Done => {
            let made = json!(instant::write(hook.created_at));
            repetition::keep_answer(&app, &caller, body.key.as_ref(), &made).await;
            let secret = hook.secret.write();
            let view = view(&caller.workspace, hook, Some(secret));
            Ok((StatusCode::CREATED, Json(view)))
        }
        Added::Known => Err(ApiError(Problem::new(
            409,
            "already_exists",
            format!(
                "there is a hook `{}`; its secret was shown once: remove it and make it again for a new one",
                hook.name
            ),
        ))),
        Added::Full => Err(ApiError(Problem::new(
            409,
            "too_many_hooks",
            format!("a workspace has {HOOKS_MAX} inbound hooks at most; remove one"),
        ))),
    }
}

/// The hook that was made under a key. The kept answer is the instant of its making: a secret is stored with
/// its hook only, and one that was removed is not made again.
async fn made_before(
    app: &App,
    caller: &Caller,
    name: &HookName,
    made: &Value,
) -> Result<HookView, Problem> {
    let hook = hooks::find(&app.writer, &caller.workspace, name).await;
    let hook = hook.map_err(database_away)?;
    let hook = hook.filter(|hook| *made == instant::write(hook.created_at));
    let hook = hook.ok_or_else(|| {
        let detail =
            format!("the hook `{name}` of this Idempotency-Key was removed; use a new key");
        Problem::new(409, "key_spent", detail)
    })?;
    let secret = hook.secret.write();
    Ok(view(&caller.workspace, hook, Some(secret)))
}

/// By name; no list shows a secret.
async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Page<HookView>>, ApiError> {
    caller.may(Right::Administer)?;
    params.only(&[])?;
    let hooks = hooks::list(&app.readers, &caller.workspace).await;
    let hooks = hooks.map_err(database_away)?.into_iter();
    Ok(Json(Page {
        items: hooks
            .map(|hook| view(&caller.workspace, hook, None))
            .collect(),
        next_cursor: None,
    }))
}

async fn remove(
    State(app): State<App>,
    caller: Caller,
    PathId(name): PathId<HookName>,
    _: NoParams,
) -> Result<StatusCode, ApiError> {
    caller.may(Right::Administer)?;
    let was_there = hooks::remove(&app.writer, &caller.workspace, &name).await;
    if was_there.map_err(database_away)? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(ApiError(no_hook(&name)))
}

fn no_hook(name: &HookName) -> Problem {
    Problem::not_found(format!("there is no inbound hook `{name}`"))
}
