//! The inbox: what waits for a person, the most urgent first.

use std::cmp::Reverse;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{ListRequests, RequestStatus, RequestView};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::run::HoldKind;
use maud::{Markup, html};

use super::card::{card, is_for};
use super::frame::{self, Place};
use super::live::Fragment;
use super::person::{PageError, Person};
use super::request::people;
use crate::app::App;
use crate::params::{Params, invalid};

/// Cards on one page; the most urgent ones.
const CARDS_MAX: usize = 100;
/// Requests that are asked for at a time, and how often.
const PAGE: u64 = 500;
const PAGES_MAX: usize = 4;

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    kind: Option<HoldKind>,
    status: RequestStatus,
    who: Who,
}

/// Whose requests.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Who {
    /// Those that wait for whoever looks.
    Me,
    Everyone,
    /// Those of somebody by name.
    Named(String),
}

impl Filter {
    pub(super) fn read(params: Params, person: &Person) -> Result<Self, Problem> {
        let params = params.only(&["kind", "status", "who"])?;
        let said = |name: &str| -> Result<Option<String>, Problem> {
            let text: Option<String> = params.read_as(name)?;
            Ok(text.filter(|text| !text.is_empty()))
        };
        let who = match said("who")?.as_deref() {
            Some("me") => Who::Me,
            Some("everyone") => Who::Everyone,
            Some(name) => Who::Named(name.trim_start_matches("@user.").to_owned()),
            None if person.may(Right::Operate) => Who::Everyone,
            None => Who::Me,
        };
        let kind = match said("kind")? {
            None => None,
            Some(_) => params.read_word("kind")?,
        };
        let status = match said("status")? {
            None => RequestStatus::Open,
            Some(_) => params.read_word("status")?.unwrap_or(RequestStatus::Open),
        };
        if kind == Some(HoldKind::Timer) {
            return Err(invalid("`kind` is approval, input or handoff here"));
        }
        Ok(Self { kind, status, who })
    }

    fn fits(&self, request: &RequestView, person: &Person) -> bool {
        let is_asked = request.kind != HoldKind::Timer;
        let is_away = request
            .snoozed_until
            .is_some_and(|until| person.now < until);
        is_asked
            && match &self.who {
                Who::Me => is_for(person, request) && !(self.status.is_open() && is_away),
                Who::Everyone => true,
                Who::Named(name) => is_named(request, name),
            }
    }
}

fn is_named(request: &RequestView, name: &str) -> bool {
    let is_it = |text: &str| text.strip_prefix("@user.").unwrap_or(text) == name;
    match request
        .assignee
        .as_deref()
        .or(request.decided_by.as_deref())
    {
        Some(assignee) => is_it(assignee),
        None => request.to.iter().any(|to| is_it(to)),
    }
}

pub(super) async fn page(
    State(app): State<App>,
    person: Person,
    params: Params,
) -> Result<Response, PageError> {
    let filter = Filter::read(params, &person)?;
    let found = load(&app, &person, &filter).await?;
    let main = html! {
        div.title { h1 { "Inbox" } (count(found.len())) }
        (form(&person, &filter))
        div.cards #cards {
            @for request in found.iter().take(CARDS_MAX) { (card(&person, request, None)) }
        }
        (empty(&filter))
        @if found.len() > CARDS_MAX {
            p.muted { "These are the " (CARDS_MAX) " most urgent of " (found.len()) "; decide some, or filter." }
        }
        (people(&app, &person).await)
    };
    Ok(frame::page(&person, Place::Inbox, "Inbox", &main).into_response())
}

/// The cards and their number.
pub(super) async fn fragments(
    app: &App,
    person: &Person,
    filter: &Filter,
) -> Result<Vec<Fragment>, Problem> {
    let found = load(app, person, filter).await?;
    let mut all = vec![Fragment::of("count", &found.len(), count(found.len()))];
    let cards = found.iter().take(CARDS_MAX);
    all.extend(cards.map(|request| super::card::fragment(person, request)));
    Ok(all)
}

async fn load(app: &App, person: &Person, filter: &Filter) -> Result<Vec<RequestView>, Problem> {
    person.caller.may(Right::Look)?;
    let mut query = ListRequests {
        limit: PAGE,
        status: Some(filter.status),
        kind: filter.kind,
        ..ListRequests::default()
    };
    let mut found = Vec::new();
    for _ in 0..PAGES_MAX {
        let page = app.bus.query(&person.caller.workspace, &query).await?;
        let items = page.items.into_iter();
        found.extend(items.filter(|request| filter.fits(request, person)));
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            break;
        }
    }
    if filter.status.is_open() {
        found.sort_by_key(urgency);
    }
    Ok(found)
}

/// Priority, then deadline, then age.
fn urgency(request: &RequestView) -> (Reverse<Priority>, DateTime<Utc>, DateTime<Utc>) {
    let deadline = request.deadline.unwrap_or(DateTime::<Utc>::MAX_UTC);
    (Reverse(request.priority), deadline, request.created_at)
}

fn count(number: usize) -> Markup {
    html! { span.count #count data-key=(super::live::key_of(&number)) { (number) } }
}

fn form(person: &Person, filter: &Filter) -> Markup {
    let statuses = [
        (RequestStatus::Open, "Open"),
        (RequestStatus::Decided, "Decided"),
        (RequestStatus::Completed, "Completed"),
        (RequestStatus::Expired, "Time was up"),
        (RequestStatus::Withdrawn, "Withdrawn"),
    ];
    let kinds = [HoldKind::Approval, HoldKind::Input, HoldKind::Handoff];
    let who = match &filter.who {
        Who::Me => "me",
        Who::Everyone => "everyone",
        Who::Named(name) => name,
    };
    html! {
        form.filter method="get" action="/inbox" data-auto aria-label="Filter" {
            label { span { "Kind" }
                select name="kind" {
                    option value="" { "All" }
                    @for kind in kinds {
                        option value=(kind) selected[filter.kind == Some(kind)] { (super::words::kind(kind)) }
                    }
                }
            }
            label { span { "Status" }
                select name="status" {
                    @for (status, word) in statuses {
                        option value=(status.as_str()) selected[filter.status == status] { (word) }
                    }
                }
            }
            label { span { "For" }
                select name="who" {
                    option value="me" selected[who == "me"] { "Me (" (person.name()) ")" }
                    option value="everyone" selected[who == "everyone"] { "Everyone" }
                    @if let Who::Named(name) = &filter.who {
                        option value=(name) selected { (super::text::line(name, 100)) }
                    }
                }
            }
            button.quiet { "Show" }
        }
    }
}

/// What will appear here, and how; the style sheet hides it while there are cards.
fn empty(filter: &Filter) -> Markup {
    html! {
        div.empty #empty {
            @if filter.status == RequestStatus::Open {
                h2 { "Nothing waits here" }
                p { "When an agent needs a person – to approve a risky step, to answer a question, to take over a contact – it appears here by itself, the most urgent first." }
                p.muted { "Try it: " code { "holdpoint approve \"Deploy 4.2?\" --wait" } " in a terminal asks you, and waits for what you say here." }
            } @else {
                h2 { "Nothing found" }
                p { "Requests that ended this way appear here. " a href="/inbox" { "To what is open" } }
            }
        }
    }
}

#[cfg(test)]
pub(super) fn sorted(mut all: Vec<RequestView>) -> Vec<RequestView> {
    all.sort_by_key(urgency);
    all
}
