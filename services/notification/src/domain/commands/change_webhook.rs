//! `change_webhook`: an administrator changes a webhook. Its failures are forgotten if it gets another address or is
//! enabled again.

use chrono::{DateTime, Utc};

use super::watch_run_ends::ask_for_ends;
use crate::domain::decision::{Decision, decided};
use crate::domain::effect::{Effect, Reply};
use crate::domain::model::{Webhook, WebhookConfig, WebhookState};
use crate::domain::refusal::Refusal;

pub(crate) fn change_webhook(
    known: &Webhook,
    to: &WebhookConfig,
    enabled: bool,
    now: DateTime<Utc>,
) -> Decision {
    let is_elsewhere = known.url != to.url;
    let state = match (&known.state, enabled) {
        (WebhookState::Removed, _) => return Err(Refusal::NoWebhook(known.id).into()),
        (WebhookState::Active { failing_since }, true) => WebhookState::Active {
            failing_since: failing_since.filter(|_| !is_elsewhere),
        },
        (WebhookState::Disabled { .. }, true) => WebhookState::Active {
            failing_since: None,
        },
        (WebhookState::Active { .. }, false) => WebhookState::Disabled { since: now },
        (WebhookState::Disabled { since }, false) => WebhookState::Disabled { since: *since },
    };
    let begins_anew = is_elsewhere || enabled && !known.is_active();
    let next = Webhook {
        url: to.url.clone(),
        events: to.events.clone(),
        format: to.format,
        state,
        last_error: known.last_error.clone().filter(|_| !begins_anew),
        configured_version: known.version + 1,
        version: known.version + 1,
        ..known.clone()
    };
    let mut effects: Vec<Effect> = ask_for_ends(&next).into_iter().collect();
    // Its retries are tried at the new address, or dropped if it is not called any more.
    if begins_anew || !next.is_active() {
        effects.push(Effect::RetryWebhook {
            workspace: next.workspace.clone(),
            id: next.id,
        });
    }
    let reply = Reply::Webhook(Box::new(next.view()));
    Ok(decided(next, effects, reply))
}
