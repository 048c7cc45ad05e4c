//! Effects that follow from the states before and after a decision: leases, holds on people, history, and
//! the end of the run.
//!
//! The dispatcher adds them after every command, so that no command can forget them. A lease exists while
//! a step is with a worker, and a question is open while a step is uncertain.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::{DesiredHold, HoldSpec, HoldState, OnTimeout};
use holdpoint_contracts::instant;
use holdpoint_contracts::run::{HoldKind, LeaseAction, LeaseEvent};
use holdpoint_holds::redaction::ARGS;
use holdpoint_ids::HoldId;
use serde_json::{Value, json};
use strum::VariantArray as _;

use crate::domain::decision::{Decided, Decision, Outcome, Undecided};
use crate::domain::effect::{Effect, Reply};
use crate::domain::model::node::Lease;
use crate::domain::model::run::{Choice, PersonHold, Run, Step, StepGrant, StepPhase, Uncertain};
use crate::domain::need::{Aggregate, Fact, Need};
use crate::domain::rules::budgets::write_held_rows;
use crate::domain::rules::child_runs::{child_run_effects, child_run_inputs, report_to_parent};
use crate::domain::rules::failed_steps::continue_after_failures;
use crate::domain::rules::limit_effects::limit_effects;
use crate::domain::rules::open_hold::load_spec;
use crate::domain::rules::redaction::shown_part;
use crate::domain::rules::run_watchers::notify_run_end;
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

/// Largest arguments that a question shows, in bytes of JSON.
const ARGS_SHOWN_MAX: usize = 64 * 1024;

/// Asked about an uncertain step if the question with the evidence was refused.
const MINIMAL_QUESTION: &str =
    "Did this step happen? Its worker was granted the start, and its result is not known.";

/// Leases that begin or end between the states.
pub(crate) fn lease_effects(before: &Run, after: &Run, now: DateTime<Utc>) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (index, step) in after.steps.iter().enumerate() {
        let old = after.step_before(before, index).and_then(current_grant);
        let new = current_grant(step);
        if old == new {
            continue;
        }
        if let Some((dispatch, old)) = old {
            effects.push(Effect::LeaseEnded {
                run: after.id,
                step: step.id.clone(),
            });
            // After a result, or after the end of the run, no other node takes the step over.
            let has_ended = step.phase.is_settled()
                || step.phase.backoff().is_some()
                || step.phase.try_as_awaiting_person_ref().is_some();
            if !has_ended {
                let entry = LeaseEvent {
                    action: LeaseAction::Released,
                    node: old.node.clone(),
                    at: now,
                    dispatch,
                };
                effects.push(lease_event(after, step, entry));
            }
        }
        if let Some((dispatch, new)) = new {
            effects.push(lease_effect(after, step, new));
            let action = match step.lost {
                0 => LeaseAction::Claimed,
                _ => LeaseAction::TakenOver,
            };
            let entry = LeaseEvent {
                action,
                node: new.node.clone(),
                at: new.since,
                dispatch,
            };
            effects.push(lease_event(after, step, entry));
        }
    }
    effects
}

fn current_grant(step: &Step) -> Option<(u64, &StepGrant)> {
    Some((step.dispatch, step.phase.try_as_granted_ref()?))
}

fn lease_effect(run: &Run, step: &Step, working: &StepGrant) -> Effect {
    Effect::Lease(Box::new(Lease {
        workspace: run.workspace.clone(),
        run: run.id,
        step: step.id.clone(),
        dispatch: step.dispatch,
        node: working.node.clone(),
        claimed_at: working.since,
        heartbeat_at: working.since,
        lease_ms: working.handed.lease_ms,
    }))
}

fn lease_event(run: &Run, step: &Step, entry: LeaseEvent) -> Effect {
    Effect::LeaseEvent {
        run: run.id,
        step: step.id.clone(),
        entry,
    }
}

/// Since when a question is frozen, if it is.
type Frozen = Option<DateTime<Utc>>;

fn wanted_questions(run: &Run) -> BTreeMap<HoldId, Frozen> {
    let since = run.pauses.iter().map(|pause| pause.at).min();
    run.questions()
        .map(|(_, asked)| (asked.hold, since))
        .collect()
}

