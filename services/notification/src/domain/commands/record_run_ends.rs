//! `record_run_ends`: the executor reports the end of a run that a person watches or a webhook wants (S0-T4),
//! or the end of one before a person began to watch it.

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::{RunEndRecorded, RunEnded};
use holdpoint_ids::Workspace;

use crate::domain::decision::{
    Decision, Lookup, LookupFn, Outcome, Undecided, both, decided, with_fact,
};
use crate::domain::effect::{Effect, NewDeliveries, Reply};
use crate::domain::model::{
    Aggregate, DeliveryRules, EventKey, FanOutProgress, NotificationEvent, Subject, Watch,
};
use crate::domain::need::{Need, Person};
use crate::domain::rules::fan_out::notify_watchers;
use crate::domain::rules::recipients::{active_person, subscriptions, watchers};
use crate::domain::rules::webhook_backlog::plan_calls;

/// Records an end. Watchers are notified page by page, and webhooks at once. An end that is not wanted is not
/// stored; if no end is wanted, the executor learns that it need not report any.
pub(crate) fn record_run_end(
    known: Option<&NotificationEvent>,
    workspace: &Workspace,
    end: &RunEnded,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    if end.erased {
        return Ok(erase_run_end(workspace, end));
    }
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

/// The contact of the run is erased: all notifications of its ends are.
fn erase_run_end(workspace: &Workspace, end: &RunEnded) -> Outcome {
    let erase = Effect::EraseHold {
        workspace: workspace.clone(),
        hold: EventKey::of_run_end(workspace, end).hold,
    };
    let reply = Reply::RunEndRecorded(RunEndRecorded::Known);
    decided(Aggregate::Stateless, vec![erase], reply)
}

/// The executor replies that a run had ended before a person began to watch it. The person is notified at once,
/// and the watch ends.
pub(crate) fn run_ended_before(
    watch: &Watch,
    end: &RunEnded,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    if watch.since.is_none() {
        return Ok(Outcome::Unchanged(Reply::Done));
    }
    let people: Vec<_> = watching_person(watch, lookup)?.into_iter().collect();
    let subject = Subject::RunEnd(Box::new(end.clone()));
    // A later report of the executor still has to reach the watchers of the agent.
    let event = NotificationEvent::new(&watch.workspace, subject, FanOutProgress::NotStarted);
    let mut effects = notify_watchers(&event, people, false, now);
    if !effects.is_empty() {
        effects.insert(0, Effect::StoreEvent(Box::new(event)));
    }
    Ok(decided(watch.changed(None), effects, Reply::Done))
}

/// The watching person, unless they are disabled. The user directory may lag behind and not know a new user,
/// whom the gateway knew. They are notified in the application only, because the run ends only once.
fn watching_person(watch: &Watch, lookup: LookupFn<'_>) -> Result<Option<Person>, Undecided> {
    let need = Need::Person(watch.workspace.clone(), watch.person.clone());
    if lookup(&need) == Lookup::Missing {
        return Ok(Some(Person {
            name: watch.person.clone(),
            active: true,
            has_mail: false,
            may_look: true,
            rules: DeliveryRules::default(),
        }));
    }
    active_person(&watch.workspace, &watch.person, lookup)
}
