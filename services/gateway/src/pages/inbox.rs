//! The inbox: what waits for a person, the most urgent first.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{ListOrder, ListRequests, RequestStatus, RequestView};
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::UserName;
use maud::{Markup, html};
use serde::Serialize;

use super::card::card;
use super::layout::{self, Place};
use super::live::Fragment;
use super::request::people;
use super::session::{PageError, SignedInUser};
use crate::app::App;
use crate::params::{Params, invalid};

/// Cards on one page; the most urgent ones.
const CARDS_MAX: u64 = 100;
/// The status of what somebody has put away for later.
const AWAY: &str = "snoozed";
/// As many of these are counted.
const AWAY_MAX: u64 = 20;

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    kind: Option<HoldKind>,
    status: RequestStatus,
    /// What somebody has put away for later; else what nobody has.
    is_away: bool,
    who: Who,
}

/// Whose requests.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Who {
    /// Those that wait for whoever looks.
    Me,
    Everyone,
    /// Those of somebody by name.
    PathId(UserName),
}

/// What was found, as far as it is shown.
#[derive(Debug, Default)]
struct Found {
    cards: Vec<RequestView>,
    has_more: bool,
}

impl Found {
    fn number(&self) -> String {
        let more = if self.has_more { "+" } else { "" };
        format!("{}{more}", self.cards.len())
    }
}

impl Who {
    /// As the filter has it.
    fn word(&self) -> &str {
        match self {
            Self::Me => "me",
            Self::Everyone => "everyone",
            Self::PathId(name) => name.as_str(),
        }
    }
}

impl Filter {
    pub(super) fn read(params: Params, person: &SignedInUser) -> Result<Self, Problem> {
        let params = params.only(&["kind", "status", "who"])?;
        let said = |name: &str| -> Result<Option<String>, Problem> {
            let text: Option<String> = params.read_as(name)?;
            Ok(text.filter(|text| !text.is_empty()))
        };
        let who = match said("who")?.as_deref() {
            Some("me") => Who::Me,
            Some("everyone") => Who::Everyone,
            Some(name) => Who::PathId(named(name)?),
            None if person.may(Right::Operate) => Who::Everyone,
            None => Who::Me,
        };
        let kind = match said("kind")? {
            None => None,
            Some(_) => params.read_word("kind")?,
        };
        let is_away = said("status")?.as_deref() == Some(AWAY);
        let status = match said("status")? {
            Some(_) if !is_away => params.read_word("status")?.unwrap_or(RequestStatus::Open),
            Some(_) | None => RequestStatus::Open,
        };
        if kind == Some(HoldKind::Timer) {
            return Err(invalid("`kind` is approval, input or handoff here"));
        }
        Ok(Self {
            kind,
            status,
            is_away,
            who,
        })
    }

    /// What the owner of requests is asked for.
    fn query(&self, person: &SignedInUser, limit: u64) -> ListRequests {
        let assignee = match &self.who {
            Who::Me => Some(person.caller.claims.user.clone()),
            Who::Everyone => None,
            Who::PathId(name) => Some(name.clone()),
        };
        ListRequests {
            limit,
            status: Some(self.status),
            kind: self.kind,
            snoozed_by: Some(
                assignee
                    .clone()
                    .unwrap_or_else(|| person.caller.claims.user.clone()),
            ),
            assignee,
            snoozed: self.status.is_open().then_some(self.is_away),
            order: match self.status.is_open() {
                true => ListOrder::Urgency,
                false => ListOrder::Newest,
            },
            cards: true,
            ..ListRequests::default()
        }
    }
}

fn named(text: &str) -> Result<UserName, Problem> {
    let name = text.strip_prefix("@user.").unwrap_or(text);
    name.parse()
        .map_err(|error| invalid(format!("`who` names nobody: {error}")))
}

