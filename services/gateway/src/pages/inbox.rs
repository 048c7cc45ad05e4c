//! The inbox: the requests of a user, the most urgent first.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{ListOrder, ListRequests, RequestStatus, RequestView};
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::UserName;
use maud::{Markup, html};
use serde::Serialize;

use super::card::{self, card};
use super::fragment::{Fragment, key_of};
use super::navigation::{self, Section};
use super::request::recipient_suggestions;
use super::session::{PageError, SignedInUser};
use crate::app::App;
use crate::params::{Params, invalid};

/// Number of cards on the page, the most urgent first.
const CARDS_MAX: u64 = 100;
/// The filter's word for snoozed requests.
const SNOOZED: &str = "snoozed";
/// Snoozed requests are counted up to this number.
const SNOOZED_MAX: u64 = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    kind: Option<HoldKind>,
    status: RequestStatus,
    is_snoozed: bool,
    who: Who,
}

/// The users whose requests are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Who {
    Me,
    Everyone,
    User(UserName),
}

#[derive(Debug, Default)]
struct RequestList {
    cards: Vec<RequestView>,
    has_more: bool,
}

impl RequestList {
    fn number(&self) -> String {
        let more = if self.has_more { "+" } else { "" };
        format!("{}{more}", self.cards.len())
    }
}

impl Who {
    fn word(&self) -> &str {
        match self {
            Self::Me => "me",
            Self::Everyone => "everyone",
            Self::User(name) => name.as_str(),
        }
    }
}

impl Filter {
    pub(super) fn read(params: Params, user: &SignedInUser) -> Result<Self, Problem> {
        let params = params.only(&["kind", "status", "who"])?;
        // The form of the filter submits unused fields as empty texts.
        let text = |name: &str| -> Result<Option<String>, Problem> {
            let text: Option<String> = params.read_as(name)?;
            Ok(text.filter(|text| !text.is_empty()))
        };
        let who = match text("who")?.as_deref() {
            Some("me") => Who::Me,
            Some("everyone") => Who::Everyone,
            Some(name) => Who::User(user_name(name)?),
            None if user.may(Right::Operate) => Who::Everyone,
            None => Who::Me,
        };
        let kind = match text("kind")? {
            None => None,
            Some(_) => params.read_word("kind")?,
        };
        let status = text("status")?;
        let is_snoozed = status.as_deref() == Some(SNOOZED);
        let status = match status {
            Some(_) if !is_snoozed => params.read_word("status")?.unwrap_or(RequestStatus::Open),
            Some(_) | None => RequestStatus::Open,
        };
        if kind == Some(HoldKind::Timer) {
            return Err(invalid(
                "invalid `kind`; expected approval, input or handoff",
            ));
        }
        Ok(Self {
            kind,
            status,
            is_snoozed,
            who,
        })
    }

    fn query(&self, user: &SignedInUser, limit: u64) -> ListRequests {
        let own_name = user.caller.claims.user.clone();
        let is_open = self.status.is_open();
        let assignee = match &self.who {
            Who::Me => Some(own_name.clone()),
            Who::Everyone => None,
            Who::User(name) => Some(name.clone()),
        };
        ListRequests {
            limit,
            status: Some(self.status),
            kind: self.kind,
            snoozed_by: assignee.clone().or(Some(own_name)),
            assignee,
            snoozed: is_open.then_some(self.is_snoozed),
            order: if is_open {
                ListOrder::Urgency
            } else {
                ListOrder::Newest
            },
            cards: true,
            ..ListRequests::default()
        }
    }
}

fn user_name(text: &str) -> Result<UserName, Problem> {
    let name = text.strip_prefix("@user.").unwrap_or(text);
    name.parse().map_err(|error| {
        invalid(format!(
            "invalid `who`: {error}; expected me, everyone or a user name"
        ))
    })
}

pub(super) async fn page(
    State(app): State<App>,
    user: SignedInUser,
    params: Params,
) -> Result<Response, PageError> {
    let filter = Filter::read(params, &user)?;
    let list = load(&app, &user, &filter).await?;
    let main = html! {
        div.title { h1 { "Inbox" } (count_badge(&list)) }
        (filter_form(&user, &filter))
        (snoozed_link(&filter, count_snoozed(&app, &user, &filter).await?))
        div.cards #cards { @for request in &list.cards { (card(&user, request, None)) } }
        (empty_state(&filter))
        @if list.has_more {
            p.muted { "Only the first " (list.cards.len()) " requests are shown. Use the filter to find others." }
        }
        (recipient_suggestions(&app, &user).await)
    };
    let page = navigation::page(&app, &user, Section::Inbox, "Inbox", &main);
    Ok(page.await.into_response())
}

