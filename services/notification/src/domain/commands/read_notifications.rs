//! `read_notification` and `read_notifications`: a person marks notifications as read.

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::AllRead;
use holdpoint_ids::{UserName, Workspace};

use crate::domain::decision::{Decision, LookupFn, Outcome, decided, load, with_fact};
use crate::domain::effect::{Effect, Reply};
use crate::domain::model::{Aggregate, InboxEntry};
use crate::domain::need::{Fact, Need};
use crate::domain::rules::notification_view::view;

pub(crate) fn read_notification(entry: &InboxEntry, now: DateTime<Utc>) -> Outcome {
    let next = InboxEntry {
        read_at: entry.read_at.or(Some(now)),
        ..entry.clone()
    };
    let reply = view(&next).map_or(Reply::Done, |view| Reply::Notification(Box::new(view)));
    if entry.read_at.is_some() {
        return Outcome::Unchanged(reply);
    }
    let read = Effect::ReadEntry {
        workspace: entry.workspace.clone(),
        person: entry.person.clone(),
        id: entry.event.id(),
    };
    decided(next, vec![read], reply)
}

/// Marks all unread notifications of a person as read, up to a change.
pub(crate) fn read_notifications(
    workspace: &Workspace,
    person: &UserName,
    until: Option<u64>,
    lookup: LookupFn<'_>,
) -> Decision {
    let need = Need::Unread {
        workspace: workspace.clone(),
        person: person.clone(),
        until,
    };
    let read = load(need.clone(), lookup, Fact::try_as_count)?.unwrap_or(0);
    let reply = Reply::AllRead(AllRead { read });
    if read == 0 {
        return Ok(Outcome::Unchanged(reply));
    }
    let effect = Effect::ReadAllEntries {
        workspace: workspace.clone(),
        person: person.clone(),
        until,
    };
    let fact = [(need, Fact::Count(0))];
    Ok(with_fact(Aggregate::Stateless, vec![effect], reply, fact))
}