/// Desired states of questions about uncertain steps that begin, freeze, thaw or end with the transition.
pub(crate) fn question_effects(transition: &RunTransition<'_>) -> Result<Vec<Effect>, Undecided> {
    let (before, after) = (
        wanted_questions(transition.before),
        wanted_questions(&transition.run),
    );
    let mut desired_states = Vec::new();
    for (step, asked) in transition.run.questions() {
        let frozen = after.get(&asked.hold).copied().flatten();
        if before.get(&asked.hold) == Some(&frozen) {
            continue;
        }
        let spec = question_spec(transition, step, asked)?;
        let state = hold_state(spec, (frozen, None, None));
        desired_states.push(desired_state(transition, asked.hold, state));
    }
    let over = transition.before.questions().filter(|(step, asked)| {
        // Closed by its owner: there is nothing to tell.
        let is_answered =
            |now: &Step| now.id == step.id && now.answered.contains(&asked.hold.number);
        !after.contains_key(&asked.hold) && !transition.run.steps.iter().any(is_answered)
    });
    for (_, asked) in over {
        let is_resumed = transition.before.suspension.is_some() && !transition.run.is_final();
        let reason = if is_resumed && transition.run.suspension.is_none() {
            "It was decided when the run was resumed."
        } else if has_reported(transition, asked) {
            "The worker has reported."
        } else {
            "The run has ended."
        };
        desired_states.push(withdrawn_state(transition, asked.hold, reason));
    }
    Ok(desired_states)
}

/// Whether the step of a question has ended by a report of its worker.
fn has_reported(transition: &RunTransition<'_>, asked: &Uncertain) -> bool {
    let run = &transition.run;
    let was_it = |index| {
        let was = run.step_before(transition.before, index);
        was.is_some_and(
            |was| matches!(&was.phase, StepPhase::Uncertain(one) if one.hold == asked.hold),
        )
    };
    let steps = run.steps.iter().enumerate();
    let mut ended = steps.filter(|(index, _)| was_it(*index));
    ended.any(|(_, now)| {
        matches!(
            now.phase,
            StepPhase::Completed { .. }
                | StepPhase::Failed { .. }
                | StepPhase::Parked(_)
                | StepPhase::Waiting(_)
                | StepPhase::AwaitingPerson(_)
        )
    })
}

/// Since when a hold on people is frozen, its deadline, and its remaining time.
type Wanted = (Frozen, Option<DateTime<Utc>>, Option<u64>);

fn wanted_hold(run: &Run, on: &PersonHold, is_taken: bool) -> Wanted {
    let since = run.pauses.iter().map(|pause| pause.at).min();
    // The owner of the hold has stopped its timer, because a person owns the run.
    let deadline = on.deadline().filter(|_| !is_taken);
    let left = on.remaining_ms().filter(|_| !is_taken);
    (since, deadline, left)
}

/// Desired states of holds on people that begin, freeze, thaw or end with the transition.
pub(crate) fn person_hold_effects(
    transition: &RunTransition<'_>,
) -> Result<Vec<Effect>, Undecided> {
    let mut desired_states = Vec::new();
    let same = |run: &'_ Run, id: HoldId| run.people().any(|(_, one)| one.id == id);
    for (_, on) in transition.run.people() {
        // Its owner has closed it, and only the run has to move. Opened again, it would end twice.
        if on.closing.is_some() {
            continue;
        }
        let is_taken = on.taken.is_some();
        let (since, deadline, left) = wanted_hold(&transition.run, on, is_taken);
        let before = transition.before.people().find(|(_, old)| old.id == on.id);
        let before = before.map(|(_, old)| wanted_hold(transition.before, old, is_taken));
        if before == Some((since, deadline, left)) {
            continue;
        }
        let spec = load_spec(transition, on.id)?;
        let state = hold_state(spec, (since, deadline, on.remaining_ms()));
        desired_states.push(desired_state(transition, on.id, state));
    }
    for (_, on) in transition.before.people() {
        // Closed by its owner: there is nothing to tell.
        if same(&transition.run, on.id) || transition.run.closed.contains(&on.id.number) {
            continue;
        }
        let reason = if transition.run.is_final() {
            "The run has ended."
        } else {
            "The question is no longer needed."
        };
        desired_states.push(withdrawn_state(transition, on.id, reason));
    }
    Ok(desired_states)
}

fn hold_state(spec: HoldSpec, (since, deadline, remaining_ms): Wanted) -> HoldState {
    let spec = Box::new(spec);
    match since {
        Some(since) => HoldState::Frozen {
            spec,
            since,
            remaining_ms,
        },
        None => HoldState::Open { spec, deadline },
    }
}

fn withdrawn_state(transition: &RunTransition<'_>, id: HoldId, reason: &str) -> Effect {
    let state = HoldState::Withdrawn {
        reason: reason.to_owned(),
        by: transition.ended_by.clone(),
    };
    desired_state(transition, id, state)
}

fn desired_state(transition: &RunTransition<'_>, id: HoldId, state: HoldState) -> Effect {
    Effect::Hold {
        workspace: transition.run.workspace.clone(),
        desired_state: Box::new(DesiredHold {
            id,
            rev: transition.run.version,
            state,
        }),
    }
}

