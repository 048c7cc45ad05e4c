//! `show_webhook_secret`: the key that signs callbacks. It is made on first use.

use holdpoint_contracts::notification::WebhookSecretView;
use holdpoint_ids::Workspace;

use crate::domain::decision::{Outcome, decided};
use crate::domain::effect::Reply;
use crate::domain::model::Secret;

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
