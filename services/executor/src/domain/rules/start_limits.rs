//! The limits of a new run: its budget, its place in a queue, its turn, and whether the agent has started for the same
//! contact or key before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdpoint_contracts::run::RunStatus;
use holdpoint_ids::ContactId;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::domain::decision::{Lookup, Undecided};
use crate::domain::expression::{self, Scope};
use crate::domain::model::plan::limits::{Limits, Once, Rate, START_AHEAD_MAX_MS};
use crate::domain::model::plan::write_canonical;
use crate::domain::model::run::{Place, Run, RunBudget, RunLimits, StartTimer, StartTurn};
use crate::domain::model::time::{after, millis_between};
use crate::domain::need::{Fact, Key, Need};
use crate::domain::refusal::Refusal;
use crate::domain::rules::open_hold::next_hold_id;
use crate::domain::transition::RunTransition;

/// Gives a new run its limits. Returns the run that the agent has started for the same contact or key before.
pub(crate) fn limit_start(
    transition: &mut RunTransition<'_>,
    limits: &Limits,
    input: &Value,
) -> Result<Option<Arc<Run>>, Undecided> {
    if *limits == Limits::default() {
        return Ok(None);
    }
    let now = transition.now;
    let once = match &limits.once {
        None => None,
        Some(Once::Contact) => Some(contact_key(transition)?),
        Some(Once::Key(key)) => Some(digest(transition, "once", Some(key), input)?),
    };
    let place = match &limits.concurrency {
        None => None,
        Some(it) => Some(Place {
            key: digest(transition, "concurrency", it.key.as_ref(), input)?,
            runs: it.runs,
            since: now,
            number: None,
        }),
    };
    let rate_key = match &limits.rate {
        None => None,
        Some(it) => Some(digest(transition, "rate", it.key.as_ref(), input)?),
    };
    let (once_key, place_key) = (once.as_ref(), place.as_ref().map(|place| &place.key));
    let needs = [
        once_key.map(|key| Need::StartedOnce(key.clone())),
        place_key.map(|key| Need::Places(key.clone())),
        rate_key.as_ref().map(|key| Need::Starts(key.clone())),
    ];
    load_needs(transition, needs)?;
    let once = match started_run(transition, once_key) {
        // The failed run keeps the key.
        Some(started) if is_ended_sibling(&transition.run, &started) => None,
        Some(started) => return Ok(Some(started)),
        None => once,
    };
    let rate = limits.rate.as_ref().zip(rate_key);
    let rate = rate.map(|(rate, key)| reserve_start(transition, rate, key));
    let rate = rate.transpose()?;
    let budget = limits.budget.clone();
    transition.run.limits = Some(Box::new(RunLimits {
        budget: budget.map(|budget| Box::new(RunBudget::new(budget, now, 0))),
        place,
        rate,
        once,
    }));
    Ok(None)
}

/// Loads all at once, because the kernel loads needs at most four times.
fn load_needs(transition: &RunTransition<'_>, needs: [Option<Need>; 3]) -> Result<(), Undecided> {
    let mut needs: Vec<_> = needs.into_iter().flatten().collect();
    needs.retain(|need| matches!(transition.lookup(need), Lookup::NotLoaded));
    if needs.is_empty() {
        Ok(())
    } else {
        Err(Undecided::NeedsMore(needs))
    }
}

fn started_run(transition: &RunTransition<'_>, key: Option<&String>) -> Option<Arc<Run>> {
    match transition.lookup(&Need::StartedOnce(key?.clone())) {
        Lookup::Found(Fact::StartedRun(run)) => Some(run),
        Lookup::NotLoaded | Lookup::Missing | Lookup::Found(_) => None,
    }
}

/// Whether an earlier attempt of the same step has started the run, and it has not completed. It must not keep the step
/// from being retried.
fn is_ended_sibling(run: &Run, started: &Run) -> bool {
    let step = |run: &Run| {
        let parent = run.parent.as_deref()?;
        Some((parent.hold.run, parent.step.clone()))
    };
    let has_failed = matches!(started.status(), RunStatus::Failed | RunStatus::Cancelled);
    has_failed && step(run).is_some() && step(run) == step(started)
}

