//! How many deliveries may be pending for one webhook, and what happens at the limit.

use chrono::{DateTime, Utc};
use holdpoint_ids::Workspace;

use super::webhook_notices::backlog_notice;
use crate::domain::effect::Effect;
use crate::domain::model::{DeliveryTarget, PlannedDelivery, Subscription, Webhook};
use crate::domain::need::{Fact, Need};

/// Pending deliveries of one webhook. A further one is stored as dropped, and the person who added the webhook
/// is notified once.
pub(crate) const PENDING_DELIVERIES_MAX: u64 = 10_000;

const REASON: &str = "the webhook is too far behind: 10,000 deliveries are pending";

pub(crate) struct WebhookCalls {
    pub(crate) deliveries: Vec<PlannedDelivery>,
    pub(crate) notices: Vec<Effect>,
    /// The new backlogs, for later decisions of the batch.
    pub(crate) fact: Option<(Need, Fact)>,
}

/// Plans the calls of the webhooks that want an event.
pub(crate) fn plan_calls(
    workspace: &Workspace,
    mut all: Vec<Subscription>,
    wants: impl Fn(&Webhook) -> bool,
    now: DateTime<Utc>,
) -> WebhookCalls {
    let (mut deliveries, mut notices) = (Vec::new(), Vec::new());
    for one in all.iter_mut().filter(|one| wants(&one.webhook)) {
        let mut delivery = PlannedDelivery::at_once(DeliveryTarget::Webhook(one.webhook.id), now);
        if one.pending < PENDING_DELIVERIES_MAX {
            one.pending += 1;
        } else {
            delivery.dropped = Some(REASON.to_owned());
            notices.extend(backlog_notice(&one.webhook, REASON, now));
        }
        deliveries.push(delivery);
    }
    let has_changed = !deliveries.is_empty();
    WebhookCalls {
        deliveries,
        notices,
        fact: has_changed.then(|| (Need::Webhooks(workspace.clone()), Fact::Webhooks(all))),
    }
}
