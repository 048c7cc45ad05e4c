//! `/settings`: how somebody wants to be told, where they are signed in, and the webhooks of the workspace
//! for those who may administer it. The same commands as the API, by the same signed person; it works without the script.

mod preferences_form;
mod sessions;
mod webhooks;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{Router, get, post};
use holdpoint_auth::Right;
use holdpoint_contracts::notification::{
    GetPreferences, GetWebhook, ListWebhooks, Preferences, PutPreferences, RemoveWebhook,
    WebhookAdded,
};
use holdpoint_contracts::{FieldError, Problem};
use holdpoint_ids::WebhookId;
use maud::{Markup, html};

use self::webhooks::Wanted;
use super::card::{Notice, told};
use super::layout::{self, Place};
use super::sanitize::line;
use super::session::{PageError, Posted, SignedInUser};
use crate::app::App;
use crate::params::Params;
use crate::problem;

/// Where it is.
const HERE: &str = "/settings";

/// As many webhooks as a workspace can have.
const HOOKS_MAX: u64 = 100;

/// What a redirect says was done, and how it is told.
const DONE: [(&str, &str); 5] = [
    (
        "saved",
        "Saved. It holds from now on, and for what waits to be sent.",
    ),
    ("signed-out", "Signed out there."),
    ("enabled", "The webhook is called again."),
    ("disabled", "The webhook is not called any more."),
    ("removed", "The webhook is gone."),
];

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/settings", get(page))
        .route("/settings/telling", post(tell))
        .route("/settings/sessions", post(sessions::end))
        .route("/settings/webhooks", post(add))
        .route("/settings/webhooks/{id}", post(change))
}

/// What somebody has just tried, and how it went; by default they only look.
#[derive(Default)]
struct Tried {
    notice: Option<Notice>,
    /// What they had said of how they are told, kept for another try.
    telling: Option<Preferences>,
    /// The webhook that they wanted, kept for another try.
    wanted: Option<Wanted>,
    faults: Vec<FieldError>,
    secret: Option<Secret>,
}

/// What calls are signed with.
enum Secret {
    /// Of a chat.
    Chat(String),
    /// Of a webhook that was added.
    Webhook(Box<WebhookAdded>),
}

async fn page(
    State(app): State<App>,
    person: SignedInUser,
    params: Params,
) -> Result<Response, PageError> {
    let done: Option<String> = params.only(&["done"])?.read_as("done")?;
    let done = done.and_then(|done| DONE.iter().find(|(name, _)| *name == done));
    let tried = Tried {
        notice: done.map(|(_, text)| notice(true, text)),
        ..Tried::default()
    };
    Ok(whole(&app, &person, tried).await?.into_response())
}

fn notice(is_good: bool, text: &str) -> Notice {
    Notice {
        is_good,
        text: text.to_owned(),
        lines: Vec::new(),
    }
}

fn done(what: &str) -> Response {
    Redirect::to(&format!("{HERE}?done={what}")).into_response()
}

/// The page again, with what was filled in and what is wrong with it.
async fn refused(
    app: &App,
    person: &SignedInUser,
    problem: Problem,
    tried: Tried,
) -> Result<Response, PageError> {
    let status: StatusCode = problem::status(&problem);
    let text = match problem.errors.is_empty() {
        true => problem.detail,
        false => "Nothing was changed: some fields need another look.".to_owned(),
    };
    let tried = Tried {
        notice: Some(notice(false, &text)),
        faults: problem.errors,
        ..tried
    };
    Ok((status, whole(app, person, tried).await?).into_response())
}

async fn whole(app: &App, person: &SignedInUser, tried: Tried) -> Result<Markup, Problem> {
    person.caller.may(Right::Look)?;
    person.caller.in_person()?;
    let workspace = &person.caller.workspace;
    let name = &person.caller.claims.user;
    let said = match &tried.telling {
        Some(said) => said.clone(),
        None => {
            let query = GetPreferences {
                person: name.clone(),
            };
            app.bus.query(workspace, &query).await?
        }
    };
    let known = app.people.known(workspace, name).await?;
    let mail = known.and_then(|user| user.email);
    let signed_in = sessions::load(app, person).await?;
    let hooks = match person.may(Right::Administer) {
        true => {
            let query = ListWebhooks {
                limit: HOOKS_MAX,
                cursor: None,
            };
            Some(app.bus.query(workspace, &query).await?.items)
        }
        false => None,
    };
    let main = html! {
        div.title { h1 { "Settings" } }
        @if let Some(notice) = &tried.notice { (told(notice)) }
        @if let Some(secret) = &tried.secret { (shown_once(secret)) }
        (preferences_form::form(person, &said, mail.as_deref(), &tried.faults))
        (sessions::list(person, &signed_in))
        @if let Some(hooks) = &hooks {
            (webhooks::list(person, hooks))
            (webhooks::form(person, tried.wanted.as_ref(), &tried.faults))
        }
    };
    Ok(layout::page(app, person, Place::Settings, "Settings", &main).await)
}

/// Nobody sees it again: whoever needs it takes it now.
fn shown_once(secret: &Secret) -> Markup {
    let (what, text) = match secret {
        Secret::Chat(text) => ("Messages to your chat are", text),
        Secret::Webhook(added) => ("Calls of this webhook are", &added.secret),
    };
    html! {
        div.panel.once role="status" {
            h2 { "Take this down now: it is shown only once" }
            p { (what) " signed with this secret, as Standard Webhooks says:" }
            p { code { (text) } }
        }
    }
}

