//! The inbox: the requests of a user, the most urgent first.

use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{ListOrder, ListRequests, RequestStatus, RequestView};
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::Recipient;
use holdpoint_ids::UserName;
use maud::{Markup, html};

use super::card::{self, card};
use super::filter::{self, read_filled, select};
use super::fragment::Fragment;
use super::labels;
use super::navigation::{self, Section};
use super::request::recipient_suggestions;
use super::sanitize::humanize;
use super::session::{PageError, SignedInUser, Viewer};
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
        let who: Option<String> = read_filled(&params, "who", Params::read_as)?;
        let who = match who.as_deref() {
            Some("me") => Who::Me,
            Some("everyone") => Who::Everyone,
            Some(name) => Who::User(user_name(name)?),
            None if user.may(Right::Operate) => Who::Everyone,
            None => Who::Me,
        };
        let kind = read_filled(&params, "kind", Params::read_word)?;
        let status: Option<String> = read_filled(&params, "status", Params::read_as)?;
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
    let name = Recipient::bare_user_name(text);
    name.parse().map_err(|error| {
        invalid(format!(
            "invalid `who`: {error}; expected me, everyone or a user name"
        ))
    })
}

pub(super) async fn page(viewer: Viewer, params: Params) -> Result<Markup, PageError> {
    let filter = Filter::read(params, &viewer)?;
    let list = load(&viewer, &filter).await?;
    let main = html! {
        div.title {
            h1 { "Inbox" }
            (count_badge(&list))
            a.aside href="/standing-approvals" { "Standing approvals" }
        }
        (filter_form(&viewer, &filter))
        (snoozed_link(&viewer, &filter).await?)
        div.cards #cards { @for request in &list.cards { (card(&viewer, request, None)) } }
        (empty_state(&filter))
        @if list.has_more {
            p.muted { "Only the first " (list.cards.len()) " requests are shown. Use the filter to find others." }
        }
        (recipient_suggestions(&viewer).await)
    };
    Ok(navigation::page(&viewer, Section::Inbox, "Inbox", &main).await)
}

pub(super) async fn fragments(viewer: &Viewer, filter: &Filter) -> Result<Vec<Fragment>, Problem> {
    let list = load(viewer, filter).await?;
    let mut all = vec![count_badge(&list), snoozed_link(viewer, filter).await?];
    let cards = list.cards.iter();
    all.extend(cards.map(|request| card::fragment(viewer, request)));
    Ok(all)
}

async fn load(viewer: &Viewer, filter: &Filter) -> Result<RequestList, Problem> {
    viewer.caller.may(Right::Look)?;
    let mut query = filter.query(viewer, CARDS_MAX);
    let mut list = RequestList::default();
    loop {
        let page = viewer.app.requests(&viewer.caller, &query).await?;
        query.limit = query.limit.saturating_sub(page.items.len() as u64);
        list.cards.extend(page.items);
        list.has_more = page.next_cursor.is_some();
        query.cursor = page.next_cursor;
        if query.limit == 0 || query.cursor.is_none() {
            return Ok(list);
        }
    }
}

/// A link to the snoozed requests that match the filter otherwise; empty without any.
async fn snoozed_link(viewer: &Viewer, filter: &Filter) -> Result<Fragment, Problem> {
    let (mut number, mut has_more) = (0, false);
    if !filter.is_snoozed && filter.status.is_open() {
        let mut query = filter.query(viewer, SNOOZED_MAX);
        query.snoozed = Some(true);
        let page = viewer.query(&query).await?;
        (number, has_more) = (page.items.len(), page.next_cursor.is_some());
    }
    let kind = filter.kind.map_or("", HoldKind::as_str);
    let who = filter.who.word();
    Ok(Fragment::new("snoozed", &(number, has_more), |key| {
        html! {
            p.muted #snoozed data-key=(key) {
                @if number > 0 {
                    a href={ "/inbox?status=" (SNOOZED) "&kind=" (kind) "&who=" (who) } {
                        (number) @if has_more { " or more" } " snoozed"
                    }
                }
            }
        }
    }))
}

fn count_badge(list: &RequestList) -> Fragment {
    let more = if list.has_more { "+" } else { "" };
    let number = format!("{}{more}", list.cards.len());
    Fragment::new(
        "count",
        &number,
        |key| html! { span.count #count data-key=(key) { (number) } },
    )
}

fn filter_form(user: &SignedInUser, filter: &Filter) -> Markup {
    let kinds = [HoldKind::Approval, HoldKind::Input, HoldKind::Handoff];
    let kinds = kinds.map(|kind| (kind.as_str(), labels::hold_kind(kind).to_owned()));
    let statuses = [
        RequestStatus::Open,
        RequestStatus::Decided,
        RequestStatus::Completed,
        RequestStatus::Expired,
        RequestStatus::Withdrawn,
    ];
    let statuses = statuses
        .iter()
        .map(|status| status.as_str())
        .chain([SNOOZED]);
    let statuses = statuses.map(|status| (status, humanize(status)));
    let status = if filter.is_snoozed {
        SNOOZED
    } else {
        filter.status.as_str()
    };
    let everyone = [
        ("me", format!("Me ({})", user.name())),
        ("everyone", "Everyone".to_owned()),
    ];
    let other = match &filter.who {
        Who::User(name) => Some((name.as_str(), name.to_string())),
        Who::Me | Who::Everyone => None,
    };
    let kind = filter.kind.map_or("", HoldKind::as_str);
    let kinds = [("", "All".to_owned())].into_iter().chain(kinds);
    let fields = html! {
        (select("Kind", "kind", kind, kinds))
        (select("Status", "status", status, statuses))
        (select("For", "who", filter.who.word(), everyone.into_iter().chain(other)))
    };
    filter::form("/inbox", &fields)
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
