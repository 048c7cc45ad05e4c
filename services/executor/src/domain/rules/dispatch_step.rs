//! The only place that sends a step to its queue.

use holdpoint_contracts::asking::Answers;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::steps::LEASE_DEFAULT_MS;
use holdpoint_contracts::tool::Risk;
use holdpoint_ids::RunId;
use serde_json::{Value, json};

use crate::domain::decision::Lookup;
use crate::domain::effect::Effect;
use crate::domain::model::plan::{Action, PlannedStep};
use crate::domain::model::run::{Dispatched, Step, StepPhase, ToolInvocation};
use crate::domain::model::tool::{Tool, is_built_in};
use crate::domain::need::{Fact, Key, Need};
use crate::domain::rules::fail_step::fail_step;
use crate::domain::transition::{RowData, RunTransition};

/// The need for the registered tool of a step.
pub(crate) fn tool_need(transition: &RunTransition<'_>, planned: &PlannedStep) -> Option<Need> {
    let tool = planned.action.tool().filter(|tool| !is_built_in(tool))?;
    let name = tool.parse().ok()?;
    Some(Need::State(Key::Tool(
        transition.run.workspace.clone(),
        name,
    )))
}

/// Largest arguments of a dispatch, in bytes of JSON: what the bus and every worker takes.
pub(crate) const ARGS_BYTES_MAX: usize = 256 * 1024;

/// Dispatches a step. A step that must not run fails here.
pub(crate) fn dispatch_step(
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
        let message = format!(
            "the arguments are {bytes} bytes of JSON; at most {ARGS_BYTES_MAX} are allowed"
        );
        return fail_step(transition, index, "arguments_too_large", &message, None);
    }
    let Ok(tool_name) = tool.parse() else {
        return fail_step(
            transition,
            index,
            "invalid_tool",
            &format!("`{tool}` is not a valid tool name"),
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
        timeout_ms: planned.timeout_ms,
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
        answers: given_answers(transition, index),
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

/// Whether a repetition does no harm: `log` always, other tools if the author says so.
fn is_idempotent(tool: &str, args: &Value) -> bool {
    tool == "log"
        || args
            .get("idempotent")
            .and_then(Value::as_bool)
            .unwrap_or(false)
}

/// The needs for the answers to a step's tool.
pub(crate) fn answer_needs(run: RunId, step: &Step) -> Vec<Need> {
    let names = step.questions.answer_names();
    names.map(|name| Need::Value(run, name)).collect()
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
