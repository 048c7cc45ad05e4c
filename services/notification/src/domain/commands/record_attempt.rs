//! The sender reports the result of one attempt to deliver.

use chrono::{DateTime, Utc};

use crate::domain::decision::{Decision, LookupFn, Outcome};
use crate::domain::effect::Reply;
use crate::domain::model::{AttemptReport, Delivery, Phase};
use crate::domain::rules::channel_fallback::{delivery_changed, delivery_failed, delivery_sent};
use crate::domain::rules::retry_schedule::retry_later;

/// Records a result. The report of an earlier attempt counts only if the receiver accepted it.
pub(crate) fn record_attempt(
    delivery: &Delivery,
    attempt: u32,
    report: &AttemptReport,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let is_current = attempt == delivery.attempts;
    if delivery.phase.as_pending().is_none() {
        return Ok(Outcome::Unchanged(Reply::Done));
    }
    match report {
        AttemptReport::Sent { receipt } => delivery_sent(delivery, receipt, lookup, now),
        AttemptReport::Later(error) if is_current => retry_later(delivery, error, lookup, now),
        AttemptReport::Never(error) if is_current => delivery_failed(delivery, error, lookup, now),
        AttemptReport::Dropped(why) if is_current => {
            let next = delivery.with_phase(Phase::Dropped, why);
            Ok(delivery_changed(next, Vec::new()))
        }
        AttemptReport::Later(_) | AttemptReport::Never(_) | AttemptReport::Dropped(_) => {
            Ok(Outcome::Unchanged(Reply::Done))
        }
    }
}
