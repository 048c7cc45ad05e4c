//! The notifications of a user, unread ones first, and marking them as read.

use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::notification::{
    GetNotification, ListNotifications, NotificationType, NotificationView, ReadNotification,
    ReadNotifications, RequestEnd, RequestEventKind, Unread,
};
use holdpoint_ids::NotificationId;
use maud::{Markup, html};

use super::fragment::{CardId, Fragment, key_of};
use super::labels::{self, Tone};
use super::navigation::{self, Section};
use super::request_actions::FRAGMENT_HEADER;
use super::sanitize::{clean, one_line};
use super::session::{
    PageError, PermittedForm, SignedInUser, Viewer, invalid_form, parse_id, percent_encode,
};
use crate::auth::may::{InPerson, Look};
use crate::command_outcome::CommandOutcome;
use crate::params::Params;

/// Number of unread notifications on a page, and of others.
const CARDS_MAX: u64 = 50;
/// Longest headline, in characters.
const TITLE_MAX: usize = 200;
const PATH: &str = "/notifications";

struct NotificationList {
    cards: Vec<NotificationView>,
    next_cursor: Option<String>,
    /// Read before the cards: a later notification is above this number and is not marked as read
    /// before the user has seen it.
    unread: Option<Unread>,
}

impl NotificationList {
    /// The data behind the form that marks all as read.
    fn unread_key(&self) -> (Vec<NotificationId>, bool) {
        let unread = self.cards.iter().filter(|card| card.read_at.is_none());
        (unread.map(|card| card.id).collect(), self.unread.is_some())
    }
}

pub(super) fn read_cursor(params: Params) -> Result<Option<String>, Problem> {
    params.only(&["cursor"])?.read_as("cursor")
}

pub(super) async fn page(viewer: Viewer, params: Params) -> Result<Markup, PageError> {
    let list = load(&viewer, read_cursor(params)?).await?;
    let main = html! {
        div.title { h1 { "Notifications" } }
        (read_all_form(&viewer, &list))
        div.cards #cards { @for notification in &list.cards { (card(&viewer, notification)) } }
        div.empty #empty {
            h2 { "No notifications" }
            p { "You are notified here of requests to you, of ends of runs that you follow, of your contacts and deals, and when a person mentions you." }
            p.muted { "Choose email, chat and quiet hours in the " a href="/settings" { "settings" } "." }
        }
        @if let Some(cursor) = &list.next_cursor {
            p { a href={ (PATH) "?cursor=" (percent_encode(cursor)) } { "Older notifications" } }
        }
    };
    Ok(navigation::page(&viewer, Section::Notifications, "Notifications", &main).await)
}

/// The parts of the first page. Older pages are not live.
pub(super) async fn fragments(viewer: &Viewer) -> Result<Vec<Fragment>, Problem> {
    let list = load(viewer, None).await?;
    let mut all = vec![read_all_form(viewer, &list)];
    // The script adds a new card at the top, so the newest card is sent last.
    let cards = list.cards.iter().rev();
    all.extend(cards.map(|notification| card(viewer, notification)));
    Ok(all)
}

