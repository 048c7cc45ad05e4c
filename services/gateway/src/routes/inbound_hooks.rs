//! `/hooks/inbound`: endpoints for other programs, which sign their messages (Standard Webhooks).

mod contact_reply;
mod signature;
mod unmatched;

use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use holdpoint_auth::WebhookSecret;
use holdpoint_contracts::run::Page;
use holdpoint_contracts::{Problem, instant};
use holdpoint_ids::{HookName, UserName, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::may::{Administer, InPerson, May};
use crate::body::invalid_field;
use crate::call::{Call, JsonBody};
use crate::idempotency::{self, given_answer};
use crate::path::NoId;
use crate::problem::{ApiError, ApiResult, JsonResult};
use crate::store::hooks::{self, Added, Hook};

/// Most hooks of one workspace.
const HOOKS_MAX: u64 = 100;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/hooks/inbound", get(list).post(create))
        .route(
            "/hooks/inbound/{name}",
            post(contact_reply::record_reply).delete(remove),
        )
        .merge(unmatched::routes())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HookBody {
    name: HookName,
}

#[derive(Debug, Serialize)]
struct HookView {
    name: HookName,
    /// Path of the endpoint, from the root of this server.
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

/// Messages of the hook act for the user who made it, as long as that user is active. The secret outlasts a token,
/// so a narrowed token creates no hook (A-M11).
async fn create(
    call: Call<InPerson<Administer>, NoId, JsonBody<HookBody>>,
) -> ApiResult<(StatusCode, Json<HookView>)> {
    let (caller, key, HookBody { name }) = (call.caller, call.key.as_ref(), call.body);
    let app = &caller.app;
    if name.as_str() == unmatched::RESERVED_NAME {
        let message = "must not be `unmatched`, which is a path of the API";
        return Err(ApiError(invalid_field("/name", message)));
    }
    if let Some(made) = idempotency::find_answer(app, key).await? {
        let view = read_repeated(&caller, &name, &made).await?;
        return Ok((StatusCode::CREATED, Json(view)));
    }
    let hook = Hook {
        name,
        secret: WebhookSecret::fresh(),
        made_by: caller.claims.user.clone(),
        created_at: app.clock.now(),
    };
    // Hook and answer are stored together. Otherwise a repetition could find the hook and not its answer.
    let made = json!(instant::write(hook.created_at));
    let answer = key.map(|key| given_answer(&caller, key, &made, hook.created_at));
    let added = hooks::add(
        &app.writer,
        &caller.workspace,
        &hook,
        answer.as_ref(),
        HOOKS_MAX,
    );
    let refused = |code, detail| Err(ApiError(Problem::new(409, code, detail)));
    match added.await? {
        Added::Done => {
            let secret = hook.secret.write();
            let view = view(&caller.workspace, hook, Some(secret));
            Ok((StatusCode::CREATED, Json(view)))
        }
        Added::NameTaken => refused(
            "already_exists",
            format!(
                "inbound hook `{}` exists; remove it and create it again for a new secret",
                hook.name
            ),
        ),
        Added::Full => refused(
            "too_many_hooks",
            format!("too many inbound hooks; expected at most {HOOKS_MAX}, so remove one"),
        ),
    }
}

/// The hook that was created under a key. The stored answer is the instant of creation, as a secret is stored with
/// its hook only.
///
/// # Errors
/// 409 for a hook that was removed since.
async fn read_repeated(
    caller: &May<InPerson<Administer>>,
    name: &HookName,
    made: &Value,
) -> ApiResult<HookView> {
    let hook = hooks::find(&caller.app.writer, &caller.workspace, name).await?;
    let hook = hook.filter(|hook| *made == instant::write(hook.created_at));
    let hook = hook.ok_or_else(|| {
        let detail =
            format!("the hook `{name}` of this Idempotency-Key was removed; use a new key");
        Problem::new(409, "key_spent", detail)
    })?;
    let secret = hook.secret.write();
    Ok(view(&caller.workspace, hook, Some(secret)))
}

/// By name, without secrets.
async fn list(call: Call<Administer>) -> JsonResult<Page<HookView>> {
    let workspace = &call.caller.workspace;
    let hooks = hooks::list(&call.caller.app.readers, workspace).await?;
    let views = hooks.into_iter().map(|hook| view(workspace, hook, None));
    Ok(Json(views.collect::<Vec<_>>().into()))
}

async fn remove(call: Call<Administer, HookName>) -> ApiResult<StatusCode> {
    let (caller, name) = (call.caller, call.id);
    if hooks::remove(&caller.app.writer, &caller.workspace, &name).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let detail = format!("inbound hook `{name}` not found");
    Err(ApiError(Problem::not_found(detail)))
}
