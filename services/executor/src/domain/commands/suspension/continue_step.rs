//! `executor.continue_step`: a node was granted a step of an earlier suspension, and gets what the last call saved
//! (S1-R8).

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::suspension::{ContinuedStep, FoundSandbox, SnapshotView};
use serde_json::json;

use crate::domain::decision::{Lookup, Undecided};
use crate::domain::effect::Reply;
use crate::domain::input::ContinuedCall;
use crate::domain::model::run::StepPhase;
use crate::domain::need::{Fact, Need};
use crate::domain::refusal::Refusal;
use crate::domain::rules::suspension::sandbox_state::sandbox_state;
use crate::domain::rules::suspension::supplements::{part_of, set_part};
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

/// Replies with the part of the step, and records what the node has found of its sandbox. A second request changes
/// nothing.
pub(crate) fn continue_step<'a>(
    mut transition: RunTransition<'a>,
    call: &ContinuedCall,
) -> RunDecision<'a> {
    let mut steps = transition.run.steps.iter_mut();
    let step = steps.find(|step| step.id == call.step && step.dispatch == call.dispatch);
    let step = step
        .filter(|step| matches!(&step.phase, StepPhase::Granted(grant) if grant.node == call.node));
    let Some(step) = step else {
        return Err(Refusal::StepTokenVoid.into());
    };
    let nothing = RunOutcome::Unchanged(Reply::Continued(Box::default()));
    let Some(saved) = &mut step.saved_part else {
        return Ok(nothing);
    };
    let is_known = std::mem::replace(&mut saved.continued_by, call.dispatch) == call.dispatch;
    let Some(mut view) = load(&transition)? else {
        return Ok(nothing);
    };
    let Some(mut part) = part_of(&view.snapshot_json, &call.step) else {
        return Ok(nothing);
    };
    let found = part.sandbox.as_ref().map(|saved| FoundSandbox {
        state: sandbox_state(saved, call.sandbox.as_ref()),
        node: call.node.clone(),
        at: transition.now,
    });
    let reply = Reply::Continued(Box::new(ContinuedStep {
        write_buffer: part.write_buffer.clone(),
        checkpoint: part.checkpoint.clone(),
        sandbox: found.clone(),
        saved_at: Some(view.suspended_at),
    }));
    if is_known {
        return Ok(RunOutcome::Unchanged(reply));
    }
    let data = json!({ "node": call.node, "sandbox": found });
    if let Some(sandbox) = &mut part.sandbox {
        sandbox.found = found;
    }
    set_part(&mut view.snapshot_json, &call.step, part);
    transition.snapshot = Some(view);
    let node = &call.node;
    let message = format!("{node} continues with what the last call saved.");
    transition.event(EventType::StepContinued, Some(&call.step), message, data);
    transition.decided(reply)
}

fn load(transition: &RunTransition<'_>) -> Result<Option<Box<SnapshotView>>, Undecided> {
    let need = Need::Snapshot(transition.run.id);
    match transition.lookup(&need) {
        Lookup::Found(Fact::Snapshot(view)) => Ok(Some(Box::new((*view).clone()))),
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Missing | Lookup::Found(_) => Ok(None),
    }
}
