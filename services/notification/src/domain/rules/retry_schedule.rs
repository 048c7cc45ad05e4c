//! When a failed delivery is attempted again.

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::PendingReason;

use super::channel_fallback::{delivery_changed, delivery_failed, has_other_channel};
use crate::domain::decision::{Decision, LookupFn};
use crate::domain::model::{Delivery, Phase};

/// Seconds between attempts, as Standard Webhooks recommends. The last attempt is after about three days.
const RETRIES_S: [i64; 9] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];

/// After these attempts a delivery has failed.
pub const TRIES_MAX: u32 = 10;

/// From this priority on, a person does not wait for a broken channel while another one works.
const URGENT: Priority = Priority::Urgent;

/// How long an urgent delivery is attempted through one channel.
pub(crate) const FALLBACK_AFTER: TimeDelta = TimeDelta::minutes(10);

/// Schedules the next attempt. The pauses grow. An urgent delivery changes its channel after a while, if its
/// person has another one.
pub(crate) fn retry_later(
    delivery: &Delivery,
    error: &str,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let tried = usize::try_from(delivery.attempts).unwrap_or(usize::MAX);
    let Some(seconds) = RETRIES_S.get(tried.saturating_sub(1)) else {
        return delivery_failed(delivery, error, lookup, now);
    };
    let mut next_at = now + TimeDelta::seconds(*seconds);
    if delivery.priority >= URGENT && has_other_channel(delivery, lookup)? {
        let last = delivery.at + FALLBACK_AFTER;
        if now >= last {
            return delivery_failed(delivery, error, lookup, now);
        }
        next_at = next_at.min(last);
    }
    let waits = PendingReason::Retry;
    let next = delivery.with_phase(Phase::Pending { next_at, waits }, error);
    Ok(delivery_changed(next, Vec::new()))
}
