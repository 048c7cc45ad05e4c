//! What the end of an approval request does to its step (S2-R4).

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::run::ApprovalState;
use holdpoint_holds::redaction::{ARGS, redact};
use serde_json::{Value, json};

use crate::domain::decision::Undecided;
use crate::domain::model::run::{
    ApprovalDecision, HoldClosure, PersonHold, StepPhase, edited_args_name,
};
use crate::domain::rules::conditions::skip_because;
use crate::domain::rules::end_person_step::{fail_on_timeout, fail_refused};
use crate::domain::rules::revisions::revise_step;
use crate::domain::transition::{RowData, RunTransition};

pub(crate) fn close_approval(
    transition: &mut RunTransition<'_>,
    index: usize,
    on: &PersonHold,
    closing: &HoldClosure,
) -> Result<(), Undecided> {
    match closing.outcome {
        HoldOutcome::Revised => return revise_step(transition, index, closing),
        HoldOutcome::Approved => approve_step(transition, index, closing),
        HoldOutcome::Rejected => reject_step(transition, index, closing),
        // A rung of its ladder ended it: the deadline alone only escalates.
        HoldOutcome::Timeout => fail_on_timeout(transition, index, on),
        HoldOutcome::Cancelled => fail_refused(transition, index, closing),
        HoldOutcome::Answered
        | HoldOutcome::Completed
        | HoldOutcome::TakenOver
        | HoldOutcome::Fired => {}
    }
    Ok(())
}

/// The step starts again. Its arguments are resolved on fresh data, and the gate compares them with what was
/// approved.
fn approve_step(transition: &mut RunTransition<'_>, index: usize, closing: &HoldClosure) {
    let mut edited = closing.data.get("edited_args").cloned();
    if let (Some(edited), Some(step)) = (&mut edited, transition.step(index)) {
        redact(edited, ARGS, &step.redaction);
    }
    let comment = closing.data.get("comment").unwrap_or(&closing.data);
    let decision = ApprovalDecision {
        by: closing.by.clone(),
        at: closing.at,
        comment: comment.as_str().map(str::to_owned),
        is_edited: edited.is_some(),
        edited_digest: None,
        votes: closing.approval.clone().unwrap_or_default().votes,
    };
    let Some(id) = record_decision(transition, index, ApprovalState::Approved, decision) else {
        return;
    };
    let policy_ms = closing.approval.as_ref().and_then(|it| it.valid_ms);
    if let Some(policy_ms) = policy_ms
        && let Some(step) = transition.step_mut(index)
        && let Some(approval) = step.approval.as_mut()
    {
        approval.limit_validity(policy_ms);
    }
    let with = if edited.is_some() {
        " with edited arguments"
    } else {
        ""
    };
    if let Some(edited) = &edited {
        transition.value(edited_args_name(&id), edited.clone());
    }
    transition.set_phase(index, StepPhase::Planned, RowData::default());
    let message = format!("{} approved {id}{with}.", closing.by);
    let data = json!({ "by": closing.by, "edited_args": edited });
    transition.event(EventType::RunResumed, Some(&id), message, data);
}

/// A rejected step is skipped, and the run goes on without it.
fn reject_step(transition: &mut RunTransition<'_>, index: usize, closing: &HoldClosure) {
    let reason = closing.data.as_str().unwrap_or_default();
    let decision = ApprovalDecision {
        by: closing.by.clone(),
        at: closing.at,
        comment: Some(reason.to_owned()),
        is_edited: false,
        edited_digest: None,
        votes: Vec::new(),
    };
    if record_decision(transition, index, ApprovalState::Rejected, decision).is_none() {
        return;
    }
    let message = format!(
        "{} rejected it: {}",
        closing.by,
        reason.trim_end_matches('.')
    );
    let data = json!({ "reason": "rejected", "by": closing.by, "comment": Value::from(reason) });
    skip_because(transition, index, format!("{message}."), data);
}

fn record_decision(
    transition: &mut RunTransition<'_>,
    index: usize,
    state: ApprovalState,
    decision: ApprovalDecision,
) -> Option<String> {
    let step = transition.step_mut(index)?;
    let approval = step.approval.as_mut()?;
    approval.state = state;
    approval.decision = Some(decision);
    Some(step.id.clone())
}
