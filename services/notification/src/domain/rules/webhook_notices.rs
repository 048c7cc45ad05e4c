//! How many deliveries may be pending for a webhook, and what the person who added it is notified of.

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_ids::{HoldId, NotificationId, RunId, Workspace};

use super::notification_text::headline;
use crate::domain::effect::Effect;
use crate::domain::model::{
    DeliveryTarget, FanOutProgress, NotificationEvent, PlannedDelivery, Recipient, Subject,
    Subscription, SystemNotice, Webhook,
};
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

/// The webhook is disabled: why, and what to do. The version at which that happened identifies the notice.
pub(crate) fn disabled_notice(webhook: &Webhook, now: DateTime<Utc>) -> Vec<Effect> {
    let id = webhook.id;
    let why = webhook.last_error.as_deref();
    let message = format!(
        "{} It is not called any more, and later events are not sent to it. Once it accepts calls again, \
         enable it: holdpoint webhooks enable {id}",
        why.unwrap_or("It accepted no call.")
    );
    notify(webhook, webhook.version, "is disabled", message, now)
}

/// The webhook is too far behind, and new deliveries are dropped. There is one notice a configuration.
fn backlog_notice(webhook: &Webhook, reason: &str, now: DateTime<Utc>) -> Vec<Effect> {
    let message = format!(
        "New deliveries are dropped, because {reason}. Check why its calls fail or take long; new events are \
         sent to it again once it has caught up."
    );
    let rev = webhook.configured_version;
    notify(webhook, rev, "is too far behind", message, now)
}

/// Stores a notice for the person who added the webhook, or for the owners if that person is gone.
fn notify(
    webhook: &Webhook,
    rev: u64,
    what: &str,
    message: String,
    at: DateTime<Utc>,
) -> Vec<Effect> {
    let url = url::Url::parse(&webhook.url).ok();
    let host = url.as_ref().and_then(url::Url::host_str);
    let notice = SystemNotice {
        id: NotificationId {
            // No run has the id of a webhook.
            hold: HoldId {
                run: RunId::from_uuid(webhook.id.uuid()),
                number: 0,
            },
            rev: Some(rev),
        },
        title: headline(&format!(
            "Webhook to {} {what}",
            host.unwrap_or("an unknown host")
        )),
        message,
        priority: Priority::High,
        at,
    };
    let event = NotificationEvent::new(
        &webhook.workspace,
        Subject::System(Box::new(notice)),
        FanOutProgress::to(vec![Recipient::User(webhook.created_by.clone())]),
    );
    vec![Effect::StoreEvent(Box::new(event)), Effect::ContinueFanOut]
}
