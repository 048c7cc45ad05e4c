//! The page of one request.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{ListUsers, RequestView};
use holdpoint_contracts::notification::Watched;
use holdpoint_ids::HoldId;
use maud::{Markup, html};

use super::attempt::RequestAttempt;
use super::card::{card, title};
use super::navigation::{self, Section};
use super::session::{PageError, SignedInUser, parse_id};
use super::watch_buttons::WatchButtons;
use crate::app::App;

/// Number of users that are suggested as recipients.
const SUGGESTIONS_MAX: u64 = 200;

pub(super) async fn page(
    State(app): State<App>,
    Path(id): Path<String>,
    user: SignedInUser,
) -> Result<Response, PageError> {
    let request = get(&app, &user, parse_id("request", &id)?).await?;
    Ok(render(&app, &user, &request, None).await.into_response())
}

/// A task has the id of its request.
pub(super) async fn task_page(
    state: State<App>,
    Path(text): Path<String>,
    user: SignedInUser,
) -> Result<Response, PageError> {
    let id = text.strip_prefix("task_").unwrap_or(&text).to_owned();
    page(state, Path(id), user).await
}

pub(super) async fn get(
    app: &App,
    user: &SignedInUser,
    id: HoldId,
) -> Result<RequestView, Problem> {
    user.caller.may(Right::Look)?;
    app.request(&user.caller, id).await
}

pub(super) async fn render(
    app: &App,
    user: &SignedInUser,
    request: &RequestView,
    attempt: Option<&RequestAttempt>,
) -> Markup {
    let watched = vec![Watched::Request(request.id)];
    let buttons = WatchButtons::load(app, user, watched).await;
    let main = html! {
        p.back { a href="/inbox" { "← Inbox" } }
        div.cards.one { (card(user, request, attempt)) }
        (buttons.render(user, None))
        (recipient_suggestions(app, user).await)
    };
    navigation::page(app, user, Section::Inbox, &title(request), &main).await
}

/// Suggestions for recipient fields. Without a reply the page has none.
pub(super) async fn recipient_suggestions(app: &App, user: &SignedInUser) -> Markup {
    if !user.may(Right::Decide) {
        return html! {};
    }
    let query = ListUsers {
        limit: SUGGESTIONS_MAX,
        cursor: None,
    };
    let users = app.bus.query(&user.caller.workspace, &query).await;
    let users = users.map(|page| page.items).unwrap_or_default();
    html! {
        datalist #people {
            @for user in users.iter().filter(|user| user.active) {
                option value={ "@user." (user.name) } {}
            }
        }
    }
}
