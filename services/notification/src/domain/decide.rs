//! Selects the command of an input.

use chrono::{DateTime, Utc};
use holdpoint_contracts::Problem;
use holdpoint_contracts::notification::{EventRecorded, PendingReason};
use holdpoint_decision::Decider;

use super::commands::add_webhook::add_webhook;
use super::commands::change_webhook::change_webhook;
use super::commands::claim_delivery::claim_delivery;
use super::commands::put_preferences::put_preferences;
use super::commands::read_notifications::{read_notification, read_notifications};
use super::commands::record_attempt::record_attempt;
use super::commands::record_call::record_call;
use super::commands::record_contact_events::record_contact_event;
use super::commands::record_request_events::record_request_event;
use super::commands::record_run_ends::{record_run_end, run_ended_before};
use super::commands::remove_webhook::remove_webhook;
use super::commands::show_webhook_secret::show_secret;
use super::commands::unwatch::unwatch;
use super::commands::watch::watch;
use super::commands::watch_run_ends::watch_run_ends;
use super::decision::{Decision, LookupFn, NotificationDomain, Outcome, decided};
use super::effect::{Effect, Reply};
use super::input::Input;
use super::model::{Aggregate, Key, Watch};
use super::need::{Fact, Need};
use super::refusal::Refusal;
use super::rules::digest::create_digest;
use super::rules::fan_out::continue_fan_out;

impl Decider for NotificationDomain {
    type Key = Key;
    type State = Aggregate;
    type Input = Input;
    type Need = Need;
    type Fact = Fact;
    type Effect = Effect;
    type Refusal = Refusal;
    type Reply = Reply;

    fn key(input: &Input) -> Key {
        input.key()
    }

    fn decide(
        state: Option<&Aggregate>,
        input: &Input,
        lookup: LookupFn<'_>,
        now: DateTime<Utc>,
    ) -> Decision {
        decide(state, input, lookup, now)
    }

    fn aggregate(_: &Need) -> Option<Key> {
        None
    }

    fn fact(_: &Aggregate) -> Option<Fact> {
        None
    }

    fn version(state: &Aggregate) -> u64 {
        match state {
            Aggregate::Event(event) => event.version,
            Aggregate::InboxEntry(entry) => entry.version(),
            Aggregate::Delivery(delivery) => delivery.version,
            Aggregate::Preferences(preferences) => preferences.version,
            Aggregate::Webhook(webhook) => webhook.version,
            Aggregate::Watch(watch) => watch.version,
            Aggregate::Secret(_) | Aggregate::Stateless => 1,
        }
    }

    /// The next page of a pending fan-out and the report of a dispatched delivery come soon. A delivery that
    /// waits longer is read again each time, because changed preferences move its row beside its state.
    fn is_hot(state: &Aggregate) -> bool {
        let is_fanning = state
            .as_event()
            .is_some_and(|event| event.fan_out.is_pending());
        let pending = state.as_delivery().and_then(|one| one.phase.as_pending());
        is_fanning || pending.is_some_and(|(_, waits)| waits == PendingReason::Answer)
    }

    fn problem(refusal: &Refusal) -> Problem {
        refusal.problem()
    }
}

/// Decides what an input does. A sweep or a sender may name a row that is gone by now; that changes nothing.
pub(crate) fn decide(
    state: Option<&Aggregate>,
    input: &Input,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let event = state.and_then(Aggregate::as_event);
    let delivery = state.and_then(Aggregate::as_delivery);
    let preferences = state.and_then(Aggregate::as_preferences);
    let webhook = state.and_then(Aggregate::as_webhook);
    let known_watch = state.and_then(Aggregate::as_watch);
    match input {
        Input::RecordRequestEvent { .. } | Input::RecordContactEvent { .. } if state.is_some() => {
            let reply = Reply::EventRecorded(EventRecorded::Known);
            Ok(Outcome::Unchanged(reply))
        }
        Input::RecordRequestEvent { workspace, event } => {
            record_request_event(workspace, event, lookup, now)
        }
        Input::RecordRunEnd { workspace, end } => {
            record_run_end(event, workspace, end, lookup, now)
        }
        Input::RecordContactEvent { workspace, event } => {
            record_contact_event(workspace, event, lookup, now)
        }
        Input::ContinueFanOut(_) => known(event, |one| continue_fan_out(one, lookup, now)),
        Input::RunEndedBefore { end, .. } => {
            known(known_watch, |one| run_ended_before(one, end, lookup, now))
        }
        Input::ReadNotification { id, .. } => {
            let entry = state.and_then(Aggregate::as_inbox_entry);
            let entry = entry.ok_or(Refusal::NoNotification(*id))?;
            Ok(read_notification(entry, now))
        }
        Input::ReadNotifications {
            workspace,
            person,
            until,
        } => read_notifications(workspace, person, *until, lookup),
        Input::ClaimDelivery(_) => known(delivery, |one| claim_delivery(one, lookup, now)),
        Input::RecordAttempt {
            attempt, report, ..
        } => known(delivery, |one| {
            record_attempt(one, *attempt, report, lookup, now)
        }),
        Input::ShowSecret { workspace, fresh } => {
            let secret = state.and_then(Aggregate::as_secret);
            Ok(show_secret(secret, workspace, fresh))
        }
        Input::PutPreferences { new, fresh } => put_preferences(preferences, new, fresh, now),
        Input::CreateDigest { .. } => known(preferences, |one| Ok(create_digest(one, now))),
        Input::Watch {
            workspace,
            person,
            of,
        } => watch(known_watch, Watch::new(workspace, person, of, now), lookup),
        Input::Unwatch { of, .. } => unwatch(known_watch, of),
        Input::AddWebhook(new) => add_webhook(webhook, new, lookup),
        Input::RemoveWebhook { id, .. } => remove_webhook(webhook.ok_or(Refusal::NoWebhook(*id))?),
        Input::ChangeWebhook {
            id, to, enabled, ..
        } => {
            let webhook = webhook.ok_or(Refusal::NoWebhook(*id))?;
            change_webhook(webhook, to, *enabled, now)
        }
        Input::WatchRunEnds { .. } => known(webhook, |one| Ok(watch_run_ends(one))),
        Input::RecordCall { outcome, .. } => {
            known(webhook, |one| Ok(record_call(one, outcome, now)))
        }
        Input::DeleteExpired { before } => {
            Ok(without_state(Effect::DeleteExpired { before: *before }))
        }
        Input::Users(changes) => Ok(without_state(Effect::Users(changes.clone()))),
    }
}

fn known<'s, T>(state: Option<&'s T>, decide: impl FnOnce(&'s T) -> Decision) -> Decision {
    state.map_or_else(|| Ok(Outcome::Unchanged(Reply::Done)), decide)
}

fn without_state(effect: Effect) -> Outcome {
    decided(Aggregate::Stateless, vec![effect], Reply::Done)
}