/// A card that has left the list; absent once retention has deleted it.
pub(super) async fn unlisted_fragment(
    viewer: &Viewer,
    id: NotificationId,
) -> Result<Option<Fragment>, Problem> {
    let person = viewer.caller.claims.user.clone();
    match viewer.query(&GetNotification { person, id }).await {
        Ok(notification) => Ok(Some(card(viewer, &notification))),
        Err(problem) if problem.status == 404 => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// The first page starts with the unread notifications, however old they are.
async fn load(viewer: &Viewer, cursor: Option<String>) -> Result<NotificationList, Problem> {
    let unread = navigation::count_unread(viewer).await;
    viewer.caller.may(Right::Look)?;
    let is_first = cursor.is_none();
    let mut query = ListNotifications {
        person: viewer.caller.claims.user.clone(),
        unread: false,
        limit: CARDS_MAX,
        cursor,
    };
    let newest = viewer.query(&query).await?;
    let mut cards = Vec::new();
    if is_first {
        query.unread = true;
        cards = viewer.query(&query).await?.items;
    }
    let is_new = |item: &NotificationView| cards.iter().all(|card| card.id != item.id);
    let others: Vec<_> = newest.items.into_iter().filter(is_new).collect();
    cards.extend(others);
    Ok(NotificationList {
        cards,
        next_cursor: newest.next_cursor,
        unread,
    })
}

/// Marks the notifications up to the newest one that this page can show.
fn read_all_form(user: &SignedInUser, list: &NotificationList) -> Fragment {
    let data = list.unread_key();
    let is_shown = user.caller.is_whole() && !data.0.is_empty();
    Fragment::new("all-read", &data, |key| {
        html! {
            div #all-read data-key=(key) {
                @if let Some(unread) = list.unread.filter(|_| is_shown) {
                    @let until = unread.newest.to_string();
                    (user.form("/notifications/read", "all", &[("until", &until)], &html! { button { "Mark all as read" } }))
                }
            }
        }
    })
}

/// One notification with the later outcome of its request.
fn card(user: &SignedInUser, notification: &NotificationView) -> Fragment {
    let title = one_line(&notification.title, TITLE_MAX);
    let has_more = one_line(&notification.message, TITLE_MAX) != title;
    let is_unread = notification.read_at.is_none();
    let title_id = format!("{}-title", notification.id);
    let path = format!("{PATH}/{}/read", notification.id);
    let button = html! { button.quiet { "Mark as read" span.hidden { ": " (title) } } };
    let key = key_of(notification);
    let html = html! {
        article.card.note.unread[is_unread] id=(notification.id) data-key=(key) tabindex="-1"
            aria-labelledby=(title_id) data-say=(one_line(&title, 80)) {
            header {
                div.chips {
                    @if is_unread { (labels::chip(Tone::Busy, "New")) }
                    span.kind { (type_label(notification.kind)) }
                    @if let Some(priority) = labels::priority_chip(notification.priority) { (priority) }
                    @if let Some(end) = &notification.decided { (labels::chip(Tone::Calm, &request_end(end))) }
                    @if let Some(end) = &notification.ended { (labels::run_status_chip(end.status)) }
                }
                h2 id=(title_id) { a href=(notification.action_url) { (title) } }
            }
            @if has_more { p.question { (clean(&notification.message)) } }
            div.controls.row {
                span.meta {
                    span { (labels::instant(notification.at, user.zone)) }
                    @if let Some(run) = &notification.run { a href={ "/runs/" (run) } { "Run" } }
                }
                @if is_unread && user.caller.is_whole() { (user.form(&path, "", &[], &button)) }
            }
        }
    };
    Fragment {
        id: notification.id.to_string(),
        key,
        html,
        card: Some(CardId::Notification(notification.id)),
    }
}

const fn type_label(kind: NotificationType) -> &'static str {
    match kind {
        NotificationType::TaskDue => "Due",
        NotificationType::TaskAssigned => "Assigned to you",
        NotificationType::DealWon => "Deal won",
        NotificationType::DealLost => "Deal lost",
        NotificationType::NewLead => "New lead",
        NotificationType::WorkflowComplete => "Run",
        NotificationType::Mention => "Mention",
        NotificationType::System => "System",
        NotificationType::Custom => "News",
        NotificationType::AgentHandoff => "Handoff",
        NotificationType::ApprovalRequested => "Approval",
        NotificationType::InputRequested => "Question",
        NotificationType::Escalation => "Escalation",
    }
}

/// `Approved by ada`.
fn request_end(end: &RequestEnd) -> String {
    let label = match (end.outcome, end.state) {
        (_, RequestEventKind::TakenOver) => "Taken over",
        (_, RequestEventKind::Expired) => return "Expired".to_owned(),
        (_, RequestEventKind::Withdrawn) => "Withdrawn",
        (Some(outcome), _) => labels::outcome(outcome),
        (
            None,
            RequestEventKind::Decided
            | RequestEventKind::Opened
            | RequestEventKind::Assigned
            | RequestEventKind::Escalated
            | RequestEventKind::Mentioned,
        ) => "Decided",
    };
    match &end.by {
        Some(by) => format!("{label} by {}", labels::actor(by)),
        None => label.to_owned(),
    }
}

/// Marks one notification and replies with its card; without the script, with the page.
pub(super) async fn mark_read(
    Path(id): Path<String>,
    headers: HeaderMap,
    PermittedForm(viewer, ..): PermittedForm<InPerson<Look>>,
) -> Result<Response, PageError> {
    let id = parse_id("notification", &id)?;
    let outcome = viewer.command(ReadNotification { id }).await?;
    Ok(match outcome {
        CommandOutcome::Done(view) if headers.contains_key(FRAGMENT_HEADER) => {
            card(&viewer, &view).html.into_response()
        }
        CommandOutcome::Done(_) | CommandOutcome::Accepted(_) => Redirect::to(PATH).into_response(),
    })
}

/// Marks the notifications that had arrived when the page was rendered.
pub(super) async fn mark_all_read(
    PermittedForm(viewer, fields, _): PermittedForm<InPerson<Look>>,
) -> Result<Redirect, PageError> {
    let until = fields.get("until").map(str::parse::<u64>).transpose();
    let command = ReadNotifications {
        person: viewer.caller.claims.user.clone(),
        until: until.map_err(|_error| invalid_form("invalid `until`; expected a number"))?,
    };
    viewer.command(command).await?;
    Ok(Redirect::to(PATH))
}
