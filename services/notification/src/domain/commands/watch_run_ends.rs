//! A webhook asks the executor to report the ends of all runs (Mend C-10).

use holdpoint_contracts::executor::RunEndsOf;

use crate::domain::decision::{Outcome, decided};
use crate::domain::effect::{Effect, Reply};
use crate::domain::model::{EndsFor, Webhook};

/// Asks again. A repetition is a new revision: the executor may have forgotten the one that it acknowledged.
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

/// The effect for a webhook that wants run ends.
pub(crate) fn ask_for_ends(webhook: &Webhook) -> Option<Effect> {
    webhook.wants_ends().then(|| Effect::WatchRunEnds {
        workspace: webhook.workspace.clone(),
        by: EndsFor::Webhook(webhook.id),
        of: RunEndsOf::All,
        rev: webhook.version,
    })
}
