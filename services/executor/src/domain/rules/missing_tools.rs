//! A queued step whose tool no node offers: people are asked whether it keeps waiting.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec, OnTimeout};
use holdpoint_contracts::instant;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::ToolName;
use serde_json::json;

use crate::domain::model::run::{HoldClosure, MissingTool, Run, StepPhase};
use crate::domain::rules::fail_step::{TOOL_MISSING, fail_step};
use crate::domain::rules::open_hold::{answer_form, next_hold_id, open_hold};
use crate::domain::transition::RunTransition;

/// Time until the question escalates, in milliseconds: 1 day. It stays open.
const ASK_MS: u64 = 86_400_000;

const KEEP_WAITING: &str = "keep waiting";
const FAIL: &str = "fail the step";

/// Asks, unless people were asked about this dispatch. The question is a part of the queued state, so it ends with it.
pub(crate) fn ask_about_missing_tool(
    transition: &mut RunTransition<'_>,
    index: usize,
    tool: &ToolName,
) {
    let Some((step, handed)) = transition
        .step(index)
        .and_then(|step| Some((step, step.phase.try_as_queued_ref()?)))
    else {
        return;
    };
    if handed.missing_tool != MissingTool::NotAsked || step.on_people().is_some() {
        return;
    }
    let (step, since) = (step.id.clone(), instant::write(handed.at));
    match asked_of_siblings(&transition.run, index) {
        MissingTool::NotAsked => {}
        MissingTool::Open(_) => return,
        MissingTool::KeepsWaiting => {
            set_missing_tool(transition, index, MissingTool::KeepsWaiting);
            return;
        }
    }
    let id = next_hold_id(&mut transition.run);
    let question = format!(
        "No live node offers the tool {tool}, so {step} waits since {since}. Start a worker that offers it. Should the step keep waiting?"
    );
    let spec = HoldSpec {
        agent: Some(transition.run.agent.clone()),
        step: Some(step.clone()),
        options: vec![KEEP_WAITING.to_owned(), FAIL.to_owned()],
        reason: Some(TOOL_MISSING.to_owned()),
        requester: Some(transition.run.started_by.0.clone()),
        on_timeout: OnTimeout::Escalate,
        ..HoldSpec::asking(HoldKind::Input, question.clone())
    };
    let on = open_hold(transition, id, &spec, Some(ASK_MS));
    set_missing_tool(transition, index, MissingTool::Open(Box::new(on)));
    let data = json!({
        "request": id, "reason": TOOL_MISSING, "tool": tool,
        "questions": [{ "id": id, "question": question, "schema": answer_form(&spec) }],
    });
    transition.event(EventType::RunAwaitingInput, Some(&step), question, data);
}

/// What people were asked for another item of the same fan-out. One question is for all of them.
fn asked_of_siblings(run: &Run, index: usize) -> MissingTool {
    let asked = run.siblings(index).filter_map(|sibling| {
        let handed = run.steps.get(sibling)?.phase.try_as_queued_ref()?;
        Some(handed.missing_tool.clone())
    });
    let mut asked = asked.filter(|asked| *asked != MissingTool::NotAsked);
    asked.next().unwrap_or_default()
}

/// A node offers the tool again. The question is withdrawn, and asked again if the tool is missing later.
pub(crate) fn withdraw_missing_tool(transition: &mut RunTransition<'_>, index: usize) {
    let step = transition.step(index);
    if step.is_some_and(|step| step.missing_tool().is_some()) {
        set_missing_tool(transition, index, MissingTool::NotAsked);
    }
}

/// The step fails if a person says so. Else it keeps waiting.
pub(crate) fn end_missing_tool(
    transition: &mut RunTransition<'_>,
    index: usize,
    closing: &HoldClosure,
) {
    let is_answered = closing.outcome == HoldOutcome::Answered;
    let answer = closing.data.get("answer").unwrap_or(&closing.data);
    // A question without an answer is asked again.
    let next = if is_answered {
        MissingTool::KeepsWaiting
    } else {
        MissingTool::NotAsked
    };
    set_missing_tool(transition, index, next);
    if is_answered && answer == FAIL {
        let message = format!("No node offers its tool, and {} ended the wait", closing.by);
        let siblings: Vec<_> = transition.run.siblings(index).collect();
        fail_step(transition, index, TOOL_MISSING, &message, None);
        for sibling in siblings {
            let step = transition.step(sibling);
            if step.is_some_and(|step| step.phase.try_as_queued_ref().is_some()) {
                fail_step(transition, sibling, TOOL_MISSING, &message, None);
            }
        }
    }
}

/// Questions that were answered during a pause.
pub(crate) fn end_kept_missing_tools(transition: &mut RunTransition<'_>) {
    for index in 0..transition.run.steps.len() {
        let on = (transition.step(index)).and_then(|step| step.missing_tool());
        let Some((id, closing)) = on.and_then(|on| Some((on.id, on.closing.clone()?))) else {
            continue;
        };
        transition.run.closed.push(id.number);
        end_missing_tool(transition, index, &closing);
    }
}

fn set_missing_tool(transition: &mut RunTransition<'_>, index: usize, next: MissingTool) {
    if let Some(StepPhase::Queued(handed)) = transition.step_mut(index).map(|step| &mut step.phase)
    {
        handed.missing_tool = next;
    }
}
