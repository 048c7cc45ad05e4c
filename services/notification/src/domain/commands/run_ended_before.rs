//! The executor replies that a run had ended before a person began to watch it. The person is notified at
//! once, and the watch ends.

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::RunEnded;

use crate::domain::decision::{Decision, Lookup, LookupFn, Outcome, Undecided, decided};
use crate::domain::effect::{Effect, Reply};
use crate::domain::model::{DeliveryRules, FanOutProgress, NotificationEvent, Subject, Watch};
use crate::domain::need::{Need, Person};
use crate::domain::rules::fan_out::notify_watchers;
use crate::domain::rules::recipients::active_person;

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