/// The question about an uncertain step, with the evidence.
fn question_spec(
    transition: &RunTransition<'_>,
    step: &Step,
    asked: &Uncertain,
) -> Result<HoldSpec, Undecided> {
    let minimal = HoldSpec {
        step: Some(step.id.clone()),
        agent: Some(transition.run.agent.clone()),
        options: Choice::VARIANTS
            .iter()
            .map(|choice| choice.into_str().to_owned())
            .collect(),
        reason: Some("uncertain".to_owned()),
        on_timeout: OnTimeout::Escalate,
        ..HoldSpec::asking(HoldKind::Input, MINIMAL_QUESTION)
    };
    if asked.is_minimal {
        return Ok(minimal);
    }
    let need = Need::Request(transition.run.id, step.id.clone());
    let args = transition.load_value(need)?;
    let args = args.map(|args| shown_part(step, ARGS, args));
    let args = args.map_or(Value::Null, |args| shown_args(&args));
    let plan = transition.plan()?;
    let index = transition.position(&step.id)?;
    let planned = transition.planned(&plan, index);
    let tool = planned.and_then(|planned| planned.action.tool());
    let StepGrant { node, since, .. } = &asked.working;
    let end = if asked.is_retried {
        "the run failed after that"
    } else if asked.is_timeout {
        "its tool did not end in time"
    } else if asked.is_unconfirmed {
        "its tool failed and cannot tell whether it had an effect"
    } else if asked.is_stopped {
        "has stopped it before its end"
    } else {
        "never reported"
    };
    let question = format!(
        "Did {} ({}) happen? {node} was granted the start at {} and {end}.",
        step.id,
        tool.unwrap_or("no tool"),
        instant::write(*since)
    );
    Ok(HoldSpec {
        question,
        context: json!({
            "step": step.id,
            "tool": tool,
            "args": args,
            "node": node,
            "dispatch": step.dispatch,
            "claimed_at": instant::write(*since),
        }),
        ..minimal
    })
}

fn shown_args(args: &Value) -> Value {
    let bytes = serde_json::to_string(args).map_or(0, |text| text.len());
    if bytes > ARGS_SHOWN_MAX {
        json!({ "omitted": true, "bytes": bytes })
    } else {
        args.clone()
    }
}

/// The decision on a run with all effects.
pub(crate) fn decided_with_effects(mut transition: RunTransition<'_>, reply: Reply) -> Decision {
    continue_after_failures(&mut transition)?;
    with_derived_effects(transition, reply)
}

/// The same for a run that another transition of this decision continues.
pub(crate) fn with_derived_effects(mut transition: RunTransition<'_>, reply: Reply) -> Decision {
    // A step that has ended asks nothing.
    let ended = transition.run.steps.iter_mut();
    for step in ended.filter(|step| step.phase.is_settled()) {
        step.questions.open = None;
    }
    let questions = question_effects(&transition)?;
    write_held_rows(&mut transition);
    let person_holds = person_hold_effects(&transition)?;
    let leases = lease_effects(transition.before, &transition.run, transition.now);
    let run_end = notify_run_end(&transition)?;
    let child_runs = child_run_effects(&mut transition)?;
    let inputs = child_run_inputs(&transition);
    let report = report_to_parent(&transition);
    if report.is_some()
        && let Some(parent) = transition.run.parent.as_deref_mut()
    {
        parent.has_report = true;
    }
    let (limits, limit_facts) = limit_effects(&transition);
    // Last, because effects come from comparing steps by their places.
    transition.run.remove_counted_children(0);
    let RunTransition {
        run,
        mut effects,
        items,
        values,
        snapshot,
        generated_plan,
        ..
    } = transition;
    effects.extend(
        questions
            .into_iter()
            .chain(person_holds)
            .chain(leases)
            .chain(run_end)
            .chain(child_runs)
            .chain(report)
            .chain(limits),
    );
    if !items.is_empty() {
        effects.push(Effect::History {
            workspace: run.workspace.clone(),
            run: run.id,
            items,
        });
    }
    let fact = |(name, value)| (Need::Value(run.id, name), Fact::Value(value));
    let mut facts: Vec<_> = values.into_iter().map(fact).collect();
    facts.extend(limit_facts);
    facts.extend(generated_plan.map(|plan| (Need::GeneratedPlan(run.id), Fact::Plan(plan))));
    facts.extend(inputs);
    if let Some(snapshot) = snapshot {
        let snapshot = Arc::new(*snapshot);
        let fact = Fact::Snapshot(Arc::clone(&snapshot));
        facts.push((Need::Snapshot(run.id), fact));
        effects.push(Effect::Snapshot(snapshot));
    }
    Ok(Outcome::Decided(Box::new(Decided {
        facts,
        state: Aggregate::Run(run),
        effects,
        reply,
    })))
}

pub(crate) fn finish(outcome: RunDecision<'_>) -> Decision {
    match outcome? {
        RunOutcome::Changed(transition, reply) => decided_with_effects(*transition, reply),
        RunOutcome::Unchanged(reply) => Ok(Outcome::Unchanged(reply)),
    }
}
