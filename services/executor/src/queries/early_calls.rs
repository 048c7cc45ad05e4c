//! The calls that people may approve before their steps are reached (S2-R4).

use holdpoint_contracts::run::{EarlyCall, StepStatus, StepView};
use holdpoint_contracts::size::json_bytes;
use holdpoint_holds::limits::APPROVED_ARGS_BYTES_MAX;
use holdpoint_holds::redaction::{ARGS, redact};
use holdpoint_store::StoreError;
use serde_json::Value;

use super::ExecutorQueries;
use crate::domain::expression::has_placeholder;
use crate::domain::plan::{Plan, PlannedStep};
use crate::domain::tool::{ToolEntry, is_built_in};
use crate::domain::{Run, call_digest};

impl ExecutorQueries {
    /// Adds the call of each gated step that has not been reached and has literal arguments. Other runs cost no
    /// statement.
    pub(super) async fn add_early_calls(
        &self,
        run: &Run,
        plan: &Plan,
        steps: &mut [StepView],
    ) -> Result<(), StoreError> {
        if run.is_final() {
            return Ok(());
        }
        let args_of = |step: &StepView| {
            let mut steps = plan.steps.iter().filter(|_| is_early(step));
            literal_args(steps.find(|planned| planned.id == step.id)?)
        };
        let early: Vec<_> = steps.iter().map(args_of).collect();
        let names = steps.iter().zip(&early);
        let names = names.filter_map(|(step, args)| args.as_ref().and(step.tool.clone()));
        let names: Vec<_> = names.filter(|name| !is_built_in(name.as_str())).collect();
        if early.iter().all(Option::is_none) {
            return Ok(());
        }
        let entries = self.tool_entries(&run.workspace, names).await?;
        for (step, args) in steps.iter_mut().zip(early) {
            let (Some(args), Some(tool)) = (args, &step.tool) else {
                continue;
            };
            let none = ToolEntry::default();
            let entry = entries.get(tool).unwrap_or(&none);
            if entry.is_deleted() || json_bytes(&args) > APPROVED_ARGS_BYTES_MAX {
                continue;
            }
            let version = entry.version();
            let digest = call_digest(tool, version.as_deref(), &args);
            let mut shown = args;
            redact(&mut shown, ARGS, &entry.redaction());
            step.early_call = digest.map(|digest| EarlyCall {
                version,
                args: shown,
                digest,
            });
        }
        Ok(())
    }
}

/// Whether a gated step was never asked about. After a retry or a revision, people are asked again when it is reached.
fn is_early(step: &StepView) -> bool {
    step.status == StepStatus::Planned
        && step.waiting_confirm
        && step.approval_state.is_none()
        && step.dispatch == 0
        && step.item.is_none()
}

/// The arguments of a step without expressions. Its digest is known before the step is reached.
fn literal_args(planned: &PlannedStep) -> Option<Value> {
    let is_call = planned.action.tool().is_some() && planned.for_each.is_none();
    let args = planned.action.template().filter(|_| is_call)?;
    is_literal(&args).then(|| args.into_owned())
}

fn is_literal(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => !has_placeholder(text),
        Value::Array(items) => items.iter().all(is_literal),
        Value::Object(fields) => fields
            .iter()
            .all(|(name, value)| !has_placeholder(name) && is_literal(value)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Gate: only literal arguments have a digest before their step.
    #[test]
    fn only_literal_arguments_are_known_early() {
        let plan = |args: &str, more: &str| {
            let text = format!(
                "agent: refund\nsteps:\n- {{ id: pay, tool: pay, args: {args}, approval: {{}}{more} }}\n"
            );
            Plan::compile(&text).unwrap()
        };
        let args = |plan: &Plan| literal_args(&plan.steps[0]);
        let literal = plan("{ amount: 250, to: [a, { b: null }] }", "");
        let known = json!({ "amount": 250, "to": ["a", { "b": null }] });
        assert_eq!(args(&literal), Some(known));
        for expression in ["$input.amount", "\"{{ 1 + 1 }}\"", "[\"a {{ input.b }}\"]"] {
            let plan = plan(&format!("{{ amount: {expression} }}"), "");
            assert_eq!(args(&plan), None, "{expression}");
        }
        assert_eq!(args(&plan("{ a: 1 }", ", for_each: [1, 2]")), None);
    }
}
