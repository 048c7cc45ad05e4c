//! `remove_webhook`: an administrator removes a webhook, and its secret is forgotten. A removed webhook is not found.

use crate::domain::decision::{Decision, decided};
use crate::domain::effect::Reply;
use crate::domain::model::{Webhook, WebhookState};
use crate::domain::refusal::Refusal;

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
