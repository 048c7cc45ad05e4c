//! `scheduler.put_schedule`: an operator creates or changes a schedule.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::scheduler::ScheduleSpec;
use holdpoint_decision::Decided;
use holdpoint_ids::{ScheduleName, Workspace};

use crate::domain::decision::{Decision, Fact, Lookup, LookupFn, Need, Outcome, Undecided};
use crate::domain::effect::Reply;
use crate::domain::input::SchedulePut;
use crate::domain::model::Timer;
use crate::domain::model::schedule::{INPUT_BYTES_MAX, SCHEDULES_MAX, Schedule};
use crate::domain::refusal::Refusal;
use crate::domain::rules::fire_times::FireTimes;
use crate::domain::transition::{arm, timer_of};

/// Stores the schedule and sets its timer to the next fire. A change of the expression or the zone forgets a fire that
/// is overdue.
pub(crate) fn put_schedule(
    state: Option<&Timer>,
    put: &SchedulePut,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let SchedulePut { key, spec, by } = put;
    let known = state.and_then(|timer| timer.schedule.as_deref());
    if let Some(same) = known.filter(|known| known.spec == *spec) {
        return Ok(Outcome::Unchanged(Reply::Schedule(Box::new(same.view()))));
    }
    let times = validate(spec)?;
    let mut names = read_names(&key.workspace, lookup)?;
    names.insert(spec.name.clone());
    if known.is_none() && names.len() > SCHEDULES_MAX {
        return Err(Refusal::TooManySchedules.into());
    }
    let fresh = || Schedule {
        workspace: key.workspace.clone(),
        spec: spec.clone(),
        version: 0,
        created_by: by.clone(),
        created_at: now,
        next_fire: None,
        last: None,
        last_run: None,
        pending: None,
    };
    let before = known.cloned().unwrap_or_else(fresh);
    let keeps_times = known.is_some_and(|known| {
        known.spec.cron == spec.cron && known.spec.time_zone == spec.time_zone
    });
    let next_fire = if keeps_times {
        before.next_fire
    } else {
        times.next_after(before.fired_until(now))
    };
    if next_fire.is_none() {
        return Err(never_fires(spec).into());
    }
    let schedule = Schedule {
        spec: spec.clone(),
        next_fire,
        ..before
    };
    let timer = timer_of(state, key, schedule);
    let view = timer.schedule.as_ref().map(|schedule| schedule.view());
    Ok(Outcome::Decided(Box::new(Decided {
        effects: arm(&timer, now).into_iter().collect(),
        state: timer,
        facts: vec![(
            Need::Schedules(key.workspace.clone()),
            Fact::Schedules(names),
        )],
        reply: view.map_or(Reply::Nothing(()), |view| Reply::Schedule(Box::new(view))),
    })))
}

fn validate(spec: &ScheduleSpec) -> Result<FireTimes, Undecided> {
    let times = FireTimes::read(&spec.cron, &spec.time_zone);
    let bytes = serde_json::to_string(&spec.input).map_or(usize::MAX, |text| text.len());
    let too_large = (bytes > INPUT_BYTES_MAX).then(|| {
        let message = format!("is {bytes} bytes of JSON; at most {INPUT_BYTES_MAX} are allowed");
        FieldError::at("/input", message)
    });
    match (times, too_large) {
        (Ok(times), None) => Ok(times),
        (times, too_large) => {
            let errors = times.err().into_iter().flatten().chain(too_large);
            Err(Refusal::InvalidFields(errors.collect()).into())
        }
    }
}

fn never_fires(spec: &ScheduleSpec) -> Refusal {
    let error = FieldError {
        text: spec.cron.clone(),
        ..FieldError::at("/cron", "never fires, because no date matches it")
    };
    Refusal::InvalidFields(vec![error])
}

fn read_names(
    workspace: &Workspace,
    lookup: LookupFn<'_>,
) -> Result<BTreeSet<ScheduleName>, Undecided> {
    let need = Need::Schedules(workspace.clone());
    match lookup(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Missing => Ok(BTreeSet::new()),
        Lookup::Found(Fact::Schedules(names)) => Ok(names),
    }
}
