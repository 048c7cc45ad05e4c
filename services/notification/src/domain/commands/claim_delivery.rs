//! The delivery sweep claims a due delivery: it is dispatched to this process under a lease.

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::notification::PendingReason;

use crate::domain::decision::{Decision, LookupFn, Outcome};
use crate::domain::effect::{Effect, Reply};
use crate::domain::model::{Delivery, Phase};
use crate::domain::rules::channel_fallback::{
    delivery_changed, delivery_failed, delivery_unwanted,
};
use crate::domain::rules::recipients::active_person;
use crate::domain::rules::retry_schedule::TRIES_MAX;

/// How long a dispatch is leased; longer than any attempt takes.
pub(crate) const LEASE: TimeDelta = TimeDelta::minutes(2);

/// Why a delivery to a person is dropped.
pub const PERSON_GONE: &str = "The person is disabled or gone.";

/// Dispatches a delivery that is due and not leased. If its person does not want it through this channel or
/// not now, it leaves through another one, or later.
pub(crate) fn claim_delivery(
    delivery: &Delivery,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    if delivery
        .phase
        .as_pending()
        .is_none_or(|(next_at, _)| next_at > now)
    {
        return Ok(Outcome::Unchanged(Reply::Done));
    }
    if let Some(name) = delivery.key.to.name() {
        let Some(person) = active_person(&delivery.key.workspace, name, lookup)? else {
            let next = delivery.with_phase(Phase::Dropped, PERSON_GONE);
            return Ok(delivery_changed(next, Vec::new()));
        };
        let channel = delivery.key.to.person().map(|(_, channel)| channel);
        if channel.is_some_and(|channel| !person.rules.wants(channel, delivery.priority)) {
            return delivery_unwanted(delivery, lookup, now);
        }
        if let Some(next_at) = person.rules.held_until(delivery.priority, now) {
            let waits = PendingReason::QuietHours;
            return Ok(pending(delivery, Phase::Pending { next_at, waits }, None));
        }
    }
    if delivery.attempts >= TRIES_MAX {
        let error = delivery.last_error.as_deref();
        let error = error.unwrap_or("No attempt was reported.");
        return delivery_failed(delivery, error, lookup, now);
    }
    let leased = Phase::Pending {
        next_at: now + LEASE,
        waits: PendingReason::Answer,
    };
    Ok(pending(delivery, leased, Some(delivery.attempts + 1)))
}

/// The delivery stays pending; an attempt is sent.
fn pending(delivery: &Delivery, phase: Phase, attempt: Option<u32>) -> Outcome {
    let next = Delivery {
        phase,
        attempts: attempt.unwrap_or(delivery.attempts),
        version: delivery.version + 1,
        ..delivery.clone()
    };
    let key = next.key.clone();
    let send = attempt.map(|attempt| Effect::Send { key, attempt });
    delivery_changed(next, send.into_iter().collect())
}
