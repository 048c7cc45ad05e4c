//! What is shown of a call whose tool has `redaction` (S2-R2, S0-R5).
//!
//! The tool gets the hidden parts, the digest of a call covers them, and later steps may use them. All that people and
//! other services see goes through this rule.

use std::borrow::Cow;
use std::sync::Arc;

use holdpoint_contracts::run::ActionResult;
use holdpoint_holds::redaction::{
    ARGS, REDACTED, RESULT, hidden_texts, hide_texts, hide_texts_in, hides_any, redact,
};
use holdpoint_ids::RunId;
use serde_json::Value;

use crate::domain::decision::Undecided;
use crate::domain::expression::{Condition, EvalError, Scope, evaluate, seen_values};
use crate::domain::model::run::Step;
use crate::domain::model::tool::ToolEntry;
use crate::domain::need::Need;
use crate::domain::transition::RunTransition;

/// Records what the registry hides of the call that follows. The results of children are shown at their parent, too.
pub(crate) fn record_redaction(
    transition: &mut RunTransition<'_>,
    index: usize,
    entry: &ToolEntry,
) {
    let parent = transition.step(index).and_then(|step| step.child_of);
    let parent = parent.map(|of| of.parent);
    for place in parent.into_iter().chain([index]) {
        if let Some(step) = transition.step_mut(place) {
            step.redaction = entry.redaction();
        }
    }
}

/// A value of a step without its hidden parts. A result may repeat hidden arguments, which are not at hand here. So it is
/// hidden as a whole if there are some.
pub(crate) fn shown_part(step: &Step, root: &str, value: Arc<Value>) -> Arc<Value> {
    if root == RESULT && hides_any(ARGS, &step.redaction) {
        return Arc::new(Value::from(REDACTED));
    }
    if !hides_any(root, &step.redaction) {
        return value;
    }
    let mut shown = Arc::unwrap_or_clone(value);
    redact(&mut shown, root, &step.redaction);
    Arc::new(shown)
}

/// The result of a call without its hidden parts. Its texts may repeat them, and hidden arguments.
pub(crate) fn shown_result<'r>(
    transition: &RunTransition<'_>,
    index: usize,
    result: &'r ActionResult,
) -> Result<Cow<'r, ActionResult>, Undecided> {
    let Some(step) = transition.step(index) else {
        return Ok(Cow::Borrowed(result));
    };
    let paths = &step.redaction;
    if paths.is_empty() {
        return Ok(Cow::Borrowed(result));
    }
    let mut hidden = hidden_texts(&result.data, RESULT, paths);
    if let Some(need) = request_need(transition.run.id, step)
        && let Some(args) = transition.load_value(need)?
    {
        hidden.extend(hidden_texts(&args, ARGS, paths));
    }
    let mut data = result.data.clone();
    redact(&mut data, RESULT, paths);
    hide_texts_in(&mut data, &hidden);
    let hide = |text: &String| hide_texts(text, &hidden);
    Ok(Cow::Owned(ActionResult {
        description: hide(&result.description),
        error: result.error.as_ref().map(hide),
        data,
        ..result.clone()
    }))
}

/// A result that came too late. The arguments of its dispatch are not at hand, so it is hidden as a whole if there are hidden
/// ones.
pub(crate) fn shown_late_result<'r>(
    transition: &RunTransition<'_>,
    index: usize,
    result: &'r ActionResult,
) -> Result<Cow<'r, ActionResult>, Undecided> {
    let step = transition.step(index);
    if !step.is_some_and(|step| hides_any(ARGS, &step.redaction)) {
        return shown_result(transition, index, result);
    }
    Ok(Cow::Owned(ActionResult {
        description: REDACTED.to_owned(),
        error: result.error.as_ref().map(|_| REDACTED.to_owned()),
        data: Value::from(REDACTED),
        ..result.clone()
    }))
}

/// The arguments of a step that hides some; none: it hides none.
pub(crate) fn request_need(run: RunId, step: &Step) -> Option<Need> {
    let hides = hides_any(ARGS, &step.redaction);
    hides.then(|| Need::Request(run, step.id.clone()))
}

/// Decides a condition. Its values are those that may be shown.
pub(crate) fn evaluate_shown(
    transition: &RunTransition<'_>,
    when: &str,
    scope: &Scope<'_>,
) -> Result<Condition, EvalError> {
    let condition = evaluate(when, scope)?;
    let steps = transition.run.planned_steps();
    let hiding = steps.filter(|step| !step.redaction.is_empty());
    let hiding: Vec<_> = hiding
        .filter(|it| scope.steps.contains_key(&it.id))
        .collect();
    if hiding.is_empty() {
        return Ok(condition);
    }
    let mut shown = scope.clone();
    for step in hiding {
        if let Some(result) = shown.steps.get_mut(&step.id) {
            let whole = Arc::new(std::mem::take(result));
            *result = Arc::unwrap_or_clone(shown_part(step, RESULT, whole));
        }
    }
    Ok(Condition {
        values: seen_values(when, &shown),
        ..condition
    })
}
