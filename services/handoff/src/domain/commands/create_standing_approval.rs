//! `handoff.create_standing_approval`: a person approves calls in advance.

use chrono::{DateTime, Utc};
use holdpoint_auth::Right;
use holdpoint_contracts::form::plain;
use holdpoint_contracts::handoff::{CreateStandingApproval, StandingApprovalTerms};
use holdpoint_contracts::problem::FieldError;
use holdpoint_holds::check_text;
use holdpoint_holds::json_schema::schema_error;

use crate::domain::decision::{Change, Fact, Need, Outcome, Undecided};
use crate::domain::effect::Reply;
use crate::domain::input::Caller;
use crate::domain::lookup::Facts;
use crate::domain::model::aggregate::Aggregate;
use crate::domain::model::limits::{
    EARLY_APPROVALS_MAX, STANDING_APPROVAL_LIFE_MS, STANDING_APPROVAL_LIFE_TEXT,
    STANDING_APPROVAL_USES, STANDING_APPROVALS_MAX, STANDING_APPROVALS_PER_CALL_MAX,
    VERSION_CHARS_MAX,
};
use crate::domain::model::standing_approval::{CountedStandingApproval, StandingApproval};
use crate::domain::refusal::Refusal;
use crate::domain::rules::authorization::require_right;

/// Longest id of a step of a planned call, in characters.
const STEP_CHARS_MAX: usize = 200;

/// Length of SHA-256 as hex.
const DIGEST_CHARS: usize = 64;

/// Any person who may decide creates one. Each use checks whether that person may decide the request at hand.
pub(crate) fn create_standing_approval(
    known: Option<&StandingApproval>,
    command: &CreateStandingApproval,
    caller: &Caller,
    facts: Facts<'_>,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    let id = command.id;
    let user = require_right(caller, Right::Decide, facts)?;
    // `require_right` refuses an unsigned command, which never has the right to decide.
    let Some(user) = user else {
        return Err(Refusal::NoStandingApproval(id).into());
    };
    let terms = StandingApprovalTerms {
        reason: command.terms.reason.as_deref().map(plain),
        ..command.terms.clone()
    };
    if let Some(known) = known {
        let is_same = known.created_by == user.name && known.terms == terms;
        return if is_same {
            Ok(Outcome::Unchanged(reply(known, now)))
        } else {
            Err(Refusal::StandingApprovalTaken(id).into())
        };
    }
    let errors = find_errors(&terms);
    if !errors.is_empty() {
        return Err(Refusal::InvalidFields(errors).into());
    }
    let approval = StandingApproval {
        workspace: facts.workspace.clone(),
        id,
        terms,
        created_by: user.name,
        created_at: now,
        revoked: None,
        version: 1,
    };
    let kind = approval.call_kind();
    let mut of_call = facts.standing_approvals(&kind, now)?;
    if of_call.len() >= STANDING_APPROVALS_PER_CALL_MAX {
        return Err(Refusal::TooManyOfOneCall(kind).into());
    }
    let is_early = kind.planned.is_some();
    let need = Need::StandingApprovalCount {
        workspace: facts.workspace.clone(),
        is_early,
        now,
    };
    let count = facts.find(need.clone(), Fact::try_as_standing_approval_count)?;
    let count = count.unwrap_or_default();
    if is_early && count >= EARLY_APPROVALS_MAX {
        return Err(Refusal::TooManyEarlyApprovals.into());
    }
    if !is_early && count >= STANDING_APPROVALS_MAX {
        return Err(Refusal::TooManyStandingApprovals.into());
    }
    let reply = reply(&approval, now);
    of_call.push(CountedStandingApproval {
        approval: approval.clone(),
        used: 0,
    });
    let of_kind = Need::StandingApprovals(approval.workspace.clone(), kind, now);
    Ok(Outcome::Decided(Box::new(Change {
        state: Aggregate::StandingApproval(Box::new(approval)),
        effects: Vec::new(),
        // Later decisions of the same batch must count it.
        facts: vec![
            (need, Fact::StandingApprovalCount(count + 1)),
            (of_kind, Fact::StandingApprovals(of_call)),
        ],
        reply,
    })))
}

fn reply(approval: &StandingApproval, now: DateTime<Utc>) -> Reply {
    let counted = CountedStandingApproval {
        approval: approval.clone(),
        used: 0,
    };
    Reply::StandingApproval(Box::new(counted.view(now, Vec::new())))
}

fn find_errors(terms: &StandingApprovalTerms) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !STANDING_APPROVAL_USES.contains(&terms.max_uses) {
        let (least, most) = (STANDING_APPROVAL_USES.start(), STANDING_APPROVAL_USES.end());
        let message = format!("expected {least} to {most}");
        errors.push(FieldError::at("/max_uses", message));
    }
    if !STANDING_APPROVAL_LIFE_MS.contains(&terms.expires_in) {
        errors.push(FieldError::at("/expires_in", STANDING_APPROVAL_LIFE_TEXT));
    }
    if let Some(message) = schema_error(&terms.args_schema) {
        errors.push(FieldError::at("/args_schema", message));
    }
    let version = terms.version.as_deref().unwrap_or("-");
    if version.is_empty() || version.chars().count() > VERSION_CHARS_MAX {
        let message = format!("expected 1 to {VERSION_CHARS_MAX} characters");
        errors.push(FieldError::at("/version", message));
    }
    if let Some(call) = &terms.call {
        if terms.max_uses != 1 {
            errors.push(FieldError::at("/max_uses", "expected 1 for one call"));
        }
        if call.step.is_empty() || call.step.chars().count() > STEP_CHARS_MAX {
            let message = format!("expected 1 to {STEP_CHARS_MAX} characters");
            errors.push(FieldError::at("/call/step", message));
        }
        let is_hex = call.digest.chars().all(|c| c.is_ascii_hexdigit());
        if call.digest.len() != DIGEST_CHARS || !is_hex {
            let message =
                format!("expected the digest of a call: {DIGEST_CHARS} characters of hex");
            errors.push(FieldError::at("/call/digest", message));
        }
    }
    if let Some(Err(message)) = terms.reason.as_deref().map(check_text) {
        errors.push(FieldError::at("/reason", message));
    }
    errors
}
