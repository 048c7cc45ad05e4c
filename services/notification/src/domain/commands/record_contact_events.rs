//! `record_contact_events`: the executor reports that a contact was created, that a deal was won or lost, or that a contact
//! is erased (S0-T4).

use chrono::{DateTime, DurationRound as _, TimeDelta, Utc};
use holdpoint_contracts::notification::{ContactEvent, ContactEventKind, EventRecorded};
use holdpoint_ids::{HoldId, Workspace};

use crate::domain::decision::{Decision, LookupFn, Outcome, Undecided, both, load, with_fact};
use crate::domain::effect::{Effect, Reply};
use crate::domain::model::{FanOutProgress, NotificationEvent, Recipient, Subject};
use crate::domain::need::{Fact, Need};

/// Events of one kind that users of a workspace are notified of in one hour of the clock. More are stored only: an
/// import of thousands of contacts must not flood an inbox.
pub(crate) const NOTIFIED_PER_HOUR: u64 = 100;

/// Records an event that is not stored yet. Users are notified page by page.
pub(crate) fn record_contact_event(
    workspace: &Workspace,
    event: &ContactEvent,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    if event.kind == ContactEventKind::ContactErased {
        return Ok(record_erasure(workspace, event));
    }
    let last_erasure = Need::LastErasure(workspace.clone(), HoldId::of_contact(&event.contact));
    let in_this_hour = Need::ContactEvents {
        workspace: workspace.clone(),
        kind: event.kind,
        since: hour_of(now),
        most: NOTIFIED_PER_HOUR,
    };
    let (last_erasure, before) = both(
        count(last_erasure, lookup),
        count(in_this_hour.clone(), lookup),
    )?;
    // The event was on its way when the contact was erased.
    if event.number() < last_erasure {
        let reply = Reply::EventRecorded(EventRecorded::Known);
        return Ok(Outcome::Unchanged(reply));
    }
    let (fan_out, effects) = if before < NOTIFIED_PER_HOUR {
        let to = Recipient::parse_all(&event.to);
        (FanOutProgress::to(to), vec![Effect::ContinueFanOut])
    } else {
        (FanOutProgress::Done, Vec::new())
    };
    let subject = Subject::Contact {
        event: Box::new(event.clone()),
        is_last: before + 1 == NOTIFIED_PER_HOUR,
        erased: false,
    };
    let new = NotificationEvent::new(workspace, subject, fan_out);
    let reply = Reply::EventRecorded(EventRecorded::Stored);
    let counted = (in_this_hour, Fact::Count(before + 1));
    Ok(with_fact(new, effects, reply, [counted]))
}

/// Empties all notifications of the contact. The stored event is what later events of earlier versions are compared with.
fn record_erasure(workspace: &Workspace, event: &ContactEvent) -> Outcome {
    let hold = HoldId::of_contact(&event.contact);
    let subject = Subject::Contact {
        event: Box::new(event.clone()),
        is_last: false,
        erased: true,
    };
    let new = NotificationEvent::new(workspace, subject, FanOutProgress::Done);
    let erase = Effect::EraseHold {
        workspace: workspace.clone(),
        hold,
    };
    let reply = Reply::EventRecorded(EventRecorded::Stored);
    let erased = Need::LastErasure(workspace.clone(), hold);
    let erased = (erased, Fact::Count(event.number()));
    with_fact(new, vec![erase], reply, [erased])
}

fn count(need: Need, lookup: LookupFn<'_>) -> Result<u64, Undecided> {
    Ok(load(need, lookup, Fact::try_as_count)?.unwrap_or_default())
}

/// The beginning of the hour, so that all decisions of a batch count from the same instant.
fn hour_of(now: DateTime<Utc>) -> DateTime<Utc> {
    now.duration_trunc(TimeDelta::hours(1)).unwrap_or(now)
}