pub(super) async fn fragments(
    app: &App,
    user: &SignedInUser,
    filter: &Filter,
) -> Result<Vec<Fragment>, Problem> {
    let list = load(app, user, filter).await?;
    let snoozed = count_snoozed(app, user, filter).await?;
    let mut all = vec![
        Fragment::new("count", &list.number(), count_badge(&list)),
        Fragment::new("snoozed", &snoozed, snoozed_link(filter, snoozed)),
    ];
    let cards = list.cards.iter();
    all.extend(cards.map(|request| card::fragment(user, request)));
    Ok(all)
}

async fn load(app: &App, user: &SignedInUser, filter: &Filter) -> Result<RequestList, Problem> {
    user.caller.may(Right::Look)?;
    let mut query = filter.query(user, CARDS_MAX);
    let mut list = RequestList::default();
    loop {
        let page = app.requests(&user.caller, &query).await?;
        query.limit = query.limit.saturating_sub(page.items.len() as u64);
        list.cards.extend(page.items);
        list.has_more = page.next_cursor.is_some();
        query.cursor = page.next_cursor;
        if query.limit == 0 || query.cursor.is_none() {
            return Ok(list);
        }
    }
}

/// Snoozed requests that match the filter otherwise.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct SnoozedCount {
    number: usize,
    has_more: bool,
}

async fn count_snoozed(
    app: &App,
    user: &SignedInUser,
    filter: &Filter,
) -> Result<SnoozedCount, Problem> {
    if filter.is_snoozed || !filter.status.is_open() {
        return Ok(SnoozedCount::default());
    }
    let mut query = filter.query(user, SNOOZED_MAX);
    query.snoozed = Some(true);
    let page = app.bus.query(&user.caller.workspace, &query).await?;
    Ok(SnoozedCount {
        number: page.items.len(),
        has_more: page.next_cursor.is_some(),
    })
}

fn snoozed_link(filter: &Filter, snoozed: SnoozedCount) -> Markup {
    let kind = filter.kind.map_or("", HoldKind::as_str);
    let who = filter.who.word();
    html! {
        p.muted #snoozed data-key=(key_of(&snoozed)) {
            @if snoozed.number > 0 {
                a href={ "/inbox?status=" (SNOOZED) "&kind=" (kind) "&who=" (who) } {
                    (snoozed.number) @if snoozed.has_more { " or more" } " snoozed"
                }
            }
        }
    }
}

fn count_badge(list: &RequestList) -> Markup {
    let number = list.number();
    html! { span.count #count data-key=(key_of(&number)) { (number) } }
}

fn filter_form(user: &SignedInUser, filter: &Filter) -> Markup {
    let statuses = [
        (RequestStatus::Open, "Open"),
        (RequestStatus::Decided, "Decided"),
        (RequestStatus::Completed, "Completed"),
        (RequestStatus::Expired, "Expired"),
        (RequestStatus::Withdrawn, "Withdrawn"),
    ];
    let kinds = [HoldKind::Approval, HoldKind::Input, HoldKind::Handoff];
    let who = filter.who.word();
    html! {
        form.filter method="get" action="/inbox" data-auto aria-label="Filter" {
            label { span { "Kind" }
                select name="kind" {
                    option value="" { "All" }
                    @for kind in kinds {
                        option value=(kind) selected[filter.kind == Some(kind)] { (super::labels::hold_kind(kind)) }
                    }
                }
            }
            label { span { "Status" }
                select name="status" {
                    @for (status, word) in statuses {
                        @let is_it = filter.status == status && !filter.is_snoozed;
                        option value=(status.as_str()) selected[is_it] { (word) }
                    }
                    option value=(SNOOZED) selected[filter.is_snoozed] { "Snoozed" }
                }
            }
            label { span { "For" }
                select name="who" {
                    option value="me" selected[who == "me"] { "Me (" (user.name()) ")" }
                    option value="everyone" selected[who == "everyone"] { "Everyone" }
                    @if let Who::User(name) = &filter.who {
                        option value=(name) selected { (name) }
                    }
                }
            }
            button.quiet { "Apply" }
        }
    }
}

/// The style sheet hides this while there are cards.
fn empty_state(filter: &Filter) -> Markup {
    html! {
        div.empty #empty {
            @if filter.is_snoozed {
                h2 { "No snoozed requests" }
                p { "A snoozed request returns to the inbox when its snooze ends. " a href="/inbox" { "Show open requests" } }
            } @else if filter.status == RequestStatus::Open {
                h2 { "No open requests" }
                p { "Requests appear here when an agent needs a person: to approve a risky step, to answer a question, or to take over a contact. The most urgent request comes first." }
                p.muted { "Try it: run " code { "holdpoint approve \"Deploy 4.2?\" --wait" } " in a terminal. It opens a request here and waits for your decision." }
            } @else {
                h2 { "No requests found" }
                p { "No request has this status. " a href="/inbox" { "Show open requests" } }
            }
        }
    }
}