async fn tell(State(app): State<App>, posted: Posted) -> Result<Response, PageError> {
    let Posted { person, fields } = posted;
    person.caller.may(Right::Look)?;
    person.caller.in_person()?;
    let said = preferences_form::read(&fields);
    let command = PutPreferences {
        person: person.caller.claims.user.clone(),
        preferences: said.clone(),
    };
    // The answer may be the only one that ever shows a secret: now or not at all.
    let answer = app.ask(&person.caller, None, command).await;
    app.zones.forget(&person.caller);
    match answer {
        Ok(now) => match now.channels.chat.and_then(|chat| chat.secret) {
            Some(secret) => {
                let tried = Tried {
                    notice: Some(notice(true, "Saved.")),
                    secret: Some(Secret::Chat(secret)),
                    ..Tried::default()
                };
                Ok(whole(&app, &person, tried).await?.into_response())
            }
            None => Ok(done("saved")),
        },
        Err(problem) => {
            let telling = Some(said);
            let tried = Tried {
                telling,
                ..Tried::default()
            };
            refused(&app, &person, problem, tried).await
        }
    }
}

async fn add(State(app): State<App>, posted: Posted) -> Result<Response, PageError> {
    let Posted { person, fields } = posted;
    person.caller.may(Right::Administer)?;
    person.caller.in_person()?;
    let wanted = Wanted::read(&fields);
    match app.ask(&person.caller, None, wanted.command()).await {
        Ok(added) => {
            let tried = Tried {
                notice: Some(notice(true, "The webhook is there.")),
                secret: Some(Secret::Webhook(Box::new(added))),
                ..Tried::default()
            };
            Ok(whole(&app, &person, tried).await?.into_response())
        }
        Err(problem) => {
            let wanted = Some(wanted);
            let tried = Tried {
                wanted,
                ..Tried::default()
            };
            refused(&app, &person, problem, tried).await
        }
    }
}

/// Has one called again, or no more, or removes it.
async fn change(
    State(app): State<App>,
    Path(id): Path<String>,
    posted: Posted,
) -> Result<Response, PageError> {
    let Posted { person, fields } = posted;
    person.caller.may(Right::Administer)?;
    person.caller.in_person()?;
    let none = |_no_id| {
        let text = line(&id, 80);
        Problem::not_found(format!("there is no webhook `{text}`"))
    };
    let id: WebhookId = id.parse().map_err(none)?;
    let what = fields.get("do").unwrap_or_default();
    let asked = match what {
        "remove" => app
            .ask(&person.caller, None, RemoveWebhook { id })
            .await
            .map(|_removed| "removed"),
        "enable" | "disable" => {
            let enabled = what == "enable";
            let query = GetWebhook { id };
            let known = app.bus.query(&person.caller.workspace, &query).await?;
            let command = webhooks::switched(known, enabled);
            let changed = app.ask(&person.caller, None, command).await;
            changed.map(|_changed| if enabled { "enabled" } else { "disabled" })
        }
        _ => {
            let detail = "`do` is enable, disable or remove";
            Err(Problem::new(422, "invalid_form", detail))
        }
    };
    match asked {
        Ok(what) => Ok(done(what)),
        Err(problem) => refused(&app, &person, problem, Tried::default()).await,
    }
}

/// Longest sentence under a field, in characters.
const FAULT_CHARS_MAX: usize = 400;

/// What is wrong with one field, in the words of a page: the API begins with the field's path.
fn fault(faults: &[FieldError], pointer: &str) -> Option<String> {
    let is_it = |fault: &&FieldError| {
        let at = fault.pointer.as_deref().unwrap_or_default();
        at == pointer
            || at
                .strip_prefix(pointer)
                .is_some_and(|rest| rest.starts_with('/'))
    };
    let fault = faults.iter().find(is_it)?;
    let path = fault.pointer.as_deref().unwrap_or_default();
    let path = path.trim_start_matches('/').replace('/', ".");
    let text = match fault.message.strip_prefix(&path) {
        Some(rest) if rest.starts_with(": ") => rest.trim_start_matches(": ").to_owned(),
        Some(rest) if rest.starts_with(' ') && path.contains(['.', '_']) => format!("This{rest}"),
        Some(_) | None => fault.message.clone(),
    };
    let text = line(&text, FAULT_CHARS_MAX);
    if fault.nearest.is_empty() {
        return Some(text);
    }
    let nearest = line(&fault.nearest.join(", "), FAULT_CHARS_MAX);
    Some(format!("{text}. Perhaps: {nearest}"))
}

/// The words under a field that needs another look.
fn wrong(id: &str, fault: Option<&String>) -> Markup {
    html! {
        @if let Some(text) = fault {
            p.hint id=(id) { strong.error { (text) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 4, deliverable 7: what is wrong with a field is a sentence, and says which word is meant.
    #[test]
    fn what_is_wrong_is_a_sentence() {
        for (pointer, message, told) in [
            (
                "/time_zone",
                "time_zone is the name of a zone",
                "This is the name of a zone",
            ),
            (
                "/channels/chat/url",
                "channels.chat.url: only https addresses are called",
                "only https addresses are called",
            ),
            (
                "/url",
                "url: 10.0.0.1 is not a public address",
                "10.0.0.1 is not a public address",
            ),
            (
                "/url",
                "url is an http or https address",
                "url is an http or https address",
            ),
            (
                "/events/1",
                "`run.over` is no event",
                "`run.over` is no event",
            ),
        ] {
            let faults = [FieldError::at(pointer, message)];
            assert_eq!(fault(&faults, pointer).as_deref(), Some(told));
        }
        let named = FieldError {
            nearest: vec!["run.failed".to_owned()],
            ..FieldError::at("/events/0", "x".repeat(2_000))
        };
        let told = fault(&[named], "/events").unwrap();
        assert!(told.ends_with("Perhaps: run.failed"), "{told}");
    }
}
