//! The one place that begins steps: conditions, holds, dispatches, and the end of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use holdpoint_contracts::duration::describe;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::instant;
use holdpoint_contracts::run::{ActionResult, Failure, FailureClass};
use holdpoint_contracts::steps::LEASE_DEFAULT_MS;
use holdpoint_contracts::tool::Risk;
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use crate::domain::effect::Effect;
use crate::domain::expression::{self, Condition, Reference};
use crate::domain::need::{Fact, INPUT, Need, PlanFact};
use crate::domain::plan::{Action, PlannedStep, Seen};
use crate::domain::run::people::{INTERVENTION, condition_name};
use crate::domain::run::{Dispatched, Hold, Phase, StepPhase, Timer, ToolInvocation, after};
use crate::domain::size::json_bytes;
use crate::domain::tool::{Tool, is_built_in};

use super::people::opening::{self, HandoffBriefing};
use super::people::{ASSIGNEE_INACTIVE, HUMAN_TIMEOUT, asking, handing};
use super::transition::{RowData, RunTransition, ToolError};
use crate::domain::decision::{Lookup, Undecided};

/// What one step can see.
#[derive(Default)]
struct StepInputs {
    input: Option<Arc<Value>>,
    contact: Option<Arc<Value>>,
    results: BTreeMap<String, Value>,
    /// What whoever took the run over by themselves handed back.
    intervention: Option<Arc<Value>>,
    /// For a handoff: what there is to tell.
    story: Option<HandoffBriefing>,
}

/// Begins every step whose turn has come, until none is left that could begin; ends the run when
/// all its steps have ended. Does nothing while the run is paused or over.
pub(super) fn advance(transition: &mut RunTransition<'_>) -> Result<(), Undecided> {
    if !transition.run.moves() {
        return Ok(());
    }
    let plan = transition.plan()?;
    loop {
        let ready = ready_steps(transition, &plan);
        if ready.is_empty() {
            break;
        }
        // All that the ready steps lack is asked for at once.
        let mut seeing = Vec::with_capacity(ready.len());
        let mut unknown = Vec::new();
        for &index in &ready {
            seeing.push((index, see(transition, &plan, index, &mut unknown)));
        }
        if !unknown.is_empty() {
            for index in may_follow(transition, &plan, ready) {
                see(transition, &plan, index, &mut unknown);
            }
            return Err(Undecided::NeedsMore(unknown));
        }
        for (index, seen) in seeing {
            begin(transition, &plan, index, seen);
            if transition.run.is_final() {
                return Ok(());
            }
        }
    }
    complete_if_all_ended(transition);
    Ok(())
}

/// Ends the run if nothing of it is left to be done, and nobody owns it who has still to say so.
pub(super) fn complete_if_all_ended(transition: &mut RunTransition<'_>) {
    if transition.run.moves()
        && transition
            .run
            .steps
            .iter()
            .all(|step| step.phase.is_settled())
    {
        complete(transition);
    }
}

fn ready_steps(transition: &RunTransition<'_>, plan: &PlanFact) -> Vec<usize> {
    let settled = |need: &usize| {
        transition
            .step(*need)
            .is_some_and(|step| step.phase.is_settled())
    };
    let steps = plan
        .plan
        .steps
        .iter()
        .zip(&transition.run.steps)
        .enumerate();
    steps
        .filter(|(_, (planned, step))| {
            matches!(step.phase, StepPhase::Planned) && planned.needs.iter().all(settled)
        })
        .map(|(index, _)| index)
        .collect()
}

/// The steps whose turn comes in this very decision if those that are ready are skipped: what they
/// lack is asked for with the rest, so that a chain of conditions costs one question.
fn may_follow(transition: &RunTransition<'_>, plan: &PlanFact, ready: Vec<usize>) -> Vec<usize> {
    let mut skipped: BTreeSet<usize> = ready.into_iter().collect();
    let mut following = Vec::new();
    loop {
        let steps = plan
            .plan
            .steps
            .iter()
            .zip(&transition.run.steps)
            .enumerate();
        let fresh: Vec<usize> = steps
            .filter(|(index, (planned, step))| {
                let ends = |need: &usize| {
                    let has_condition = plan
                        .plan
                        .steps
                        .get(*need)
                        .is_some_and(|it| it.when.is_some());
                    transition
                        .step(*need)
                        .is_some_and(|step| step.phase.is_settled())
                        || (has_condition && skipped.contains(need))
                };
                matches!(step.phase, StepPhase::Planned)
                    && !skipped.contains(index)
                    && planned.needs.iter().all(ends)
            })
            .map(|(index, _)| index)
            .collect();
        if fresh.is_empty() {
            return following;
        }
        skipped.extend(&fresh);
        following.extend(fresh);
    }
}

