//! One request on a page of its own.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{ListUsers, RequestView};
use holdpoint_contracts::notification::Watched;
use holdpoint_ids::HoldId;
use maud::{Markup, html};

use super::card::{Tried, card, title};
use super::layout::{self, Place};
use super::live::Fragment;
use super::session::{PageError, SignedInUser};
use super::watch_buttons;
use crate::app::App;

/// Names that are suggested for somebody else to have it.
const PEOPLE_MAX: u64 = 200;

pub(super) async fn page(
    State(app): State<App>,
    Path(text): Path<String>,
    person: SignedInUser,
) -> Result<Response, PageError> {
    let request = get(&app, &person, id(&text)?).await?;
    Ok(whole(&app, &person, &request, None).await.into_response())
}

/// A task's id is its request's.
pub(super) async fn task(
    state: State<App>,
    Path(text): Path<String>,
    person: SignedInUser,
) -> Result<Response, PageError> {
    let id = text.strip_prefix("task_").unwrap_or(&text).to_owned();
    page(state, Path(id), person).await
}

/// What is no id names nothing.
pub(super) fn id(text: &str) -> Result<HoldId, Problem> {
    let wrong = |_no_id| {
        let text = super::sanitize::line(text, 80);
        Problem::not_found(format!("there is no request `{text}`"))
    };
    text.parse().map_err(wrong)
}

pub(super) async fn get(
    app: &App,
    person: &SignedInUser,
    id: HoldId,
) -> Result<RequestView, Problem> {
    person.caller.may(Right::Look)?;
    app.request(&person.caller, id).await
}

pub(super) async fn fragments(
    app: &App,
    person: &SignedInUser,
    id: HoldId,
) -> Result<Vec<Fragment>, Problem> {
    let request = get(app, person, id).await?;
    Ok(vec![super::card::fragment(person, &request)])
}

/// The page around a card.
pub(super) async fn whole(
    app: &App,
    person: &SignedInUser,
    request: &RequestView,
    tried: Option<&Tried>,
) -> Markup {
    let of = Watched::Request(request.id);
    let followed = watch_buttons::find(app, person, vec![of]).await;
    let main = html! {
        p.back { a href="/inbox" { "← Inbox" } }
        div.cards.one { (card(person, request, tried)) }
        (followed.shown(person, None))
        (people(app, person).await)
    };
    layout::page(app, person, Place::Inbox, &title(request), &main).await
}

/// Whom one can give something to, as suggestions for those who can; none are no reason to fail.
pub(super) async fn people(app: &App, person: &SignedInUser) -> Markup {
    if !person.may(Right::Decide) {
        return html! {};
    }
    let query = ListUsers {
        limit: PEOPLE_MAX,
        cursor: None,
    };
    let users = app.bus.query(&person.caller.workspace, &query).await;
    let users = users.map(|page| page.items).unwrap_or_default();
    html! {
        datalist #people {
            @for user in users.iter().filter(|user| user.active) {
                option value={ "@user." (user.name) } {}
            }
        }
    }
}
