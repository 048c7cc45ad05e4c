//! `record_request_events`: the handoff service reports a change of a request.
//!
//! The event is stored, webhooks are called at once, and the fan-out sweep notifies people page by page.

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::{EventRecorded, RequestEvent, RequestEventKind};
use holdpoint_ids::{HoldId, Workspace};

use crate::domain::decision::{Decision, LookupFn, Outcome, Undecided, both, decided, with_fact};
use crate::domain::effect::{Effect, NewDeliveries, Reply};
use crate::domain::model::{
    DeliveryTarget, FanOutProgress, NotificationEvent, PlannedDelivery, Subject,
    erase_request_event,
};
use crate::domain::need::{Fact, Need};
use crate::domain::rules::call_summary::omit_large_args;
use crate::domain::rules::context_summary::context_summary;
use crate::domain::rules::recipients::{
    is_covered, is_erased, request_lifecycle, request_recipients, subscriptions, watchers,
};
use crate::domain::rules::webhook_backlog::plan_calls;

/// Records an event that is not stored yet.
pub(crate) fn record_request_event(
    workspace: &Workspace,
    event: &RequestEvent,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    if event.request.erased_at.is_some() {
        return Ok(record_erased(workspace, event));
    }
    let lifecycle = request_lifecycle(workspace, event.id, lookup);
    let loaded = both(lifecycle, subscriptions(workspace, lookup));
    let ((mut lifecycle, webhooks), is_covered) =
        both(loaded, is_covered(workspace, event, lookup))?;
    let is_late = lifecycle.ended.is_some_and(|ended| ended > event.rev);
    if is_late && is_erased(workspace, event.id, lookup)? {
        let mut erased = event.clone();
        erase_request_event(&mut erased, now);
        return Ok(record_erased(workspace, &erased));
    }
    let reopened = event.kind == RequestEventKind::Opened && lifecycle.opened.is_some();
    lifecycle.record(event.kind, event.rev);
    let subject = Subject::Request {
        event: Box::new(without_details(event)),
        reopened,
    };
    let fan_out = if is_covered {
        FanOutProgress::Done
    } else {
        begin_fan_out(workspace, event, &subject, lookup)?
    };
    let new = NotificationEvent::new(workspace, subject, fan_out);
    let (id, priority) = (new.id(), new.priority());
    let mut effects = Vec::new();
    if new.fan_out.is_pending() {
        effects.push(Effect::ContinueFanOut);
    }
    let has_ended = event.kind.is_end() && lifecycle.has_ended();
    // After a take-over the request asks nothing of the others.
    if has_ended || event.kind == RequestEventKind::TakenOver {
        effects.push(Effect::ReadRequestEntries {
            workspace: workspace.clone(),
            hold: event.id,
        });
    }
    let calls = plan_calls(workspace, webhooks, |webhook| webhook.wants(event), now);
    let is_called_back = event.kind.is_end() && event.request.callback.is_some();
    let callback = is_called_back.then(|| PlannedDelivery::at_once(DeliveryTarget::Callback, now));
    let to: Vec<_> = callback.into_iter().chain(calls.deliveries).collect();
    if !to.is_empty() {
        effects.push(Effect::Deliver(NewDeliveries {
            workspace: workspace.clone(),
            id,
            priority,
            to,
        }));
    }
    effects.extend(calls.notices);
    if has_ended {
        effects.push(Effect::NotifyChatsOfEnd {
            workspace: workspace.clone(),
            id,
            priority,
        });
    }
    let need = Need::RequestLifecycle(workspace.clone(), event.id);
    let lifecycle = (need, Fact::RequestLifecycle(lifecycle));
    let replaced = match new.notified_for() {
        Some(first) => Some(notified_by(workspace, first, event.id, lookup)?),
        None => None,
    };
    Ok(with_fact(
        new,
        effects,
        Reply::EventRecorded(EventRecorded::Stored),
        [lifecycle].into_iter().chain(replaced).chain(calls.fact),
    ))
}

fn begin_fan_out(
    workspace: &Workspace,
    event: &RequestEvent,
    subject: &Subject,
    lookup: LookupFn<'_>,
) -> Result<FanOutProgress, Undecided> {
    let recipients = request_recipients(event);
    if !recipients.is_empty() {
        return Ok(FanOutProgress::to(recipients));
    }
    let has_watchers = !watchers(workspace, subject, None, lookup)?.is_empty();
    Ok(if has_watchers {
        FanOutProgress::Watchers { after: None }
    } else {
        FanOutProgress::Done
    })
}

/// What later decisions of the batch read of a request whose notification another one replaces.
fn notified_by(
    workspace: &Workspace,
    first: HoldId,
    by: HoldId,
    lookup: LookupFn<'_>,
) -> Result<(Need, Fact), Undecided> {
    let mut lifecycle = request_lifecycle(workspace, first, lookup)?;
    lifecycle.notified_by = Some(by);
    let need = Need::RequestLifecycle(workspace.clone(), first);
    Ok((need, Fact::RequestLifecycle(lifecycle)))
}

/// Stores an event of a request whose contact is erased, and erases all its notifications. It notifies no user.
fn record_erased(workspace: &Workspace, event: &RequestEvent) -> Outcome {
    let subject = Subject::Request {
        event: Box::new(without_details(event)),
        reopened: false,
    };
    let erase = Effect::EraseHold {
        workspace: workspace.clone(),
        hold: event.id,
    };
    let new = NotificationEvent::new(workspace, subject, FanOutProgress::Done);
    let reply = Reply::EventRecorded(EventRecorded::Stored);
    decided(new, vec![erase], reply)
}

/// The stored part of an event. Its context becomes a few lines, and large arguments of a call are left out; the
/// request itself has all of it.
fn without_details(event: &RequestEvent) -> RequestEvent {
    let mut event = event.clone();
    event.request.context = context_summary(&event.request.context).into();
    event.request.items.iter_mut().for_each(omit_large_args);
    event.request.history.clear();
    event.request.late.clear();
    event
}