/// The tool that a step calls, where it may be a registered one.
pub(super) fn tool_need(transition: &RunTransition<'_>, planned: &PlannedStep) -> Option<Need> {
    match &planned.action {
        Action::Tool { tool, .. } if !is_built_in(tool) => {
            let name = tool.parse().ok()?;
            Some(Need::Tool(transition.run.workspace.clone(), name))
        }
        Action::Tool { .. } | Action::Wait { .. } | Action::Ask(_) | Action::Handoff(_) => None,
    }
}

/// Looks up what a step refers to; what nobody has looked up yet is added to `unknown`.
fn see(
    transition: &RunTransition<'_>,
    plan: &PlanFact,
    index: usize,
    unknown: &mut Vec<Need>,
) -> StepInputs {
    let mut seeing = StepInputs::default();
    let mut lookup = |need: Need| match transition.lookup(&need) {
        Lookup::Found(Fact::Value(value) | Fact::Contact(value)) => Some(value),
        Lookup::Missing
        | Lookup::Found(
            Fact::Agent(_)
            | Fact::Workspace(_)
            | Fact::Plan(_)
            | Fact::Run(_)
            | Fact::Tool(_)
            | Fact::User(_)
            | Fact::Nothing,
        ) => None,
        Lookup::NotLoaded => {
            unknown.push(need);
            None
        }
    };
    for reference in plan.references.get(index).into_iter().flatten() {
        match reference {
            Reference::Input => {
                seeing.input = lookup(Need::Value(transition.run.id, INPUT.to_owned()))
            }
            Reference::Contact => {
                let contact = transition.run.contact.clone();
                let need = contact.map(|id| Need::Contact(transition.run.workspace.clone(), id));
                seeing.contact = need.and_then(&mut lookup);
            }
            Reference::Step(other) => {
                let Some(step) = transition.step(*other) else {
                    continue;
                };
                // Only what has completed has a result; anything else stays unresolved.
                if !matches!(step.phase, StepPhase::Completed { .. }) {
                    continue;
                }
                let value = lookup(Need::Value(transition.run.id, step.id.clone()));
                let value = value.map_or(Value::Null, |value| (*value).clone());
                seeing.results.insert(step.id.clone(), value);
            }
            Reference::Run => {
                let name = INTERVENTION.to_owned();
                seeing.intervention = lookup(Need::Value(transition.run.id, name));
            }
        }
    }
    if let Some(planned) = plan.plan.steps.get(index) {
        tool_need(transition, planned).and_then(&mut lookup);
    }
    // What people have answered to its tool goes with the dispatch.
    for need in transition
        .step(index)
        .into_iter()
        .flat_map(|step| asking::needs(transition.run.id, step))
    {
        lookup(need);
    }
    seeing.story = opening::story(transition, plan, index, unknown);
    seeing
}

/// Begins one step, skips it, or fails it.
fn begin(
    transition: &mut RunTransition<'_>,
    plan: &PlanFact,
    index: usize,
    mut seeing: StepInputs,
) {
    let Some(planned) = plan.plan.steps.get(index) else {
        return;
    };
    let run_value = json!({
        "id": transition.run.id,
        "agent": transition.run.agent,
        "started_at": instant::write(transition.run.created_at),
        "intervention": handing::intervention(seeing.intervention.as_deref()),
    });
    let null = Value::Null;
    let seen = Seen {
        input: seeing.input.as_deref().unwrap_or(&null),
        contact: seeing.contact.as_deref(),
        run: &run_value,
        results: seeing.results.clone(),
    };
    let scope = plan.plan.scope(index, seen);
    if let Some(when) = &planned.when {
        match expression::evaluate(when, &scope) {
            Ok(condition) => {
                remember(transition, plan, (&planned.id, when), &condition);
                if !condition.holds {
                    return skip(transition, index, when, &condition);
                }
            }
            Err(error) => {
                return fail_step(transition, index, error.code(), &error.to_string(), None);
            }
        }
    }
    let resolved = match planned.action.template() {
        Some(template) => expression::resolve(&template, &scope),
        None => Ok(Value::Null),
    };
    let resolved = match resolved {
        Ok(resolved) => resolved,
        Err(error) => {
            return fail_step(transition, index, error.code(), &error.to_string(), None);
        }
    };
    match &planned.action {
        Action::Wait { duration_ms } => wait(transition, index, *duration_ms),
        Action::Tool { .. } => step_dispatch(transition, index, resolved, planned),
        Action::Ask(ask) => opening::ask(transition, index, ask, &resolved),
        Action::Handoff(handoff) => {
            let story = seeing.story.take().unwrap_or_default();
            let known = (&resolved, seeing.contact.as_ref(), story);
            opening::handoff(transition, index, handoff, known);
        }
    }
}

