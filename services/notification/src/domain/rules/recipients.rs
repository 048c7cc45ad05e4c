//! Which people an event is for: the recipients of a request, its askers, and watchers.

use holdpoint_contracts::hold::OPERATOR_TAKEOVER;
use holdpoint_contracts::notification::{RequestEvent, RequestEventKind, Watched};
use holdpoint_ids::{HoldId, UserName, Workspace};

use super::notification_text::acting_person;
use super::notification_view::type_of;
use crate::domain::decision::{LookupFn, Undecided, load, load_all};
use crate::domain::model::{
    FanOutProgress, NotificationEvent, Recipient, RequestLifecycle, Subject, Subscription,
};
use crate::domain::need::{Fact, Need, Person};

/// People who are notified in one commit.
pub const PAGE: usize = 1_000;

/// The people of one page, and the fan-out that remains after it.
#[derive(Debug, PartialEq)]
pub(crate) struct Page {
    pub(crate) people: Vec<Person>,
    pub(crate) rest: FanOutProgress,
}

/// The recipients of a request event; once the request has ended, its askers. People
/// are not notified of their own actions. The exception is what they ask of themselves: a script of theirs
/// may have asked.
#[must_use]
pub(crate) fn request_recipients(event: &RequestEvent) -> Vec<Recipient> {
    if type_of(event).is_none() {
        return Vec::new();
    }
    if event.kind.is_end() {
        return askers(event);
    }
    // The person who takes a run over knows it.
    let is_takeover = event.kind == RequestEventKind::Opened
        && event.request.reason.as_deref() == Some(OPERATOR_TAKEOVER);
    if is_takeover {
        return Vec::new();
    }
    Recipient::parse_all(&event.to)
}

/// The askers, except the person who ended the request. A request that was withdrawn with its run is not
/// reported: the end of the run is.
fn askers(event: &RequestEvent) -> Vec<Recipient> {
    let by = acting_person(event);
    if event.kind == RequestEventKind::Withdrawn && by.is_none() {
        return Vec::new();
    }
    let others = event.request.asked_by.iter().map(String::as_str);
    let others = others.filter(|name| Some(*name) != by);
    let names = others.filter_map(|name| name.parse().ok());
    names.map(Recipient::User).collect()
}

/// Whether the notification of another call of the same fan-out covers the opening of this one. People open one page,
/// which lists the calls, and a list of a hundred calls must not notify them a hundred times. Reminders are not covered:
/// those of the other call may go to other users.
///
/// Events may overtake each other. The first call of a fan-out that arrives notifies people, and covers the others.
pub(crate) fn is_covered(
    workspace: &Workspace,
    event: &RequestEvent,
    lookup: LookupFn<'_>,
) -> Result<bool, Undecided> {
    let is_opening = event.kind == RequestEventKind::Opened;
    let item = event.request.items.first().filter(|_| is_opening);
    let Some(item) = item.filter(|item| item.parent.is_some()) else {
        return Ok(false);
    };
    let first = item.notified_with.unwrap_or(event.id);
    let of_first = request_lifecycle(workspace, first, lookup)?;
    // A standing approval may have decided the first one before anybody was notified of it.
    if first != event.id && of_first.is_open() {
        return Ok(true);
    }
    match of_first.notified_by.filter(|by| *by != event.id) {
        Some(by) => Ok(request_lifecycle(workspace, by, lookup)?.is_open()),
        None => Ok(false),
    }
}

/// What a person may watch to be notified of an event. Empty: watchers are not notified of it.
#[must_use]
pub(crate) fn watch_targets(subject: &Subject) -> Vec<Watched> {
    match subject {
        Subject::Request { event, .. } => {
            let is_news = match event.kind {
                RequestEventKind::Escalated
                | RequestEventKind::TakenOver
                | RequestEventKind::Mentioned => false,
                RequestEventKind::Opened
                | RequestEventKind::Assigned
                | RequestEventKind::Decided
                | RequestEventKind::Expired
                | RequestEventKind::Withdrawn => type_of(event).is_some(),
            };
            if !is_news {
                return Vec::new();
            }
            let run = event.request.run.map(Watched::Run);
            let agent = event.request.agent.clone().map(Watched::Agent);
            let all = [Some(Watched::Request(event.id)), run, agent];
            all.into_iter().flatten().collect()
        }
        Subject::RunEnd(end) => vec![Watched::Run(end.run), Watched::Agent(end.agent.clone())],
        Subject::Contact { .. } | Subject::System(_) => Vec::new(),
    }
}

/// One page of the names of watchers, in order.
pub(crate) fn watchers(
    workspace: &Workspace,
    subject: &Subject,
    after: Option<&UserName>,
    lookup: LookupFn<'_>,
) -> Result<Vec<UserName>, Undecided> {
    let of = watch_targets(subject);
    if of.is_empty() {
        return Ok(Vec::new());
    }
    let need = Need::Watchers {
        workspace: workspace.clone(),
        of,
        after: after.cloned(),
        limit: PAGE,
    };
    Ok(load(need, lookup, Fact::try_as_names)?.unwrap_or_default())
}

