//! What the limits of an agent mean for a start: its place in a queue, and whether the agent has started for it already.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdpoint_ids::ContactId;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::domain::decision::{Lookup, Undecided};
use crate::domain::expression::{self, Scope};
use crate::domain::model::plan::limits::{Limits, Once};
use crate::domain::model::plan::write_canonical;
use crate::domain::model::run::{Place, Run, RunBudget, RunLimits};
use crate::domain::need::{Fact, Key, Need};
use crate::domain::refusal::Refusal;
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
    let started = load_limits(transition, once.as_ref(), place.as_ref())?;
    let budget = limits.budget.clone();
    transition.run.limits = Some(Box::new(RunLimits {
        budget: budget.map(|budget| Box::new(RunBudget::new(budget, now))),
        place,
        once,
    }));
    Ok(started)
}

/// Loads both at once, because the kernel loads needs at most four times.
fn load_limits(
    transition: &RunTransition<'_>,
    once: Option<&String>,
    place: Option<&Place>,
) -> Result<Option<Arc<Run>>, Undecided> {
    let once = once.map(|key| Need::StartedOnce(key.clone()));
    let place = place.map(|place| Need::Places(place.key.clone()));
    let mut needs: Vec<_> = once.iter().cloned().chain(place).collect();
    needs.retain(|need| matches!(transition.lookup(need), Lookup::NotLoaded));
    if !needs.is_empty() {
        return Err(Undecided::NeedsMore(needs));
    }
    Ok(match once.map(|need| transition.lookup(&need)) {
        Some(Lookup::Found(Fact::StartedRun(run))) => Some(run),
        Some(Lookup::NotLoaded | Lookup::Missing | Lookup::Found(_)) | None => None,
    })
}

fn contact_key(transition: &RunTransition<'_>) -> Result<String, Undecided> {
    let run = &transition.run;
    let missing = || Refusal::ContactRequired(run.agent.clone());
    let contact: &ContactId = run.contact.as_ref().ok_or_else(missing)?;
    Ok(digest_of(run, "contact", &Value::String(contact.to_string())))
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
        return Ok(digest_of(run, field, &Value::Null));
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
    Ok(digest_of(run, field, &value))
}

fn digest_of(run: &Run, field: &str, value: &Value) -> String {
    let mut text = format!("{}\0{}\0{field}\0", run.workspace, run.agent);
    write_canonical(value, &mut text);
    format!("{:x}", Sha256::digest(text.as_bytes()))
}
