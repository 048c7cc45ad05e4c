//! `record_run_ends`: the executor reports the end of a run that a person watches or a webhook wants (S0-T4).

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::{RunEndRecorded, RunEnded};
use holdpoint_ids::Workspace;

use crate::domain::decision::{Decision, LookupFn, Outcome, both, with_fact};
use crate::domain::effect::{Effect, NewDeliveries, Reply};
use crate::domain::model::{FanOutProgress, NotificationEvent, Subject};
use crate::domain::rules::recipients::{subscriptions, watchers};
use crate::domain::rules::webhook_notices::plan_calls;

/// Records an end. Watchers are notified page by page, and webhooks at once. An end that is not wanted is not
/// stored; if no end is wanted, the executor learns that it need not report any.
pub(crate) fn record_run_end(
    known: Option<&NotificationEvent>,
    workspace: &Workspace,
    end: &RunEnded,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    if known.is_some_and(|known| known.fan_out != FanOutProgress::NotStarted) {
        let reply = Reply::RunEndRecorded(RunEndRecorded::Known);
        return Ok(Outcome::Unchanged(reply));
    }
    let subject = Subject::RunEnd(Box::new(end.clone()));
    let watchers = watchers(workspace, &subject, None, lookup);
    let (watchers, webhooks) = both(watchers, subscriptions(workspace, lookup))?;
    let wants_ends = webhooks.iter().any(|one| one.webhook.wants_ends());
    let calls = plan_calls(workspace, webhooks, |webhook| webhook.wants_end(end), now);
    if watchers.is_empty() && calls.deliveries.is_empty() {
        let recorded = if wants_ends {
            RunEndRecorded::Told
        } else {
            RunEndRecorded::Nobody {
                agent: end.agent.clone(),
                watch: end.watch,
                workspace_watch: end.workspace_watch,
            }
        };
        return Ok(Outcome::Unchanged(Reply::RunEndRecorded(recorded)));
    }
    let mut effects = calls.notices;
    let mut fan_out = FanOutProgress::Done;
    if !watchers.is_empty() {
        fan_out = FanOutProgress::Watchers { after: None };
        effects.push(Effect::ContinueFanOut);
    }
    let mut new = NotificationEvent::new(workspace, subject, fan_out);
    new.version += known.map_or(0, |known| known.version);
    if !calls.deliveries.is_empty() {
        effects.push(Effect::Deliver(NewDeliveries {
            workspace: workspace.clone(),
            id: new.id(),
            priority: new.priority(),
            to: calls.deliveries,
        }));
    }
    Ok(with_fact(
        new,
        effects,
        Reply::RunEndRecorded(RunEndRecorded::Told),
        calls.fact,
    ))
}