/// Keeps what a condition was decided on, where somebody may be told of it later (S0-T2).
fn remember(
    transition: &mut RunTransition<'_>,
    plan: &PlanFact,
    (id, when): (&str, &str),
    found: &Condition,
) {
    let is_handoff = |step: &PlannedStep| matches!(step.action, Action::Handoff(_));
    if plan.plan.steps.iter().any(is_handoff) {
        let value = json!({ "expression": when, "values": found.values, "outcome": found.holds });
        transition.value(condition_name(id), value);
    }
}

fn skip(transition: &mut RunTransition<'_>, index: usize, when: &str, condition: &Condition) {
    let now = transition.now;
    let Some(step) = transition.step_mut(index) else {
        return;
    };
    step.phase = StepPhase::Skipped { at: now };
    let id = step.id.clone();
    let message = format!("Skipped: `{when}` does not hold.");
    let data = RowData {
        why: Some(message.clone()),
        ..RowData::default()
    };
    transition.row(index, data);
    transition.event(
        EventType::StepSkipped,
        Some(&id),
        message,
        json!({ "condition": when, "values": condition.values }),
    );
}

/// Opens a timer hold (S0-AC1). Its timer is the waker.
fn wait(transition: &mut RunTransition<'_>, index: usize, length_ms: u64) {
    let (now, rev) = (transition.now, transition.run.version);
    transition.run.holds += 1;
    let id = HoldId {
        run: transition.run.id,
        number: transition.run.holds,
    };
    let due = after(now, length_ms);
    let Some(step) = transition.step_mut(index) else {
        return;
    };
    let timer = Timer::Set { rev, at: now, due };
    step.phase = StepPhase::Waiting(Hold {
        id,
        since: now,
        length_ms,
        timer,
    });
    let step = step.id.clone();
    // What every action returns (S0-R5): a wait says at once when it will end.
    let response = ActionResult {
        success: true,
        description: format!("Waiting {}.", describe(Duration::from_millis(length_ms))),
        error: None,
        data: json!({ "scheduled": true, "resume_at": instant::write(due) }),
        duration_ms: 0,
    };
    let data = RowData {
        response: Some(response),
        ..RowData::default()
    };
    transition.row(index, data);
    let workspace = transition.run.workspace.clone();
    transition.effect(Effect::Timer {
        workspace,
        hold: id,
        rev,
        due: Some(due),
    });
    transition.event(
        EventType::RunWaiting,
        Some(&step),
        will_resume(length_ms),
        json!({ "hold": id, "kind": "timer", "resume_at": instant::write(due), "duration_ms": length_ms }),
    );
}

/// The literal text of S0-AC1.
pub(super) fn will_resume(ms: u64) -> String {
    format!(
        "Agent paused. Will resume in {}.",
        describe(Duration::from_millis(ms))
    )
}

/// Largest arguments of a dispatch, in bytes of JSON: what the bus and every worker takes.
pub(super) const ARGS_BYTES_MAX: usize = 256 * 1024;

