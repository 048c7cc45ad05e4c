//! The sender reports the result of a call to a webhook.

use chrono::{DateTime, TimeDelta, Utc};

use crate::domain::decision::{Outcome, decided};
use crate::domain::effect::{Effect, Reply};
use crate::domain::model::{CallOutcome, ERROR_CHARS_MAX, Webhook, WebhookState};
use crate::domain::rules::webhook_notices::disabled_notice;

/// A webhook that accepts no call for so long is disabled. Longer than all attempts of one delivery.
pub(crate) const DISABLED_AFTER: TimeDelta = TimeDelta::days(5);

/// Records a result. The person who added the webhook is notified when it is disabled.
pub(crate) fn record_call(known: &Webhook, outcome: &CallOutcome, now: DateTime<Utc>) -> Outcome {
    let WebhookState::Active { failing_since } = known.state else {
        return Outcome::Unchanged(Reply::Done);
    };
    let mut next = known.clone();
    next.version += 1;
    match outcome {
        CallOutcome::Accepted if failing_since.is_none() => return Outcome::Unchanged(Reply::Done),
        CallOutcome::Accepted => {
            next.state = WebhookState::Active {
                failing_since: None,
            };
        }
        CallOutcome::Failed(error) => {
            let error: String = error.chars().take(ERROR_CHARS_MAX).collect();
            let since = failing_since.unwrap_or(now);
            let is_over = now - since >= DISABLED_AFTER;
            let is_known = failing_since.is_some() && known.last_error.as_ref() == Some(&error);
            if is_known && !is_over {
                return Outcome::Unchanged(Reply::Done);
            }
            next.last_error = Some(error);
            next.state = if is_over {
                WebhookState::Disabled { since: now }
            } else {
                WebhookState::Active {
                    failing_since: Some(since),
                }
            };
        }
        CallOutcome::Refused(error) => {
            next.last_error = Some(error.chars().take(ERROR_CHARS_MAX).collect());
            next.state = WebhookState::Disabled { since: now };
        }
    }
    let mut effects = if next.is_active() {
        Vec::new()
    } else {
        disabled_notice(&next, now)
    };
    // Retries pause for up to a day. Until they are tried or dropped they count against the bound, so that
    // new events would be dropped although the webhook works again.
    if matches!(outcome, CallOutcome::Accepted) || !next.is_active() {
        effects.push(Effect::RetryWebhook {
            workspace: next.workspace.clone(),
            id: next.id,
        });
    }
    decided(next, effects, Reply::Done)
}