pub(super) async fn page(
    State(app): State<App>,
    person: SignedInUser,
    params: Params,
) -> Result<Response, PageError> {
    let filter = Filter::read(params, &person)?;
    let found = load(&app, &person, &filter).await?;
    let main = html! {
        div.title { h1 { "Inbox" } (count(&found)) }
        (form(&person, &filter))
        (away(&filter, put_away(&app, &person, &filter).await?))
        div.cards #cards {
            @for request in &found.cards { (card(&person, request, None)) }
        }
        (empty(&filter))
        @if found.has_more {
            p.muted { "There are more than these " (found.cards.len()) "; decide some, or filter." }
        }
        (people(&app, &person).await)
    };
    let page = layout::page(&app, &person, Place::Inbox, "Inbox", &main);
    Ok(page.await.into_response())
}

/// The cards and their number.
pub(super) async fn fragments(
    app: &App,
    person: &SignedInUser,
    filter: &Filter,
) -> Result<Vec<Fragment>, Problem> {
    let found = load(app, person, filter).await?;
    let aside = put_away(app, person, filter).await?;
    let mut all = vec![
        Fragment::of("count", &found.number(), count(&found)),
        Fragment::of("away", &aside, away(filter, aside)),
    ];
    let cards = found.cards.iter();
    all.extend(cards.map(|request| super::card::fragment(person, request)));
    Ok(all)
}

async fn load(app: &App, person: &SignedInUser, filter: &Filter) -> Result<Found, Problem> {
    person.caller.may(Right::Look)?;
    let mut query = filter.query(person, CARDS_MAX);
    let mut found = Found::default();
    loop {
        let page = app.requests(&person.caller, &query).await?;
        query.limit = query.limit.saturating_sub(page.items.len() as u64);
        found.cards.extend(page.items);
        found.has_more = page.next_cursor.is_some();
        query.cursor = page.next_cursor;
        if query.limit == 0 || query.cursor.is_none() {
            return Ok(found);
        }
    }
}

/// How many of what is looked for somebody has put away for later; counted up to a bound.
async fn put_away(app: &App, person: &SignedInUser, filter: &Filter) -> Result<Away, Problem> {
    if filter.is_away || !filter.status.is_open() {
        return Ok(Away::default());
    }
    let mut query = filter.query(person, AWAY_MAX);
    query.snoozed = Some(true);
    let page = app.bus.query(&person.caller.workspace, &query).await?;
    Ok(Away {
        number: page.items.len(),
        has_more: page.next_cursor.is_some(),
    })
}

/// What is put away for later.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Away {
    number: usize,
    has_more: bool,
}

/// That something is put away, and where it is.
fn away(filter: &Filter, away: Away) -> Markup {
    let kind = filter.kind.map_or("", HoldKind::as_str);
    let who = filter.who.word();
    html! {
        p.muted #away data-key=(super::live::key_of(&away)) {
            @if away.number > 0 {
                a href={ "/inbox?status=" (AWAY) "&kind=" (kind) "&who=" (who) } {
                    (away.number) @if away.has_more { " or more" } " put away for later"
                }
            }
        }
    }
}

fn count(found: &Found) -> Markup {
    let number = found.number();
    html! { span.count #count data-key=(super::live::key_of(&number)) { (number) } }
}

fn form(person: &SignedInUser, filter: &Filter) -> Markup {
    let statuses = [
        (RequestStatus::Open, "Open"),
        (RequestStatus::Decided, "Decided"),
        (RequestStatus::Completed, "Completed"),
        (RequestStatus::Expired, "Time was up"),
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
                        option value=(kind) selected[filter.kind == Some(kind)] { (super::labels::kind(kind)) }
                    }
                }
            }
            label { span { "Status" }
                select name="status" {
                    @for (status, word) in statuses {
                        @let is_it = filter.status == status && !filter.is_away;
                        option value=(status.as_str()) selected[is_it] { (word) }
                    }
                    option value=(AWAY) selected[filter.is_away] { "Put away" }
                }
            }
            label { span { "For" }
                select name="who" {
                    option value="me" selected[who == "me"] { "Me (" (person.name()) ")" }
                    option value="everyone" selected[who == "everyone"] { "Everyone" }
                    @if let Who::PathId(name) = &filter.who {
                        option value=(name) selected { (name) }
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
            @if filter.is_away {
                h2 { "Nothing is put away" }
                p { "What somebody puts away comes back by itself when its time has come. " a href="/inbox" { "To what is open" } }
            } @else if filter.status == RequestStatus::Open {
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
