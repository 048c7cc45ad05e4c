//! The next page of an event's fan-out: first its recipients, and after them its watchers.
//!
//! A person who has an inbox entry keeps it, so a repeated page notifies nobody twice.

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_ids::UserName;

use super::notification_view::{asks_a_person, type_of};
use super::recipients::{Page, owners_instead_of, recipient_page, request_lifecycle, watcher_page};
use crate::domain::decision::{Decision, LookupFn, Outcome, Undecided, both, decided};
use crate::domain::effect::{Effect, NewDeliveries, NewInboxEntries, Reply};
use crate::domain::model::{
    FanOutProgress, NotificationEvent, PlannedDelivery, Recipient, Subject,
};
use crate::domain::need::Person;

pub(crate) fn continue_fan_out(
    event: &NotificationEvent,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    match &event.fan_out {
        FanOutProgress::NotStarted | FanOutProgress::Done => Ok(Outcome::Unchanged(Reply::Done)),
        FanOutProgress::Recipients { left, after } => {
            let page = recipient_page(&event.workspace, left, after.as_ref(), lookup);
            // The first watchers are requested with the recipients, because rounds are few.
            let watching = watcher_page(event, None, lookup);
            let (is_settled, (page, watching)) =
                both(is_settled(event, lookup), both(page, watching))?;
            Ok(notify_recipients(
                event,
                left,
                Found {
                    page,
                    watching,
                    is_settled,
                },
                now,
            ))
        }
        FanOutProgress::Watchers { after } => {
            let page = watcher_page(event, after.as_ref(), lookup);
            let (is_settled, page) = both(is_settled(event, lookup), page)?;
            let mut next = next_version(event);
            next.fan_out = page.rest;
            let effects = notify_watchers(event, page.people, is_settled, now);
            Ok(decided(next, effects, Reply::Done))
        }
    }
}

struct Found {
    page: Page,
    watching: Page,
    is_settled: bool,
}

fn notify_recipients(
    event: &NotificationEvent,
    left: &[Recipient],
    Found {
        page,
        watching,
        is_settled,
    }: Found,
    now: DateTime<Utc>,
) -> Outcome {
    let Page { mut people, rest } = page;
    if event.needs_look() {
        people.retain(|person| person.may_look);
    }
    let mut next = next_version(event);
    next.fan_out = rest;
    next.notified += u64::try_from(people.len()).unwrap_or(u64::MAX);
    // A person must act on an open request or a notice. The end of a request asks nothing of the owners, and a mention is
    // for the named users alone.
    let asks_nothing = event.is_request_end() || event.is_mention();
    if next.fan_out == FanOutProgress::Done && next.notified == 0 && !asks_nothing {
        next.fan_out = owners_instead_of(left);
    }
    let leaves = |person: &&Person| !is_settled && leaves_application(event, person);
    let mut effects = deliver(event, people.iter().filter(leaves), now);
    effects.extend(add_entries(event, &people, is_settled, false));
    if next.fan_out == FanOutProgress::Done {
        next.fan_out = watching.rest;
        effects.extend(notify_watchers(event, watching.people, is_settled, now));
    }
    decided(next, effects, Reply::Done)
}

/// Watchers of a request are notified in the application only. Watchers of a run may be notified through a
/// channel too, if they may still look at runs.
pub(crate) fn notify_watchers(
    event: &NotificationEvent,
    mut people: Vec<Person>,
    is_settled: bool,
    now: DateTime<Utc>,
) -> Vec<Effect> {
    match &event.subject {
        Subject::Request { .. } => {
            let entries = add_entries(event, &people, is_settled, true);
            entries.into_iter().collect()
        }
        Subject::RunEnd(_) => {
            people.retain(|person| person.may_look);
            let entries = add_entries(event, &people, is_settled, false);
            let deliveries = deliver(event, people.iter(), now);
            entries.into_iter().chain(deliveries).collect()
        }
        Subject::Contact { .. } | Subject::System(_) => Vec::new(),
    }
}

fn next_version(event: &NotificationEvent) -> NotificationEvent {
    let mut next = event.clone();
    next.version += 1;
    next
}

/// Whether the event asks no action any more.
fn is_settled(event: &NotificationEvent, lookup: LookupFn<'_>) -> Result<bool, Undecided> {
    let Some(request) = event.as_request().filter(|_| !event.is_mention()) else {
        return Ok(false);
    };
    let lifecycle = request_lifecycle(&event.workspace, request.id, lookup)?;
    Ok(lifecycle.is_settled(request.rev))
}

/// The deliveries of people, each through the first channel that the person wants.
fn deliver<'p>(
    event: &NotificationEvent,
    people: impl Iterator<Item = &'p Person>,
    now: DateTime<Utc>,
) -> Vec<Effect> {
    let priority = event.priority();
    let first = |person| PlannedDelivery::to_person(person, priority, Vec::new(), now);
    let to: Vec<_> = people.filter_map(first).collect();
    if to.is_empty() {
        return Vec::new();
    }
    vec![Effect::Deliver(NewDeliveries {
        workspace: event.workspace.clone(),
        id: event.id(),
        priority,
        to,
    })]
}

fn add_entries(
    event: &NotificationEvent,
    people: &[Person],
    is_settled: bool,
    watching: bool,
) -> Option<Effect> {
    let is_read = is_settled && !event.is_request_end();
    let is_reminder = |kind| kind == RequestEventKind::Escalated;
    (!people.is_empty()).then(|| {
        Effect::AddInboxEntries(NewInboxEntries {
            workspace: event.workspace.clone(),
            id: event.id(),
            people: people
                .iter()
                .map(|user| user.name.clone())
                .collect::<Vec<UserName>>(),
            at: event.at(),
            read_at: is_read.then(|| event.at()),
            watching,
            renews: event
                .as_request()
                .is_some_and(|request| is_reminder(request.kind)),
        })
    })
}

/// Whether a recipient is notified outside of the application, too: they are asked to act, and did not take
/// it themselves. What they ask of themselves leaves, because a script of theirs may have asked.
///
/// Events of a contact leave for its owner only. The workspace's owners, who take their place, see them in the application.
fn leaves_application(event: &NotificationEvent, person: &Person) -> bool {
    if let Some(contact) = event.as_contact() {
        return Recipient::parse_all(&contact.to).contains(&Recipient::User(person.name.clone()));
    }
    let Some(request) = event.as_request() else {
        return false;
    };
    let has_acted = request.by.as_deref() == Some(person.name.as_str());
    let knows = has_acted && request.kind != RequestEventKind::Opened;
    !knows && type_of(request).is_some_and(asks_a_person)
}
