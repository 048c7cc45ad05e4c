//! The first assignment of a request: who gets it, and what happens if nobody can.

use holdpoint_contracts::hold::{HoldOutcome, OPERATOR_TAKEOVER};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::{ASSIGNEE_INACTIVE, OWNERS, POLICY_UNAVAILABLE, inactive_message};
use serde_json::json;

use super::audience::{self, Assignment, AssignmentRules};
use super::quorum::{self, QuorumShortfall};
use super::standing_approvals::read_standing_approvals;
use crate::domain::decision::Undecided;
use crate::domain::lookup::{DecisionContext, load_together};
use crate::domain::model::progress::AuditStamp;
use crate::domain::model::request::{BY_EXECUTOR, BY_SERVICE, Phase};
use crate::domain::transition::RequestTransition;

/// Assigns a new request. A request whose recipient is inactive ends at once (S0-R1).
pub(crate) fn assign_new_request(
    transition: &mut RequestTransition,
    context: &DecisionContext<'_>,
) -> Result<(), Undecided> {
    let Some(spec) = transition.request.spec.clone() else {
        return Ok(());
    };
    let by = add_opening(transition);
    if spec.kind == HoldKind::Timer {
        return Ok(());
    }
    let excluded = transition.request.excluded();
    let shortfall = || quorum::check_quorum(&spec, &excluded, context);
    let rules = AssignmentRules {
        assign: spec.assign,
        excluded: excluded.clone(),
    };
    let assignment = || audience::assign(&spec.to, &rules, context);
    let standing = || read_standing_approvals(transition, &spec, context);
    load_together([
        assignment().map(drop),
        shortfall().map(drop),
        standing().map(drop),
    ])?;
    let standing = standing()?;
    let assigned = match assignment()? {
        Assignment::Inactive(name) => {
            cancel_inactive(transition, &name, spec.kind);
            return Ok(());
        }
        Assignment::Assigned(assigned) => assigned,
    };
    let progress = &mut transition.request.progress;
    progress.assignee = assigned.assignee;
    progress.reassigned_to = assigned.reassigned_to;
    progress.ladder.since = Some(context.now);
    if let Some(note) = assigned.note {
        transition.add_history("assigned", BY_SERVICE, Some(note));
    }
    if let Some(shortfall) = shortfall()? {
        add_owners(transition, &shortfall);
    }
    if spec.reason.as_deref() == Some(OPERATOR_TAKEOVER) {
        take_over_at_once(transition);
    }
    if let Some(standing) = standing
        && standing.cast(transition, spec.policy.need, context)?
    {
        return Ok(());
    }
    // A request that is decided at once does not count as open.
    transition.facts.extend(assigned.fact);
    let to = transition.request.audience();
    transition.notify(RequestEventKind::Opened, Some(&by), to);
    Ok(())
}

/// The run waits although too few people can decide, so the owners, who can give the role to more people,
/// are asked too.
fn add_owners(transition: &mut RequestTransition, shortfall: &QuorumShortfall) {
    let owners = OWNERS.to_owned();
    let mut to = transition.request.addressed_to().to_vec();
    if !to.is_empty() && !to.contains(&owners) {
        to.push(owners);
        transition.request.progress.reassigned_to = Some(to);
    }
    let note = format!(
        "{}; addressed to the owners too, who can give the role to more people or end the run",
        shortfall.describe()
    );
    transition.add_history("assigned", BY_SERVICE, Some(note));
}

/// The recipient has taken the run over at the executor, which therefore needs no message.
fn take_over_at_once(transition: &mut RequestTransition) {
    let Some(by) = transition.request.progress.assignee.as_ref() else {
        return;
    };
    let by = by.to_string();
    transition.add_history("taken_over", &by, None);
    transition.request.progress.taken_over = Some(AuditStamp::new(by, transition.at));
}

/// Begins the history of a request. Returns its opener.
fn add_opening(transition: &mut RequestTransition) -> String {
    let by = transition.request.opened_by.clone();
    let by = by.unwrap_or_else(|| BY_EXECUTOR.to_owned());
    let notes = &transition.request.progress.resolved_policies.notes;
    let note = (!notes.is_empty()).then(|| notes.join("; "));
    transition.add_history("opened", &by, note);
    by
}

/// Ends a request whose recipient is inactive. The executor fails the step with this literal text (S0-R1).
fn cancel_inactive(transition: &mut RequestTransition, name: &str, kind: HoldKind) {
    let message = inactive_message(kind, &name);
    cancel(transition, ASSIGNEE_INACTIVE, &message);
}

/// Ends a new approval request whose policies cannot be applied, before a person can decide it (S2-R4). The executor
/// fails the step, and a retry of the run asks again.
pub(crate) fn cancel_without_policy(transition: &mut RequestTransition, reason: &str) {
    add_opening(transition);
    cancel(transition, POLICY_UNAVAILABLE, reason);
}

/// Ends a new request. The executor fails the step with this code and message.
fn cancel(transition: &mut RequestTransition, code: &str, message: &str) {
    transition.add_history("withdrawn", BY_SERVICE, Some(message.to_owned()));
    transition.request.phase = Phase::Decided {
        outcome: HoldOutcome::Cancelled,
        data: json!({ "code": code, "message": message }),
        by: BY_SERVICE.to_owned(),
        at: transition.at,
    };
    transition.close();
    let to = transition.request.audience();
    transition.notify(RequestEventKind::Withdrawn, Some(BY_SERVICE), to);
}
