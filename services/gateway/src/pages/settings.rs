//! `/settings`: notification preferences, sessions and, for administrators, the webhooks of the workspace.
//! Forms run the same signed commands as the API and work without the script.

mod form;
mod preferences_form;
mod sessions;
mod webhooks;

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::{Router, get, post};
use holdpoint_auth::Right;
use holdpoint_contracts::notification::{
    AddWebhook, GetPreferences, GetWebhook, ListWebhooks, Preferences, PutPreferences,
    RemoveWebhook,
};
use holdpoint_contracts::{FieldError, Problem};
use holdpoint_ids::WebhookId;
use maud::{Markup, html};

use self::form::redirect_done;
use super::attempt::Banner;
use super::navigation::{self, Section};
use super::session::{PageError, PermittedForm, Viewer, invalid_form, parse_id};
use crate::app::App;
use crate::auth::may::{Administer, InPerson, Look};
use crate::params::Params;
use crate::problem;

/// The largest number of webhooks in a workspace.
const WEBHOOKS_MAX: u64 = 100;

/// The notice for each `done` of a redirect.
const DONE: [(&str, &str); 5] = [
    (
        "saved",
        "Saved. Also applies to notifications that are not sent yet.",
    ),
    ("signed-out", "Session signed out."),
    ("enabled", "Webhook enabled."),
    ("disabled", "Webhook disabled."),
    ("removed", "Webhook removed."),
];

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/settings", get(page))
        .route("/settings/preferences", post(save_preferences))
        .route("/settings/sessions", post(sessions::end))
        .route("/settings/webhooks", post(add_webhook))
        .route("/settings/webhooks/{id}", post(change_webhook))
}

/// A user's last action on the page. By default there was none.
#[derive(Default)]
struct SettingsAttempt {
    notice: Option<Banner>,
    /// The submitted preferences or webhook, kept for another try.
    preferences: Option<Preferences>,
    webhook: Option<AddWebhook>,
    errors: Vec<FieldError>,
    secret: Option<NewSecret>,
}

/// A signing secret, which is shown once, and what is signed with it.
struct NewSecret {
    signs: &'static str,
    secret: String,
}

async fn page(viewer: Viewer, params: Params) -> Result<Markup, PageError> {
    let done: Option<String> = params.only(&["done"])?.read_as("done")?;
    let done = done.and_then(|done| DONE.iter().find(|(name, _)| *name == done));
    let attempt = SettingsAttempt {
        notice: done.map(|(_, text)| Banner::success(text)),
        ..SettingsAttempt::default()
    };
    Ok(render(&viewer, attempt).await?)
}

/// The page after a refusal, with the submitted values and their errors.
async fn refuse(
    viewer: &Viewer,
    problem: Problem,
    attempt: SettingsAttempt,
) -> Result<Response, PageError> {
    let status = problem::status(&problem);
    let text = if problem.errors.is_empty() {
        &problem.detail
    } else {
        "Nothing was saved: some fields are invalid."
    };
    let attempt = SettingsAttempt {
        notice: Some(Banner::error(text, Vec::new())),
        errors: problem.errors,
        ..attempt
    };
    Ok((status, render(viewer, attempt).await?).into_response())
}

/// The page after a success that shows a new secret.
async fn show_secret(
    viewer: &Viewer,
    done: &str,
    secret: NewSecret,
) -> Result<Response, PageError> {
    let attempt = SettingsAttempt {
        notice: Some(Banner::success(done)),
        secret: Some(secret),
        ..SettingsAttempt::default()
    };
    Ok(render(viewer, attempt).await?.into_response())
}

