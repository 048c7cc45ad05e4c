//! What somebody was told, the unread first; and marking it as read.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::notification::{
    GetNotification, ListNotifications, NotificationType, NotificationView, ReadNotification,
    ReadNotifications, RequestEnd, Unread,
};
use holdpoint_ids::NotificationId;
use maud::{Markup, html};

use super::labels::{self, Tone};
use super::layout::{self, Place};
use super::live::{Fragment, Item, key_of};
use super::request_actions::FRAGMENT;
use super::sanitize::{clean, line};
use super::session::{PageError, Posted, SignedInUser, encoded};
use crate::answered::CommandOutcome;
use crate::app::App;
use crate::params::Params;

/// Notifications on one page that are not read, and as many of all.
const CARDS_MAX: u64 = 50;
/// Longest headline.
const TITLE_MAX: usize = 200;
/// Where it is.
const HERE: &str = "/notifications";

/// What is shown.
struct Found {
    cards: Vec<NotificationView>,
    /// Where older ones begin.
    older: Option<String>,
}

/// What the path of the page says.
pub(super) fn cursor(params: Params) -> Result<Option<String>, Problem> {
    params.only(&["cursor"])?.read_as("cursor")
}

pub(super) async fn page(
    State(app): State<App>,
    person: SignedInUser,
    params: Params,
) -> Result<Response, PageError> {
    let cursor = cursor(params)?;
    let (found, unread) = found(&app, &person, cursor).await?;
    let main = html! {
        div.title { h1 { "Notifications" } }
        (all_read(&person, &found, unread))
        div.cards #cards {
            @for one in &found.cards { (card(&person, one)) }
        }
        (empty())
        @if let Some(cursor) = &found.older {
            p { a href={ (HERE) "?cursor=" (encoded(cursor)) } { "Older notifications" } }
        }
    };
    let page = layout::page(&app, &person, Place::Notifications, "Notifications", &main);
    Ok(page.await.into_response())
}

/// The cards as they now are; older ones are as they were when the page was opened.
pub(super) async fn fragments(app: &App, person: &SignedInUser) -> Result<Vec<Fragment>, Problem> {
    let (found, unread) = found(app, person, None).await?;
    let mut all = vec![Fragment::of(
        "all-read",
        &what_all_are(&found, unread),
        all_read(person, &found, unread),
    )];
    // The last one that is put in stands on top.
    let cards = found.cards.iter().rev();
    all.extend(cards.map(|one| fragment(person, one)));
    Ok(all)
}

/// A card as it is replaced by its id.
fn fragment(person: &SignedInUser, one: &NotificationView) -> Fragment {
    Fragment {
        id: one.id.to_string(),
        key: key_of(one),
        html: card(person, one),
        item: Some(Item::Notification(one.id)),
    }
}

