//! What the person who added a webhook is notified of.

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_ids::{HoldId, NotificationId, RunId};

use super::notification_text::headline;
use crate::domain::effect::Effect;
use crate::domain::model::{
    FanOutProgress, NotificationEvent, Recipient, Subject, SystemNotice, Webhook,
};

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
pub(crate) fn backlog_notice(webhook: &Webhook, reason: &str, now: DateTime<Utc>) -> Vec<Effect> {
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
