//! The page of one request.

use axum::extract::Path;
use holdpoint_auth::Right;
use holdpoint_contracts::handoff::{ListUsers, RequestView};
use holdpoint_contracts::notification::Watched;
use holdpoint_holds::Recipient;
use maud::{Markup, html};

use super::attempt::RequestAttempt;
use super::card::{card, title};
use super::navigation::{self, Section};
use super::session::{PageError, Viewer, parse_id};
use super::watch_buttons::watch_buttons;

/// Number of users that are suggested as recipients.
const SUGGESTIONS_MAX: u64 = 200;

pub(super) async fn page(Path(id): Path<String>, viewer: Viewer) -> Result<Markup, PageError> {
    let request = viewer.request(parse_id("request", &id)?).await?;
    Ok(render(&viewer, &request, None).await)
}

/// A task has the id of its request.
pub(super) async fn task_page(Path(id): Path<String>, viewer: Viewer) -> Result<Markup, PageError> {
    let id = id.strip_prefix("task_").unwrap_or(&id).to_owned();
    page(Path(id), viewer).await
}

pub(super) async fn render(
    viewer: &Viewer,
    request: &RequestView,
    attempt: Option<&RequestAttempt>,
) -> Markup {
    let main = html! {
        p.back { a href="/inbox" { "← Inbox" } }
        div.cards.one { (card(viewer, request, attempt)) }
        (watch_buttons(viewer, vec![Watched::Request(request.id)], None).await)
        (recipient_suggestions(viewer).await)
    };
    navigation::page(viewer, Section::Inbox, &title(request), &main).await
}

/// Suggestions for recipient fields. Without a reply the page has none.
pub(super) async fn recipient_suggestions(viewer: &Viewer) -> Markup {
    if !viewer.may(Right::Decide) {
        return html! {};
    }
    let query = ListUsers {
        limit: SUGGESTIONS_MAX,
        cursor: None,
    };
    let users = viewer.query(&query).await;
    let users = users.map(|page| page.items).unwrap_or_default();
    html! {
        datalist #people {
            @for user in users.iter().filter(|user| user.active) {
                option value=(Recipient::user_text(&user.name)) {}
            }
        }
    }
}
