//! The sweep of dispatches has found that no live node offers the tool of a queued step.

use holdpoint_ids::ToolName;

use crate::domain::effect::Reply;
use crate::domain::rules::missing_tools::ask_about_missing_tool;
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

pub(crate) fn report_missing_tool<'a>(
    mut transition: RunTransition<'a>,
    step: &str,
    dispatch: u64,
    tool: &ToolName,
) -> RunDecision<'a> {
    let mut steps = transition.run.steps.iter();
    let index = steps.position(|it| it.id == step && it.dispatch == dispatch);
    if let Some(index) = index.filter(|_| transition.run.may_call()) {
        ask_about_missing_tool(&mut transition, index, tool);
    }
    if transition.run.holds == transition.before.holds {
        return Ok(RunOutcome::Unchanged(Reply::Nothing(())));
    }
    transition.decided(Reply::Nothing(()))
}
