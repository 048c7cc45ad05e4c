//! The only place that sends a step to its queue.

use holdpoint_contracts::asking::Answers;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::steps::LEASE_DEFAULT_MS;
use holdpoint_contracts::tool::START_PLAN;
use holdpoint_holds::json_schema::{join_errors, value_errors};
use holdpoint_holds::redaction::{ARGS, without_values};
use holdpoint_ids::ToolName;
use serde_json::{Value, json};

use crate::domain::decision::{Lookup, Undecided};
use crate::domain::effect::Effect;
use crate::domain::model::plan::{Action, PlannedStep};
use crate::domain::model::run::{Dispatched, MissingTool, Run, Step, StepPhase, ToolInvocation};
use crate::domain::model::tool::{ToolEntry, is_always_idempotent, is_built_in};
use crate::domain::need::{Fact, Key, Need};
use crate::domain::rules::approval_gate::{Gate, ToolCall, gate_needs, may_repeat, pass_gate};
use crate::domain::rules::budgets::{count_call, hold_by_budget};
use crate::domain::rules::fail_step::fail_step;
use crate::domain::rules::redaction::record_redaction;
use crate::domain::rules::run_plan::start_plan;
use crate::domain::transition::{RowData, RunTransition};

/// The needs for the registry entries of the tool of a step.
pub(crate) fn tool_needs(
    transition: &RunTransition<'_>,
    planned: &PlannedStep,
) -> impl Iterator<Item = Need> + use<> {
    let tool = planned.action.tool().filter(|tool| !is_built_in(tool));
    let name = tool.and_then(|tool| tool.parse().ok());
    let workspace = &transition.run.workspace;
    let keys = name.map(|name| Key::of_tool(workspace, &name));
    keys.into_iter().flatten().map(Need::State)
}

/// Largest arguments of a dispatch, in bytes of JSON: what the bus and every worker takes.
pub(crate) const ARGS_BYTES_MAX: usize = 256 * 1024;

/// Dispatches a step. A step that must not run fails here, and a gated one waits for its approval.
pub(crate) fn dispatch_step(
    transition: &mut RunTransition<'_>,
    index: usize,
    args: Value,
    planned: &PlannedStep,
) {
    let Action::Tool { tool, .. } = &planned.action else {
        return;
    };
    // Before the gate, so that no approval is used up. The start of a plan calls nothing.
    if tool != START_PLAN && hold_by_budget(transition, index) {
        return;
    }
    let (entry, tool_name) = match callable(transition, planned, tool, &args) {
        Ok(found) => found,
        Err((code, message)) => return fail_step(transition, index, code, &message, None),
    };
    record_redaction(transition, index, &entry);
    let call = ToolCall {
        tool: &tool_name,
        entry: &entry,
        args,
    };
    let called = transition
        .step(index)
        .map(|step| call.called(planned, step));
    let (args, is_gated) = match pass_gate(transition, index, planned, call) {
        Gate::Ungated(args) => (args, false),
        Gate::Approved(args) => (args, true),
        Gate::Closed => return,
    };
    if tool == START_PLAN
        && let Ok(plan) = transition.plan()
    {
        return start_plan(transition, &plan.plan, index, &args);
    }
    // People may have edited them. The handoff service has checked that against the schema of that time.
    if is_gated && let Some(message) = invalid_args(&entry, &args) {
        return fail_step(transition, index, INVALID_ARGS, &message, None);
    }
    let handed = Dispatched {
        at: transition.now,
        // Another node's promise says nothing of the worker that gets the step. It counts at the start.
        idempotent: entry.is_promised_by_operator()
            || (entry.http().is_none() && is_idempotent(tool, &args)),
        lease_ms: planned.claim_timeout_ms.unwrap_or(LEASE_DEFAULT_MS),
        is_gated,
        revision: entry.revision(),
        has_result_schema: entry.result_schema().is_some(),
        timeout_ms: planned.timeout_ms.or_else(|| entry.timeout_ms()),
        retry: entry.retry().map(|retry| Box::new(retry.into())),
        missing_tool: MissingTool::NotAsked,
    };
    let Some(step) = transition.step_mut(index) else {
        return;
    };
    step.dispatch += 1;
    step.attempts += 1;
    step.phase = StepPhase::Queued(handed);
    step.questions.blocked_ms = 0;
    let data = RowData {
        tool: Some(tool.clone()),
        called: called.map(Box::new),
        request: Some(args.clone()),
        ..RowData::default()
    };
    record_call(transition, index, planned, data);
    let called = ToolInvocation {
        tool: tool_name,
        args,
        http: entry.http().cloned(),
        answers: given_answers(transition, index),
    };
    if let Some(step) = transition.step(index)
        && let Some(step_dispatch) = transition.run.step_dispatch(step, called)
    {
        transition.effect(Effect::StepDispatch(Box::new(step_dispatch)));
    }
}

