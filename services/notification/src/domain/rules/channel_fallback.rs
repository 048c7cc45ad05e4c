//! What follows when a delivery ends: the next channel of its person takes over, as long as the event asks for action.
//! A chat that received a request which ended in the meantime is notified of that, too.

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::Channel;
use holdpoint_ids::NotificationId;

use super::recipients::{active_person, request_lifecycle};
use crate::domain::decision::{Decision, LookupFn, Outcome, Undecided, both, decided};
use crate::domain::effect::{Effect, NewDeliveries, Reply};
use crate::domain::model::{Delivery, DeliveryTarget, Phase, PlannedDelivery, RequestLifecycle};
use crate::domain::need::Person;

/// Why a notification is dropped: its request was decided, or is not asked any more.
pub const SETTLED: &str = "No action was needed any more.";

impl PlannedDelivery {
    /// The delivery through the first channel that the person wants and that was not tried, as soon as their
    /// quiet hours allow it. `None`: there is no such channel.
    #[must_use]
    pub fn to_person(
        person: &Person,
        priority: Priority,
        after: Vec<Channel>,
        now: DateTime<Utc>,
    ) -> Option<Self> {
        let channel = person.next_channel(priority, &after)?;
        let to = DeliveryTarget::by(channel, person.name.clone());
        Some(Self {
            after,
            ..Self::after_quiet_hours(to, &person.rules, priority, now)
        })
    }
}

pub(crate) fn delivery_changed(next: Delivery, effects: Vec<Effect>) -> Outcome {
    decided(next, effects, Reply::Done)
}

/// The delivery has failed for good through this channel.
pub(crate) fn delivery_failed(
    delivery: &Delivery,
    error: &str,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let (mut next, mut effects) = (delivery.with_phase(Phase::Failed, error), Vec::new());
    if let Some((person, lifecycle)) = person_and_lifecycle(delivery, lookup)? {
        if is_settled(delivery, lifecycle) {
            next = delivery.with_phase(Phase::Dropped, &format!("{SETTLED} {error}"));
        } else {
            effects = next_channel(delivery, person.as_ref(), now);
        }
    }
    Ok(delivery_changed(next, effects))
}

/// The person does not want it through this channel any more, but perhaps through another one.
pub(crate) fn delivery_unwanted(
    delivery: &Delivery,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let channel = delivery.key.to.channel().as_str();
    let why = format!("The person does not want to be notified of this by {channel}.");
    let effects = match person_and_lifecycle(delivery, lookup)? {
        Some((person, lifecycle)) if !is_settled(delivery, lifecycle) => {
            next_channel(delivery, person.as_ref(), now)
        }
        Some(_) | None => Vec::new(),
    };
    Ok(delivery_changed(
        delivery.with_phase(Phase::Dropped, &why),
        effects,
    ))
}

/// The receiver accepted it. A chat that accepted a request which has ended is notified of the end.
pub(crate) fn delivery_sent(
    delivery: &Delivery,
    receipt: &str,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let mut next = delivery.clone();
    next.version += 1;
    next.phase = Phase::Sent {
        receipt: receipt.to_owned(),
    };
    let mut effects = Vec::new();
    if let DeliveryTarget::Chat(_) = delivery.key.to {
        let key = &delivery.key;
        let lifecycle = request_lifecycle(&key.workspace, key.note.hold, lookup)?;
        let ended = lifecycle.ended.filter(|_| lifecycle.has_ended());
        if let Some(rev) = ended.filter(|rev| key.note.rev.unwrap_or_default() < *rev) {
            let id = NotificationId {
                hold: key.note.hold,
                rev: Some(rev),
            };
            let to = vec![PlannedDelivery::at_once(key.to.clone(), now)];
            effects.push(deliver(delivery, id, to));
        }
    }
    Ok(delivery_changed(next, effects))
}

/// Whether the person has another channel that was not tried.
pub(crate) fn has_other_channel(
    delivery: &Delivery,
    lookup: LookupFn<'_>,
) -> Result<bool, Undecided> {
    let Some((Some(person), _)) = person_and_lifecycle(delivery, lookup)? else {
        return Ok(false);
    };
    let tried = tried(delivery);
    Ok(person.next_channel(delivery.priority, &tried).is_some())
}

/// The person it goes to, and the lifecycle of its request. `None`: it does not go to a person.
fn person_and_lifecycle(
    delivery: &Delivery,
    lookup: LookupFn<'_>,
) -> Result<Option<(Option<Person>, RequestLifecycle)>, Undecided> {
    let key = &delivery.key;
    let Some((name, _)) = key.to.person() else {
        return Ok(None);
    };
    let person = active_person(&key.workspace, name, lookup);
    let lifecycle = request_lifecycle(&key.workspace, key.note.hold, lookup);
    both(person, lifecycle).map(Some)
}

/// Whether its event asks no action any more.
fn is_settled(delivery: &Delivery, lifecycle: RequestLifecycle) -> bool {
    lifecycle.is_settled(delivery.key.note.rev.unwrap_or_default())
}

fn tried(delivery: &Delivery) -> Vec<Channel> {
    let own = delivery.key.to.channel();
    delivery.after.iter().copied().chain([own]).collect()
}

fn next_channel(delivery: &Delivery, person: Option<&Person>, now: DateTime<Utc>) -> Vec<Effect> {
    let next = |person| PlannedDelivery::to_person(person, delivery.priority, tried(delivery), now);
    let to = person.and_then(next).map(|one| vec![one]);
    let effect = to.map(|to| deliver(delivery, delivery.key.note, to));
    effect.into_iter().collect()
}

fn deliver(delivery: &Delivery, id: NotificationId, to: Vec<PlannedDelivery>) -> Effect {
    Effect::Deliver(NewDeliveries {
        workspace: delivery.key.workspace.clone(),
        id,
        priority: delivery.priority,
        to,
    })
}