/// A card that has left the list; none where it is forgotten.
pub(super) async fn left(
    app: &App,
    person: &SignedInUser,
    id: NotificationId,
) -> Result<Option<Fragment>, Problem> {
    let query = GetNotification {
        person: person.caller.claims.user.clone(),
        id,
    };
    match app.bus.query(&person.caller.workspace, &query).await {
        Ok(one) => Ok(Some(fragment(person, &one))),
        Err(problem) if problem.status == 404 => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// What is shown, and the number of the newest change that it may show. The number first: what comes
/// meanwhile is beyond it, and nobody has seen it.
async fn found(
    app: &App,
    person: &SignedInUser,
    cursor: Option<String>,
) -> Result<(Found, Option<Unread>), Problem> {
    let unread = layout::unread(app, person).await;
    Ok((load(app, person, cursor).await?, unread))
}

/// On the first page the unread come first, however old they are.
async fn load(app: &App, person: &SignedInUser, cursor: Option<String>) -> Result<Found, Problem> {
    person.caller.may(Right::Look)?;
    let is_first = cursor.is_none();
    let mut query = ListNotifications {
        person: person.caller.claims.user.clone(),
        unread: false,
        limit: CARDS_MAX,
        cursor,
    };
    let workspace = &person.caller.workspace;
    let newest = app.bus.query(workspace, &query).await?;
    let mut cards = Vec::new();
    if is_first {
        query.unread = true;
        cards = app.bus.query(workspace, &query).await?.items;
    }
    let is_new = |one: &NotificationView| cards.iter().all(|other| other.id != one.id);
    let others: Vec<_> = newest.items.into_iter().filter(is_new).collect();
    cards.extend(others);
    Ok(Found {
        cards,
        older: newest.next_cursor,
    })
}

fn unread_of(found: &Found) -> Vec<NotificationId> {
    let unread = found.cards.iter().filter(|one| one.read_at.is_none());
    unread.map(|one| one.id).collect()
}

/// What the form is made from: it comes and goes with what is shown, and where the number cannot be had.
fn what_all_are(found: &Found, unread: Option<Unread>) -> (Vec<NotificationId>, bool) {
    (unread_of(found), unread.is_some())
}

/// Marks what had come when the page was made, and nothing that came since.
fn all_read(person: &SignedInUser, found: &Found, unread: Option<Unread>) -> Markup {
    let what = what_all_are(found, unread);
    let may = person.caller.is_whole() && !what.0.is_empty();
    let until = unread.filter(|_| may);
    html! {
        div #all-read data-key=(key_of(&what)) {
            @if let Some(unread) = until {
                form.all method="post" action={ (HERE) "/read" } {
                    input type="hidden" name="csrf" value=(person.csrf());
                    input type="hidden" name="until" value=(unread.newest);
                    button { "Mark all as read" }
                }
            }
        }
    }
}

/// One notification, with what happened to its request since.
fn card(person: &SignedInUser, one: &NotificationView) -> Markup {
    let title = line(&one.title, TITLE_MAX);
    let has_more = line(&one.message, TITLE_MAX) != title;
    let is_unread = one.read_at.is_none();
    let name = format!("{}-title", one.id);
    html! {
        article.card.note.unread[is_unread] id=(one.id) data-key=(key_of(one)) tabindex="-1"
            aria-labelledby=(name) data-say=(line(&title, 80)) {
            header {
                div.chips {
                    @if is_unread { (labels::chip(Tone::Busy, "New")) }
                    span.kind { (kind(one.kind)) }
                    @if let Some(priority) = labels::priority(one.priority) { (priority) }
                    @if let Some(end) = &one.decided { (labels::chip(Tone::Calm, &ended(end))) }
                    @if let Some(end) = &one.ended { (labels::run_status(end.status)) }
                }
                h2 id=(name) { a href=(one.action_url) { (title) } }
            }
            @if has_more { p.question { (clean(&one.message)) } }
            div.controls.row {
                span.meta {
                    span { (labels::instant(one.at, person.zone)) }
                    @if let Some(run) = &one.run { a href={ "/runs/" (run) } { "Run" } }
                }
                @if is_unread && person.caller.is_whole() {
                    form method="post" action={ (HERE) "/" (one.id) "/read" } {
                        input type="hidden" name="csrf" value=(person.csrf());
                        button.quiet { "Mark as read" span.hidden { ": " (title) } }
                    }
                }
            }
        }
    }
}

const fn kind(kind: NotificationType) -> &'static str {
    match kind {
        NotificationType::TaskDue => "Due",
        NotificationType::TaskAssigned => "Assigned to you",
        NotificationType::DealWon => "Deal won",
        NotificationType::DealLost => "Deal lost",
        NotificationType::NewLead => "New lead",
        NotificationType::WorkflowComplete => "Run",
        NotificationType::Mention => "Mention",
        NotificationType::System => "System",
        NotificationType::Custom => "FeedPage",
        NotificationType::AgentHandoff => "Handoff",
        NotificationType::ApprovalRequested => "Approval",
        NotificationType::InputRequested => "Question",
        NotificationType::Escalation => "Escalation",
    }
}

/// `Approved by ada`.
fn ended(end: &RequestEnd) -> String {
    use holdpoint_contracts::notification::RequestEventKind;
    let what = match (end.outcome, end.state) {
        (_, RequestEventKind::TakenOver) => "Taken over",
        (_, RequestEventKind::Expired) => return "Time was up".to_owned(),
        (_, RequestEventKind::Withdrawn) => "Withdrawn",
        (Some(outcome), _) => labels::outcome(outcome),
        (
            None,
            RequestEventKind::Decided
            | RequestEventKind::Opened
            | RequestEventKind::Assigned
            | RequestEventKind::Escalated,
        ) => "Decided",
    };
    match &end.by {
        Some(by) => format!("{what} by {}", labels::who(by)),
        None => what.to_owned(),
    }
}

fn empty() -> Markup {
    html! {
        div.empty #empty {
            h2 { "Nothing yet" }
            p { "When something is asked of you, or somebody gives you something, or a run ends that you follow, you are told here, at once." }
            p.muted { "By which other ways you are told, and when not: " a href="/settings" { "Settings" } "." }
        }
    }
}

/// Marks one as read. The answer is its card; without the script the page.
pub(super) async fn read(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    posted: Posted,
) -> Result<Response, PageError> {
    let person = posted.person;
    person.caller.may(Right::Look)?;
    person.caller.in_person()?;
    let none = |_no_id| {
        let text = line(&id, 80);
        Problem::not_found(format!("there is no notification `{text}`"))
    };
    let command = ReadNotification {
        id: id.parse().map_err(none)?,
    };
    match app.command(&person.caller, None, command).await? {
        CommandOutcome::Done(view) if headers.contains_key(FRAGMENT) => {
            Ok(card(&person, &view).into_response())
        }
        CommandOutcome::Done(_) | CommandOutcome::Accepted(_) => {
            Ok(Redirect::to(HERE).into_response())
        }
    }
}

/// Marks as read what had come when the page was made.
pub(super) async fn read_all(
    State(app): State<App>,
    posted: Posted,
) -> Result<Response, PageError> {
    let Posted { person, fields } = posted;
    person.caller.may(Right::Look)?;
    person.caller.in_person()?;
    let until = fields.get("until").map(str::parse::<u64>).transpose();
    let no_number = |_no_number| Problem::new(422, "invalid_form", "`until` is a number");
    let command = ReadNotifications {
        person: person.caller.claims.user.clone(),
        until: until.map_err(no_number)?,
    };
    app.command(&person.caller, None, command).await?;
    Ok(Redirect::to(HERE).into_response())
}
