//! `/settings`: notification preferences, sessions and, for administrators, the webhooks of the workspace.
//! Forms run the same signed commands as the API and work without the script.

mod form;
mod preferences_form;
mod sessions;
mod webhooks;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{Router, get, post};
use holdpoint_auth::Right;
use holdpoint_contracts::notification::{
    GetPreferences, GetWebhook, ListWebhooks, Preferences, PutPreferences, RemoveWebhook,
};
use holdpoint_contracts::{FieldError, Problem};
use holdpoint_ids::WebhookId;
use maud::{Markup, html};

use self::form::redirect_done;
use self::webhooks::NewWebhook;
use super::attempt::Notice;
use super::navigation::{self, Section};
use super::session::{PageError, PostedForm, SignedInUser, invalid_form, parse_id};
use crate::app::App;
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
    notice: Option<Notice>,
    /// The submitted preferences or webhook, kept for another try.
    preferences: Option<Preferences>,
    webhook: Option<NewWebhook>,
    errors: Vec<FieldError>,
    secret: Option<NewSecret>,
}

/// A signing secret, which is shown once.
enum NewSecret {
    Chat(String),
    Webhook(String),
}

async fn page(
    State(app): State<App>,
    user: SignedInUser,
    params: Params,
) -> Result<Response, PageError> {
    let done: Option<String> = params.only(&["done"])?.read_as("done")?;
    let done = done.and_then(|done| DONE.iter().find(|(name, _)| *name == done));
    let attempt = SettingsAttempt {
        notice: done.map(|(_, text)| Notice::success(text)),
        ..SettingsAttempt::default()
    };
    Ok(render(&app, &user, attempt).await?.into_response())
}

/// The page after a refusal, with the submitted values and their errors.
async fn refuse(
    app: &App,
    user: &SignedInUser,
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
        notice: Some(Notice::error(text, Vec::new())),
        errors: problem.errors,
        ..attempt
    };
    Ok((status, render(app, user, attempt).await?).into_response())
}

/// The page after a success that shows a new secret.
async fn show_secret(
    app: &App,
    user: &SignedInUser,
    done: &str,
    secret: NewSecret,
) -> Result<Response, PageError> {
    let attempt = SettingsAttempt {
        notice: Some(Notice::success(done)),
        secret: Some(secret),
        ..SettingsAttempt::default()
    };
    Ok(render(app, user, attempt).await?.into_response())
}

async fn render(
    app: &App,
    user: &SignedInUser,
    attempt: SettingsAttempt,
) -> Result<Markup, Problem> {
    user.caller.may(Right::Look)?;
    user.caller.in_person()?;
    let workspace = &user.caller.workspace;
    let name = &user.caller.claims.user;
    let preferences = if let Some(submitted) = attempt.preferences {
        submitted
    } else {
        let person = name.clone();
        app.bus.query(workspace, &GetPreferences { person }).await?
    };
    let known = app.people.known(workspace, name).await?;
    let email = known.and_then(|user| user.email);
    let sessions = sessions::load(app, user).await?;
    let hooks = if user.may(Right::Administer) {
        let query = ListWebhooks {
            limit: WEBHOOKS_MAX,
            cursor: None,
        };
        Some(app.bus.query(workspace, &query).await?.items)
    } else {
        None
    };
    let main = html! {
        div.title { h1 { "Settings" } }
        @if let Some(notice) = &attempt.notice { (notice.render()) }
        @if let Some(secret) = &attempt.secret { (secret_panel(secret)) }
        (preferences_form::render(user, &preferences, email.as_deref(), &attempt.errors))
        (sessions::list(user, &sessions))
        @if let Some(hooks) = &hooks {
            (webhooks::list(user, hooks))
            (webhooks::add_form(user, attempt.webhook, &attempt.errors))
        }
    };
    Ok(navigation::page(app, user, Section::Settings, "Settings", &main).await)
}

fn secret_panel(secret: &NewSecret) -> Markup {
    let (subject, text) = match secret {
        NewSecret::Chat(text) => ("Messages to your chat", text),
        NewSecret::Webhook(text) => ("Calls of this webhook", text),
    };
    html! {
        div.panel.once role="status" {
            h2 { "Copy this secret now: it is shown only once" }
            p { (subject) " are signed with it, as defined by Standard Webhooks:" }
            p { code { (text) } }
        }
    }
}

async fn save_preferences(
    State(app): State<App>,
    posted: PostedForm,
) -> Result<Response, PageError> {
    let PostedForm { user, fields } = posted;
    user.caller.may(Right::Look)?;
    user.caller.in_person()?;
    let preferences = preferences_form::read(&fields);
    let command = PutPreferences {
        person: user.caller.claims.user.clone(),
        preferences: preferences.clone(),
    };
    // Only this reply contains a new secret, so the command must not be stored for later.
    let reply = app.ask(&user.caller, None, command).await;
    app.zones.forget(&user.caller.claims);
    let saved = match reply {
        Ok(saved) => saved,
        Err(problem) => {
            let attempt = SettingsAttempt {
                preferences: Some(preferences),
                ..SettingsAttempt::default()
            };
            return refuse(&app, &user, problem, attempt).await;
        }
    };
    match saved.channels.chat.and_then(|chat| chat.secret) {
        Some(secret) => show_secret(&app, &user, "Saved.", NewSecret::Chat(secret)).await,
        None => Ok(redirect_done("saved")),
    }
}

async fn add_webhook(State(app): State<App>, posted: PostedForm) -> Result<Response, PageError> {
    let PostedForm { user, fields } = posted;
    user.caller.may(Right::Administer)?;
    user.caller.in_person()?;
    let webhook = NewWebhook::read(&fields);
    match app.ask(&user.caller, None, webhook.command()).await {
        Ok(added) => {
            let secret = NewSecret::Webhook(added.secret);
            show_secret(&app, &user, "Webhook added.", secret).await
        }
        Err(problem) => {
            let attempt = SettingsAttempt {
                webhook: Some(webhook),
                ..SettingsAttempt::default()
            };
            refuse(&app, &user, problem, attempt).await
        }
    }
}

/// Enables, disables or removes a webhook.
async fn change_webhook(
    State(app): State<App>,
    Path(id): Path<String>,
    posted: PostedForm,
) -> Result<Response, PageError> {
    let PostedForm { user, fields } = posted;
    let caller = &user.caller;
    caller.may(Right::Administer)?;
    caller.in_person()?;
    let id: WebhookId = parse_id("webhook", &id)?;
    let action = fields.get("do").unwrap_or_default();
    let result = match action {
        "remove" => {
            let removed = app.ask(caller, None, RemoveWebhook { id }).await;
            removed.map(|_removed| "removed")
        }
        "enable" | "disable" => {
            let is_enabled = action == "enable";
            let known = app.bus.query(&caller.workspace, &GetWebhook { id }).await?;
            let command = webhooks::change(known, is_enabled);
            let changed = app.ask(caller, None, command).await;
            changed.map(|_changed| if is_enabled { "enabled" } else { "disabled" })
        }
        _ => Err(invalid_form(
            "invalid `do`; expected enable, disable or remove",
        )),
    };
    match result {
        Ok(done) => Ok(redirect_done(done)),
        Err(problem) => refuse(&app, &user, problem, SettingsAttempt::default()).await,
    }
}
