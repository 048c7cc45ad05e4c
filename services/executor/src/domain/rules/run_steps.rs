//! How a step starts runs of other agents, and what their ends make of it. [`child_runs`](super::child_runs) says how
//! the runs learn what their parent wants.

use std::time::Duration;

use chrono::{DateTime, Utc};
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::instant;
use holdpoint_contracts::run::RunStatus;
use holdpoint_contracts::size::json_bytes;
use holdpoint_ids::{HoldId, RunId};
use serde_json::{Value, json};

use crate::domain::decision::{Lookup, Undecided};
use crate::domain::model::plan::run_steps::{RunStep, RunsUntil};
use crate::domain::model::plan::signal_steps::OnWaitTimeout;
use crate::domain::model::run::child_runs::{
    CHILD_DEPTH_MAX, ChildRun, ChildRunFailure, ChildRuns, OUTPUTS_BYTES_MAX, RUNS_BELOW_MAX,
    RunsOutcome, child_output_name,
};
use crate::domain::model::run::{Hold, Run, Step, StepPhase, Timer};
use crate::domain::model::time::{after, millis_between};
use crate::domain::need::{Fact, Need};
use crate::domain::rules::budgets::hold_by_budget;
use crate::domain::rules::conditions::skip_because;
use crate::domain::rules::fail_step::{
    CHILD_CANCELLED, CHILD_FAILED, CHILD_TIMEOUT, RESULT_TOO_LARGE, fail_step,
};
use crate::domain::rules::open_hold::next_hold_id;
use crate::domain::step_response::success;
use crate::domain::transition::{RowData, RunTransition};

/// Code of a step that would start a run too far below the first one.
const CHILD_DEPTH: &str = "child_depth";

/// Code of a step that would start a run of an agent that is above it.
const CHILD_CYCLE: &str = "child_cycle";

/// Code of a step that would start more runs than the share of its run allows.
const TOO_MANY_CHILD_RUNS: &str = "too_many_child_runs";

/// Starts the runs of the step and waits for them. A used-up budget holds it, as it holds a call of a tool.
pub(crate) fn start_runs(
    transition: &mut RunTransition<'_>,
    index: usize,
    planned: &RunStep,
    inputs: Value,
) {
    if hold_by_budget(transition, index) {
        return;
    }
    let runs_below = match share_of_each(transition, planned) {
        Ok(share) => Some(share),
        Err((code, message)) => return fail_step(transition, index, code, &message, None),
    };
    let (now, rev) = (transition.now, transition.run.version);
    let hold = next_hold_id(&mut transition.run);
    let due = after(now, planned.timeout_ms);
    let places = (0_u32..).zip(&planned.runs);
    let runs = places.map(|(place, run)| ChildRun {
        run: RunId::of_child(hold, place, now.timestamp_millis()),
        agent: run.agent.clone(),
        end: None,
        is_refused: false,
    });
    let runs: Vec<_> = runs.collect();
    let ids: Vec<_> = runs.iter().map(|run| run.run).collect();
    if let Some(step) = transition.step_mut(index) {
        step.child_runs = Some(Box::new(ChildRuns {
            hold,
            until: planned.until,
            rev,
            runs,
            runs_below,
            failure: None,
            first_completed: None,
            output_bytes: 0,
        }));
    }
    let phase = StepPhase::Waiting(Hold {
        id: hold,
        since: now,
        length_ms: planned.timeout_ms,
        timer: Timer::Set { rev, at: now, due },
        backoff: None,
        signal: None,
        child_runs: Some(planned.on_timeout),
        keeps_due: false,
    });
    let opened = OpenedStep {
        phase,
        inputs,
        ids,
        due,
    };
    open_step(transition, index, hold, opened);
}

struct OpenedStep {
    phase: StepPhase,
    inputs: Value,
    /// Of the runs.
    ids: Vec<RunId>,
    /// When the time is over.
    due: DateTime<Utc>,
}

fn open_step(transition: &mut RunTransition<'_>, index: usize, hold: HoldId, opened: OpenedStep) {
    let OpenedStep {
        phase,
        inputs,
        ids,
        due,
    } = opened;
    let count = match ids.len() {
        1 => "the end of a run".to_owned(),
        count => format!("the ends of {count} runs"),
    };
    let message = format!("Waiting for {count}.");
    let deadline = instant::write(due);
    let data = json!({ "runs": ids, "deadline": deadline });
    let row = RowData {
        request: Some(inputs),
        ..RowData::response(success(message.clone(), data, 0))
    };
    let Some(step) = transition.set_phase(index, phase, row) else {
        return;
    };
    transition.timer(hold, Some(due));
    let data = json!({ "hold": hold, "kind": "child_run", "runs": ids, "deadline": deadline });
    transition.event(EventType::RunWaiting, Some(&step), message, data);
}