async fn render(viewer: &Viewer, attempt: SettingsAttempt) -> Result<Markup, Problem> {
    viewer.caller.may(Right::Look)?;
    viewer.caller.in_person()?;
    let name = &viewer.caller.claims.user;
    let preferences = match attempt.preferences {
        Some(submitted) => submitted,
        None => {
            let person = name.clone();
            viewer.query(&GetPreferences { person }).await?
        }
    };
    let known = viewer
        .app
        .people
        .known(&viewer.caller.workspace, name)
        .await?;
    let email = known.and_then(|user| user.email);
    let sessions = sessions::load(viewer).await?;
    let query = ListWebhooks {
        limit: WEBHOOKS_MAX,
        cursor: None,
    };
    let hooks = if viewer.may(Right::Administer) {
        Some(viewer.query(&query).await?.items)
    } else {
        None
    };
    let main = html! {
        div.title { h1 { "Settings" } }
        @if let Some(notice) = &attempt.notice { (notice.render()) }
        @if let Some(NewSecret { signs, secret }) = &attempt.secret {
            div.panel.once role="status" {
                h2 { "Copy this secret now: it is shown only once" }
                p { (signs) " are signed with it, as defined by Standard Webhooks:" }
                p { code { (secret) } }
            }
        }
        (preferences_form::render(viewer, &preferences, email.as_deref(), &attempt.errors))
        (sessions::list(viewer, &sessions))
        @if let Some(hooks) = &hooks {
            (webhooks::list(viewer, hooks))
            (webhooks::add_form(viewer, attempt.webhook, &attempt.errors))
        }
    };
    Ok(navigation::page(viewer, Section::Settings, "Settings", &main).await)
}

async fn save_preferences(
    PermittedForm(viewer, fields, _): PermittedForm<InPerson<Look>>,
) -> Result<Response, PageError> {
    let preferences = preferences_form::read(&fields);
    let command = PutPreferences {
        person: viewer.caller.claims.user.clone(),
        preferences: preferences.clone(),
    };
    // Only this reply contains a new secret, so the command must not be stored for later.
    let reply = viewer.ask(command).await;
    viewer.app.zones.forget(&viewer.caller.claims);
    match reply {
        Ok(saved) => match saved.channels.chat.and_then(|chat| chat.secret) {
            Some(secret) => {
                let secret = NewSecret {
                    signs: "Messages to your chat",
                    secret,
                };
                show_secret(&viewer, "Saved.", secret).await
            }
            None => Ok(redirect_done("saved")),
        },
        Err(problem) => {
            let attempt = SettingsAttempt {
                preferences: Some(preferences),
                ..SettingsAttempt::default()
            };
            refuse(&viewer, problem, attempt).await
        }
    }
}

async fn add_webhook(
    PermittedForm(viewer, fields, _): PermittedForm<InPerson<Administer>>,
) -> Result<Response, PageError> {
    let webhook = webhooks::read(&fields);
    match viewer.ask(webhook.clone()).await {
        Ok(added) => {
            let secret = NewSecret {
                signs: "Calls of this webhook",
                secret: added.secret,
            };
            show_secret(&viewer, "Webhook added.", secret).await
        }
        Err(problem) => {
            let attempt = SettingsAttempt {
                webhook: Some(webhook),
                ..SettingsAttempt::default()
            };
            refuse(&viewer, problem, attempt).await
        }
    }
}

async fn change_webhook(
    Path(id): Path<String>,
    PermittedForm(viewer, fields, _): PermittedForm<InPerson<Administer>>,
) -> Result<Response, PageError> {
    let id: WebhookId = parse_id("webhook", &id)?;
    let action = fields.get("do").unwrap_or_default();
    let result = match action {
        "remove" => viewer
            .ask(RemoveWebhook { id })
            .await
            .map(|_removed| "removed"),
        "enable" | "disable" => {
            let is_enabled = action == "enable";
            let known = viewer.query(&GetWebhook { id }).await?;
            let changed = viewer.ask(webhooks::change(known, is_enabled)).await;
            changed.map(|_changed| if is_enabled { "enabled" } else { "disabled" })
        }
        _ => Err(invalid_form(
            "invalid `do`; expected enable, disable or remove",
        )),
    };
    match result {
        Ok(done) => Ok(redirect_done(done)),
        Err(problem) => refuse(&viewer, problem, SettingsAttempt::default()).await,
    }
}