/// One page of watchers. A person is not notified of their own action.
pub(crate) fn watcher_page(
    event: &NotificationEvent,
    after: Option<&UserName>,
    lookup: LookupFn<'_>,
) -> Result<Page, Undecided> {
    let mut names = watchers(&event.workspace, &event.subject, after, lookup)?;
    let rest = match names.last() {
        Some(last) if names.len() >= PAGE => FanOutProgress::Watchers {
            after: Some(last.clone()),
        },
        Some(_) | None => FanOutProgress::Done,
    };
    names.retain(|name| event.by() != Some(name.as_str()));
    let people = active_people(&event.workspace, &names, lookup)?;
    Ok(Page { people, rest })
}

/// One page of at most [`PAGE`] people of these recipients. `after` is the last notified member of the first.
pub(crate) fn recipient_page(
    workspace: &Workspace,
    left: &[Recipient],
    after: Option<&UserName>,
    lookup: LookupFn<'_>,
) -> Result<Page, Undecided> {
    let members = members_of_all(workspace, left, after, lookup)?;
    let mut names: Vec<UserName> = Vec::new();
    let mut rest = FanOutProgress::Done;
    let remaining = |place: usize, after: Option<UserName>| FanOutProgress::Recipients {
        left: left.get(place..).unwrap_or_default().to_vec(),
        after,
    };
    for (place, (recipient, members)) in left.iter().zip(members).enumerate() {
        let room = PAGE.saturating_sub(names.len());
        if room == 0 {
            rest = remaining(place, None);
            break;
        }
        match recipient {
            Recipient::User(name) => names.push(name.clone()),
            Recipient::Role(_) => {
                let is_whole = members.len() < PAGE && members.len() <= room;
                names.extend(members.into_iter().take(room));
                if !is_whole {
                    rest = remaining(place, names.last().cloned());
                    break;
                }
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    let people = active_people(workspace, &names, lookup)?;
    Ok(Page { people, rest })
}

/// The members of each recipient; empty for a user.
fn members_of_all(
    workspace: &Workspace,
    left: &[Recipient],
    after: Option<&UserName>,
    lookup: LookupFn<'_>,
) -> Result<Vec<Vec<UserName>>, Undecided> {
    let need = |(place, recipient): (usize, &Recipient)| {
        let Recipient::Role(role) = recipient else {
            return None;
        };
        Some(Need::Members {
            workspace: workspace.clone(),
            role: role.clone(),
            after: after.filter(|_| place == 0).cloned(),
            limit: PAGE,
        })
    };
    let needs: Vec<_> = left.iter().enumerate().map(need).collect();
    let is_role: Vec<_> = needs.iter().map(Option::is_some).collect();
    let mut found = load_all(needs.into_iter().flatten(), lookup, Fact::try_as_names)?.into_iter();
    let members = |is_role| {
        if is_role {
            found.next().flatten()
        } else {
            None
        }
    };
    let all = is_role.into_iter().map(members);
    Ok(all.map(Option::unwrap_or_default).collect())
}

/// The recipients after which nobody was reached get the owners, unless these were tried.
#[must_use]
pub(crate) fn owners_instead_of(tried: &[Recipient]) -> FanOutProgress {
    match Recipient::owners() {
        Some(owners) if tried != [owners.clone()] => FanOutProgress::to(vec![owners]),
        Some(_) | None => FanOutProgress::Done,
    }
}

/// The people of these names who exist and are active.
fn active_people(
    workspace: &Workspace,
    names: &[UserName],
    lookup: LookupFn<'_>,
) -> Result<Vec<Person>, Undecided> {
    let needs = names
        .iter()
        .map(|name| Need::Person(workspace.clone(), name.clone()));
    let people = load_all(needs, lookup, Fact::try_as_person)?.into_iter();
    Ok(people.flatten().filter(|person| person.active).collect())
}

/// The person of this name, if they exist and are active.
pub(crate) fn active_person(
    workspace: &Workspace,
    name: &UserName,
    lookup: LookupFn<'_>,
) -> Result<Option<Person>, Undecided> {
    let need = Need::Person(workspace.clone(), name.clone());
    Ok(load(need, lookup, Fact::try_as_person)?.filter(|person| person.active))
}

pub(crate) fn request_lifecycle(
    workspace: &Workspace,
    hold: HoldId,
    lookup: LookupFn<'_>,
) -> Result<RequestLifecycle, Undecided> {
    let need = Need::RequestLifecycle(workspace.clone(), hold);
    Ok(load(need, lookup, Fact::try_as_request_lifecycle)?.unwrap_or_default())
}

/// Whether the contact of the request's run is erased.
pub(crate) fn is_erased(
    workspace: &Workspace,
    hold: HoldId,
    lookup: LookupFn<'_>,
) -> Result<bool, Undecided> {
    let need = Need::IsErased(workspace.clone(), hold);
    Ok(load(need, lookup, Fact::try_as_is_erased)?.unwrap_or_default())
}

pub(crate) fn subscriptions(
    workspace: &Workspace,
    lookup: LookupFn<'_>,
) -> Result<Vec<Subscription>, Undecided> {
    let need = Need::Webhooks(workspace.clone());
    Ok(load(need, lookup, Fact::try_as_webhooks)?.unwrap_or_default())
}