/// Stores the request of a call, counts it, and adds it to the history.
fn record_call(
    transition: &mut RunTransition<'_>,
    index: usize,
    planned: &PlannedStep,
    data: RowData,
) {
    let Some(step) = transition.step(index) else {
        return;
    };
    let (id, dispatch, attempt) = (step.id.clone(), step.dispatch, step.attempts);
    count_call(transition);
    let tool = data.tool.clone();
    transition.row(index, data);
    transition.event(
        EventType::StepCalled,
        Some(&id),
        planned.action.describe(),
        json!({ "tool": tool, "dispatch": dispatch, "attempt": attempt }),
    );
}

/// Whether a step may be dispatched with the arguments of its earlier dispatch.
pub(crate) fn may_dispatch_again(
    transition: &RunTransition<'_>,
    index: usize,
    planned: &PlannedStep,
    args: &Value,
) -> bool {
    let Some(Ok(tool)) = planned.action.tool().map(str::parse) else {
        return true;
    };
    let (entry, _) = tool_entry(transition, planned);
    let call = ToolCall {
        tool: &tool,
        entry: &entry,
        args: args.clone(),
    };
    may_repeat(transition, index, planned, &call)
}

/// The registry entries of the tool of a step, which are loaded if they are not yet.
pub(crate) fn load_tool_entry(
    transition: &RunTransition<'_>,
    index: usize,
) -> Result<ToolEntry, Undecided> {
    let plan = transition.plan()?;
    let Some(planned) = transition.planned(&plan, index) else {
        return Ok(ToolEntry::default());
    };
    let (entry, unloaded) = tool_entry(transition, planned);
    if unloaded.is_empty() {
        Ok(entry)
    } else {
        Err(Undecided::NeedsMore(unloaded))
    }
}

/// The loaded registry entries of the tool of a step, and the needs for the others.
fn tool_entry(transition: &RunTransition<'_>, planned: &PlannedStep) -> (ToolEntry, Vec<Need>) {
    let mut entry = ToolEntry::default();
    let mut unloaded = Vec::new();
    for need in tool_needs(transition, planned) {
        match transition.lookup(&need) {
            Lookup::Found(Fact::Tool(tool)) => entry.add(tool),
            Lookup::NotLoaded => unloaded.push(need),
            Lookup::Missing | Lookup::Found(_) => {}
        }
    }
    (entry, unloaded)
}

/// Code and message of a call that is not made.
type NotCallable = (&'static str, String);

/// A tool that may be called with these arguments: its registry entries and its name.
fn callable(
    transition: &RunTransition<'_>,
    planned: &PlannedStep,
    tool: &str,
    args: &Value,
) -> Result<(ToolEntry, ToolName), NotCallable> {
    let bytes = json_bytes(args);
    if bytes > ARGS_BYTES_MAX {
        let message = format!(
            "the arguments are {bytes} bytes of JSON; at most {ARGS_BYTES_MAX} are allowed"
        );
        return Err(("arguments_too_large", message));
    }
    // Without its registration the risk of a tool is not known, and nothing may start.
    let (entry, unloaded) = tool_entry(transition, planned);
    if !unloaded.is_empty() {
        let message = "the registration of its tool was not loaded";
        return Err(("tool_not_loaded", message.to_owned()));
    }
    if entry.is_deleted() {
        return Err(("tool_deleted", format!("the tool `{tool}` was deleted")));
    }
    if let Some(message) = invalid_args(&entry, args) {
        return Err((INVALID_ARGS, message));
    }
    match tool.parse() {
        Ok(name) => Ok((entry, name)),
        Err(_invalid) => Err(("invalid_tool", format!("`{tool}` is not a valid tool name"))),
    }
}

/// Code of a step whose arguments do not fit the schema of its tool.
const INVALID_ARGS: &str = "invalid_args";

/// Why the arguments do not fit the schema of a registered tool.
fn invalid_args(entry: &ToolEntry, args: &Value) -> Option<String> {
    let schema = entry.args_schema()?;
    let errors = without_values(value_errors(schema, args), ARGS, &entry.redaction());
    let has_errors = !errors.is_empty();
    has_errors.then(|| {
        format!(
            "the arguments do not fit `args_schema`: {}",
            join_errors(&errors)
        )
    })
}

/// Whether a repetition does no harm: some built-in tools always, others if the author says so.
fn is_idempotent(tool: &str, args: &Value) -> bool {
    is_always_idempotent(tool)
        || args
            .get("idempotent")
            .and_then(Value::as_bool)
            .unwrap_or(false)
}

/// What a dispatch of a step needs from the past of the step: the answers to its tool, and its approval.
pub(crate) fn dispatch_needs(run: &Run, step: &Step) -> Vec<Need> {
    let names = step.questions.answer_names();
    let answers = names.map(|name| Need::Value(run.id, name));
    answers.chain(gate_needs(run, step)).collect()
}

/// The answers for a dispatch. They must be loaded before.
pub(crate) fn given_answers(transition: &RunTransition<'_>, index: usize) -> Answers {
    let Some(step) = transition.step(index) else {
        return Answers::new();
    };
    step.questions.answers(|name| {
        match transition.lookup(&Need::Value(transition.run.id, name.to_owned())) {
            Lookup::Found(Fact::Value(answer)) => Some(answer),
            Lookup::NotLoaded | Lookup::Missing | Lookup::Found(_) => None,
        }
    })
}