/// The next start of the key, and when it is due: `per` after the start that is so many starts before it. A start that
/// is due later has a timer.
fn reserve_start(
    transition: &mut RunTransition<'_>,
    rate: &Rate,
    key: String,
) -> Result<StartTurn, Undecided> {
    let starts = match transition.lookup(&Need::Starts(key.clone())) {
        Lookup::Found(Fact::Starts(starts)) => starts,
        Lookup::NotLoaded | Lookup::Missing | Lookup::Found(_) => Arc::default(),
    };
    let newest = starts.first().copied();
    let before = usize::try_from(rate.starts).ok();
    let before = before.and_then(|count| starts.get(count.checked_sub(1)?));
    let allowed = before.map(|(_, due)| after(*due, rate.per_ms));
    let now = transition.now;
    // Never before an earlier start: the rate may have been lower for that one.
    let due = now
        .max(allowed.unwrap_or(now))
        .max(newest.map_or(now, |(_, due)| due));
    if millis_between(now, due) > START_AHEAD_MAX_MS {
        return Err(Refusal::TooManyStarts(transition.run.agent.clone()).into());
    }
    let timer = (due > now).then(|| {
        let hold = next_hold_id(&mut transition.run);
        transition.timer(hold, Some(due));
        StartTimer {
            hold,
            rev: transition.run.version,
        }
    });
    Ok(StartTurn {
        key,
        number: newest.map_or(1, |(number, _)| number + 1),
        due,
        timer,
        given_up: false,
    })
}

fn contact_key(transition: &RunTransition<'_>) -> Result<String, Undecided> {
    let run = &transition.run;
    let missing = || Refusal::ContactRequired(run.agent.clone());
    let contact: &ContactId = run.contact.as_ref().ok_or_else(missing)?;
    let value = Value::String(contact.to_string());
    Ok(digest_of(transition, "contact", &Value::Null, &value))
}

/// A digest, because a value may be large. Without a key all runs of the agent have the same.
fn digest(
    transition: &RunTransition<'_>,
    field: &'static str,
    key: Option<&Value>,
    input: &Value,
) -> Result<String, Undecided> {
    let run = &transition.run;
    let Some(key) = key else {
        return Ok(digest_of(transition, field, &Value::Null, &Value::Null));
    };
    let contact = run.contact.clone();
    let contact = contact.map(|id| Need::State(Key::Contact(run.workspace.clone(), id)));
    let contact = match contact.map(|need| transition.lookup(&need)) {
        Some(Lookup::Found(Fact::Contact(contact))) => Some(contact),
        Some(Lookup::NotLoaded | Lookup::Missing | Lookup::Found(_)) | None => None,
    };
    let scope = Scope {
        input,
        contact: contact.as_deref(),
        run: &Value::Null,
        item: None,
        steps: BTreeMap::new(),
        ids: BTreeSet::new(),
    };
    let value = expression::resolve(key, &scope);
    let value = value.map_err(|error| Refusal::NoLimitKey(field, error.to_string()))?;
    if value.is_null() {
        return Err(Refusal::NoLimitKey(field, "it is `null`.".to_owned()).into());
    }
    Ok(digest_of(transition, field, key, &value))
}

/// Runs of a deleted agent and of another `key` do not count together with these.
fn digest_of(transition: &RunTransition<'_>, field: &str, key: &Value, value: &Value) -> String {
    let run = &transition.run;
    let agent = Need::State(Key::Agent(run.workspace.clone(), run.agent.clone()));
    let deleted = match transition.lookup(&agent) {
        Lookup::Found(Fact::Agent(agent)) => agent.scope.dead_up_to,
        Lookup::NotLoaded | Lookup::Missing | Lookup::Found(_) => 0,
    };
    let mut text = format!("{}\0{}\0{deleted}\0{field}\0", run.workspace, run.agent);
    write_canonical(key, &mut text);
    text.push('\0');
    write_canonical(value, &mut text);
    format!("{:x}", Sha256::digest(text.as_bytes()))
}
