//! `add_webhook`, `change_webhook`, `remove_webhook` and `show_webhook_secret`: commands of administrators.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::RunEndsOf;
use holdpoint_contracts::notification::{WebhookAdded, WebhookSecretView};
use holdpoint_ids::Workspace;

use crate::domain::decision::{Decision, LookupFn, Outcome, decided, with_fact};
use crate::domain::effect::{Effect, Reply};
use crate::domain::model::{
    EndsFor, Secret, Subscription, WEBHOOKS_MAX, Webhook, WebhookConfig, WebhookState,
};
use crate::domain::need::{Fact, Need};
use crate::domain::refusal::Refusal;
use crate::domain::rules::recipients::subscriptions;

/// Adds a webhook. A repetition gets the same reply.
pub(crate) fn add_webhook(
    known: Option<&Webhook>,
    new: &Webhook,
    lookup: LookupFn<'_>,
) -> Decision {
    let reply = |webhook: &Webhook| {
        Reply::WebhookAdded(Box::new(WebhookAdded {
            webhook: webhook.view(),
            secret: webhook.secret.clone(),
        }))
    };
    if let Some(known) = known {
        return Ok(Outcome::Unchanged(reply(known)));
    }
    let mut all = subscriptions(&new.workspace, lookup)?;
    if all.len() >= WEBHOOKS_MAX {
        return Err(Refusal::TooManyWebhooks.into());
    }
    all.push(Subscription {
        webhook: Arc::new(new.clone()),
        pending: 0,
    });
    let fact = (Need::Webhooks(new.workspace.clone()), Fact::Webhooks(all));
    let effects = ask_for_ends(new).into_iter().collect();
    Ok(with_fact(new.clone(), effects, reply(new), [fact]))
}

/// Changes a webhook. Its failures are forgotten if it gets another address or is enabled again.
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

/// A webhook asks again for the reports of run ends (Mend C-10). A repetition is a new revision: the executor may have forgotten the one
/// that it acknowledged.
pub(crate) fn watch_run_ends(known: &Webhook) -> Outcome {
    let next = Webhook {
        version: known.version + 1,
        ..known.clone()
    };
    let Some(effect) = ask_for_ends(&next) else {
        return Outcome::Unchanged(Reply::Done);
    };
    decided(next, vec![effect], Reply::Done)
}

fn ask_for_ends(webhook: &Webhook) -> Option<Effect> {
    webhook.wants_ends().then(|| Effect::WatchRunEnds {
        workspace: webhook.workspace.clone(),
        by: EndsFor::Webhook(webhook.id),
        of: RunEndsOf::All,
        rev: webhook.version,
    })
}

/// `show_webhook_secret`: the key that signs callbacks. It is made on first use.
pub(crate) fn show_secret(known: Option<&Secret>, workspace: &Workspace, fresh: &str) -> Outcome {
    let text = known.map_or(fresh, |known| &known.text).to_owned();
    let reply = Reply::Secret(WebhookSecretView {
        secret: text.clone(),
    });
    if known.is_some() {
        return Outcome::Unchanged(reply);
    }
    let workspace = workspace.clone();
    decided(Secret { workspace, text }, Vec::new(), reply)
}