/// How many runs may be in progress below each of the runs, or why they may not start: code and message.
fn share_of_each(
    transition: &RunTransition<'_>,
    planned: &RunStep,
) -> Result<u32, (&'static str, String)> {
    let chain = transition.run.agent_chain();
    if let Some(run) = planned.runs.iter().find(|run| chain.contains(&run.agent)) {
        let chain: Vec<_> = chain.iter().map(ToString::to_string).collect();
        let (agent, chain) = (&run.agent, chain.join(", "));
        let message = format!("{agent} cannot run below itself; the agents above are {chain}");
        return Err((CHILD_CYCLE, message));
    }
    if chain.len() > CHILD_DEPTH_MAX {
        let message =
            format!("a child run is at most {CHILD_DEPTH_MAX} levels below the first run");
        return Err((CHILD_DEPTH, message));
    }
    let share = transition.run.share_of_child(planned.runs.len());
    share.ok_or_else(|| {
        let message = format!(
            "at most {RUNS_BELOW_MAX} runs are in progress below the first run, and the share of this run is used up"
        );
        (TOO_MANY_CHILD_RUNS, message)
    })
}

/// The outputs of earlier runs, if the end of this one completes its step.
pub(crate) fn last_end_needs(run: &Run, hold: HoldId, child: RunId) -> Vec<Need> {
    let mut runs = run.steps.iter().filter_map(Step::awaited_runs);
    let runs = runs.find(|runs| runs.hold == hold);
    let runs = runs.filter(|runs| {
        let place = runs.open_place(child);
        place.is_some_and(|place| runs.completes_with(place))
    });
    let others = runs.into_iter().flat_map(|runs| &runs.runs);
    let others = others.filter(|other| other.run != child);
    others.map(|other| output_need(run, other.run)).collect()
}

fn output_need(run: &Run, child: RunId) -> Need {
    Need::Value(run.id, child_output_name(child))
}

/// The outputs of the steps that end with the recorded ends.
pub(crate) fn outcome_needs(run: &Run) -> Vec<Need> {
    let awaited = run.steps.iter().filter_map(Step::awaited_runs);
    let needs = awaited.flat_map(|runs| match runs.outcome() {
        Some(RunsOutcome::One(child)) => vec![output_need(run, child)],
        Some(RunsOutcome::All) => {
            let all = runs.runs.iter();
            all.map(|child| output_need(run, child.run)).collect()
        }
        Some(RunsOutcome::Failed(_) | RunsOutcome::TooLarge(_)) | None => Vec::new(),
    });
    needs.collect()
}

/// Ends the steps whose child runs have ended. A person who owns the run decides first, so that their outcomes wait
/// until the run is handed back.
pub(crate) fn apply_child_ends(transition: &mut RunTransition<'_>) -> Result<(), Undecided> {
    let run = &transition.run;
    if run.is_final() || run.taken().is_some() {
        return Ok(());
    }
    let mut needs = outcome_needs(run);
    needs.retain(|need| matches!(transition.lookup(need), Lookup::NotLoaded));
    if !needs.is_empty() {
        return Err(Undecided::NeedsMore(needs));
    }
    for index in 0..transition.run.steps.len() {
        let runs = transition.step(index).and_then(Step::awaited_runs);
        match runs.and_then(ChildRuns::outcome) {
            None => {}
            Some(RunsOutcome::One(child)) => complete_with_run(transition, index, child),
            Some(RunsOutcome::All) => complete_with_all(transition, index),
            Some(RunsOutcome::TooLarge(bytes)) => fail_too_large(transition, index, bytes),
            Some(RunsOutcome::Failed(failure)) => fail_with_run(transition, index, &failure),
        }
    }
    Ok(())
}

