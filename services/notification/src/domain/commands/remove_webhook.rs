//! `remove_webhook`: an administrator removes a webhook.

use crate::domain::decision::{Decision, decided};
use crate::domain::model::{Webhook, WebhookState};
use crate::domain::refusal::Refusal;
use crate::domain::reply::Reply;

/// Removes a webhook and forgets its secret. A removed webhook is not found.
pub(crate) fn remove_webhook(known: &Webhook) -> Decision {
    if known.state == WebhookState::Removed {
        return Err(Refusal::NoWebhook(known.id).into());
    }
    let next = Webhook {
        version: known.version + 1,
        state: WebhookState::Removed,
        secret: String::new(),
        ..known.clone()
    };
    let reply = Reply::Webhook(Box::new(next.view()));
    Ok(decided(next, Vec::new(), reply))
}
