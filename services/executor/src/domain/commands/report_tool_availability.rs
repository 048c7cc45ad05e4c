//! The sweep of dispatches has looked for live nodes that offer the tool of a queued step.

use holdpoint_ids::ToolName;

use crate::domain::effect::Reply;
use crate::domain::rules::missing_tools::{ask_about_missing_tool, withdraw_missing_tool};
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

pub(crate) fn report_tool_availability<'a>(
    mut transition: RunTransition<'a>,
    step: &str,
    dispatch: u64,
    tool: &ToolName,
    is_offered: bool,
) -> RunDecision<'a> {
    let mut steps = transition.run.steps.iter();
    let index = steps.position(|it| it.id == step && it.dispatch == dispatch);
    match index.filter(|_| transition.run.may_call()) {
        Some(index) if is_offered => withdraw_missing_tool(&mut transition, index),
        Some(index) => ask_about_missing_tool(&mut transition, index, tool),
        None => {}
    }
    if transition.run.steps == transition.before.steps {
        return Ok(RunOutcome::Unchanged(Reply::Nothing(())));
    }
    transition.decided(Reply::Nothing(()))
}