/// A refused start has the code of its refusal.
fn fail_with_run(transition: &mut RunTransition<'_>, index: usize, failure: &ChildRunFailure) {
    let ChildRunFailure {
        run,
        status,
        code,
        message,
    } = failure;
    let step = transition.step_mut(index);
    let Some(runs) = step.and_then(|step| step.child_runs.as_deref_mut()) else {
        return;
    };
    runs.failure = None;
    let message = match (runs.until, runs.runs.len()) {
        (RunsUntil::First, count @ 2..) => {
            format!("none of its {count} runs completed; the last one: {message}")
        }
        (RunsUntil::Ended | RunsUntil::First | RunsUntil::All, _) => {
            format!("{run} {status}: {message}")
        }
    };
    let code = match (code, status) {
        (Some(code), _) => code.as_str(),
        (None, RunStatus::Cancelled) => CHILD_CANCELLED,
        (None, _) => CHILD_FAILED,
    };
    clear_timer(transition, index);
    fail_step(transition, index, code, &message, None);
}

fn complete_with_run(transition: &mut RunTransition<'_>, index: usize, child: RunId) {
    let result = run_result(transition, index, child);
    complete(transition, index, result.unwrap_or_default());
}

/// The result is the list in the order of the plan.
fn complete_with_all(transition: &mut RunTransition<'_>, index: usize) {
    let runs = transition
        .step(index)
        .and_then(|step| step.child_runs.as_deref());
    let children: Vec<_> = runs.into_iter().flat_map(|runs| &runs.runs).collect();
    let children: Vec<_> = children.into_iter().map(|run| run.run).collect();
    let results = children.into_iter();
    let results = results.filter_map(|child| run_result(transition, index, child));
    let results = Value::Array(results.collect());
    let bytes = json_bytes(&results);
    if bytes > OUTPUTS_BYTES_MAX {
        return fail_too_large(transition, index, bytes);
    }
    complete(transition, index, results);
}

fn fail_too_large(transition: &mut RunTransition<'_>, index: usize, bytes: usize) {
    clear_timer(transition, index);
    let message = format!(
        "the outputs of its runs are {bytes} bytes of JSON; at most {OUTPUTS_BYTES_MAX} are allowed"
    );
    fail_step(transition, index, RESULT_TOO_LARGE, &message, None);
}

/// What the result of the step has of one run.
fn run_result(transition: &RunTransition<'_>, index: usize, child: RunId) -> Option<Value> {
    let runs = transition.step(index)?.child_runs.as_deref()?;
    let run = runs.runs.iter().find(|run| run.run == child)?;
    let ended = match transition.lookup(&output_need(&transition.run, child)) {
        Lookup::Found(Fact::Value(ended)) => Value::clone(&ended),
        Lookup::NotLoaded | Lookup::Missing | Lookup::Found(_) => Value::Null,
    };
    Some(json!({
        "run": run.run,
        "agent": run.agent,
        "status": run.end,
        "summary": ended.get("summary"),
        "output": ended.get("output"),
    }))
}

fn complete(transition: &mut RunTransition<'_>, index: usize, result: Value) {
    let since = clear_timer(transition, index);
    let waited_ms = since.map_or(0, |since| millis_between(since, transition.now));
    let message = "The awaited runs completed.".to_owned();
    let response = success(message.clone(), result.clone(), waited_ms);
    let phase = StepPhase::Completed { at: transition.now };
    if let Some(id) = transition.set_phase(index, phase, RowData::response(response)) {
        transition.value(id.clone(), result);
        transition.event(
            EventType::RunResumed,
            Some(&id),
            message,
            json!({ "by": "runs" }),
        );
    }
}

/// Clears the timer of the step, and returns since when it waits.
fn clear_timer(transition: &mut RunTransition<'_>, index: usize) -> Option<DateTime<Utc>> {
    let hold = transition.step(index)?.phase.try_as_waiting_ref()?;
    let (id, since) = (hold.id, hold.since);
    if matches!(hold.timer, Timer::Set { .. }) {
        transition.timer(id, None);
    }
    Some(since)
}

/// The runs have not ended in time. Those that are open are cancelled.
pub(crate) fn time_out_runs(
    transition: &mut RunTransition<'_>,
    index: usize,
    hold: &Hold,
    on_timeout: OnWaitTimeout,
) {
    let longest = describe(Duration::from_millis(hold.length_ms));
    match on_timeout {
        OnWaitTimeout::Fail => {
            let message = format!("its runs did not end within {longest}");
            fail_step(transition, index, CHILD_TIMEOUT, &message, None);
        }
        OnWaitTimeout::Skip => {
            let message = format!("Skipped: its runs did not end within {longest}.");
            let data = json!({ "hold": hold.id, "reason": "timeout" });
            skip_because(transition, index, message, data);
        }
    }
}
