//! `add_webhook`: an administrator adds a webhook. A repetition gets the same reply.

use std::sync::Arc;

use holdpoint_contracts::notification::WebhookAdded;

use super::watch_run_ends::ask_for_ends;
use crate::domain::decision::{Decision, LookupFn, Outcome, with_fact};
use crate::domain::effect::Reply;
use crate::domain::model::{Subscription, WEBHOOKS_MAX, Webhook};
use crate::domain::need::{Fact, Need};
use crate::domain::refusal::Refusal;
use crate::domain::rules::recipients::subscriptions;

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