/// Hands a step out: the one place where that happens. What may not run fails here, closed.
pub(super) fn step_dispatch(
    transition: &mut RunTransition<'_>,
    index: usize,
    args: Value,
    planned: &PlannedStep,
) {
    let Action::Tool { tool, .. } = &planned.action else {
        return;
    };
    let bytes = json_bytes(&args);
    if bytes > ARGS_BYTES_MAX {
        let message =
            format!("the arguments are {bytes} bytes of JSON; {ARGS_BYTES_MAX} is the most");
        return fail_step(transition, index, "arguments_too_large", &message, None);
    }
    let Ok(tool_name) = tool.parse() else {
        return fail_step(
            transition,
            index,
            "invalid_tool",
            &format!("`{tool}` is no tool's name"),
            None,
        );
    };
    let registered = tool_need(transition, planned).map(|need| transition.lookup(&need));
    let registered = match registered {
        Some(Lookup::Found(Fact::Tool(tool))) => Some(tool),
        Some(Lookup::NotLoaded | Lookup::Missing | Lookup::Found(_)) | None => None,
    };
    if let Some((code, message)) = registered
        .as_deref()
        .and_then(|it| blocked_reason(it, tool))
    {
        return fail_step(transition, index, code, &message, None);
    }
    let handed = Dispatched {
        at: transition.now,
        idempotent: match &registered {
            Some(tool) => tool.spec.idempotent,
            None => is_idempotent(tool, &args),
        },
        lease_ms: planned.claim_timeout_ms.unwrap_or(LEASE_DEFAULT_MS),
    };
    let Some(step) = transition.step_mut(index) else {
        return;
    };
    step.dispatch += 1;
    step.attempts += 1;
    step.phase = StepPhase::Queued(handed);
    step.questions.blocked_ms = 0;
    let (dispatch, attempt) = (step.dispatch, step.attempts);
    let data = RowData {
        tool: Some(tool.to_owned()),
        request: Some(args.clone()),
        ..RowData::default()
    };
    transition.row(index, data);
    transition.event(
        EventType::StepCalled,
        Some(&planned.id),
        planned.action.describe(),
        json!({ "tool": tool, "dispatch": dispatch, "attempt": attempt }),
    );
    let called = ToolInvocation {
        tool: tool_name,
        args,
        http: registered.map(|tool| tool.spec.http.clone()),
        answers: asking::answers(transition, index),
    };
    if let Some(step) = transition.step(index)
        && let Some(step_dispatch) = transition.run.step_dispatch(step, called)
    {
        transition.effect(Effect::StepDispatch(Box::new(step_dispatch)));
    }
}

/// Why a registered tool may not be called: code and text.
fn blocked_reason(registered: &Tool, tool: &str) -> Option<(&'static str, String)> {
    if registered.deleted {
        let message = format!("the tool `{tool}` was deleted");
        return Some(("tool_deleted", message));
    }
    match registered.spec.risk {
        Risk::Low | Risk::Medium => None,
        Risk::High => Some((
            "approval_required",
            format!(
                "the tool `{tool}` has risk `high`: it never runs without an approval, and this \
                 release cannot ask for one"
            ),
        )),
    }
}

/// Whether doing a step twice does no harm: `log` never does, others where the author says so.
fn is_idempotent(tool: &str, args: &Value) -> bool {
    tool == "log"
        || args
            .get("idempotent")
            .and_then(Value::as_bool)
            .unwrap_or(false)
}

/// Whose doing a failure is.
fn class_of(code: &str) -> FailureClass {
    match code {
        "approval_required" | ASSIGNEE_INACTIVE | "withdrawn" => FailureClass::Policy,
        HUMAN_TIMEOUT => FailureClass::HumanTimeout,
        // Its worker was lost; a person only says that nobody knows more.
        "given_up" => FailureClass::Infra,
        _ => FailureClass::Agent,
    }
}

/// A step failed for good: so does the run.
pub(super) fn fail_step(
    transition: &mut RunTransition<'_>,
    index: usize,
    code: &str,
    message: &str,
    told: Option<ToolError>,
) {
    let now = transition.now;
    let Some(step) = transition.step_mut(index) else {
        return;
    };
    step.phase = StepPhase::Failed { at: now };
    let id = step.id.clone();
    let (raw_error, response) = told.map(|told| (told.raw, told.response)).unzip();
    let data = RowData {
        response,
        raw_error,
        error_code: Some(code.to_owned()),
        why: Some(message.to_owned()),
        ..RowData::default()
    };
    transition.row(index, data);
    let data = json!({ "code": code });
    transition.event(EventType::StepFailed, Some(&id), message.to_owned(), data);
    transition.fail(Failure {
        class: class_of(code),
        code: code.to_owned(),
        // Its words are fixed (S0-R1).
        message: match code {
            ASSIGNEE_INACTIVE => message.to_owned(),
            _ => format!("{id}: {message}"),
        },
    });
}

fn complete(transition: &mut RunTransition<'_>) {
    let count = |is: fn(&StepPhase) -> bool| {
        transition
            .run
            .steps
            .iter()
            .filter(|step| is(&step.phase))
            .count()
    };
    let done = count(|phase| matches!(phase, StepPhase::Completed { .. }));
    let skipped = count(|phase| matches!(phase, StepPhase::Skipped { .. }));
    let steps = if done == 1 { "step" } else { "steps" };
    let summary = match skipped {
        0 => format!("{done} {steps} done."),
        _ => format!("{done} {steps} done, {skipped} skipped."),
    };
    transition.end(Phase::Completed {
        at: transition.now,
        summary: summary.clone(),
    });
    let data = json!({ "done": done, "skipped": skipped });
    transition.event(EventType::RunCompleted, None, summary, data);
}
