//! `handoff.revoke_standing_approval`: its creator or an operator ends a standing approval. Votes that it has cast remain.

use chrono::{DateTime, Utc};
use holdpoint_auth::Right;
use holdpoint_ids::StandingApprovalId;

use crate::domain::decision::{Change, Outcome, Undecided};
use crate::domain::effect::Reply;
use crate::domain::input::Caller;
use crate::domain::lookup::Facts;
use crate::domain::model::aggregate::Aggregate;
use crate::domain::model::progress::AuditStamp;
use crate::domain::model::standing_approval::StandingApproval;
use crate::domain::refusal::Refusal;
use crate::domain::rules::authorization::{is_operator, require_right};

pub(crate) fn revoke_standing_approval(
    known: Option<&StandingApproval>,
    id: StandingApprovalId,
    caller: &Caller,
    facts: Facts<'_>,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    let user = require_right(caller, Right::Decide, facts)?;
    let (Some(user), Some(known)) = (user, known) else {
        return Err(Refusal::NoStandingApproval(id).into());
    };
    if known.created_by != user.name && !is_operator(caller, &user) {
        return Err(Refusal::NotYourStandingApproval(id).into());
    }
    if known.revoked.is_some() {
        return Ok(Outcome::Unchanged(Reply::EventRecorded));
    }
    let next = StandingApproval {
        revoked: Some(AuditStamp::new(user.name.as_str(), now)),
        version: known.version + 1,
        ..known.clone()
    };
    Ok(Outcome::Decided(Box::new(Change {
        state: Aggregate::StandingApproval(Box::new(next)),
        effects: Vec::new(),
        facts: Vec::new(),
        reply: Reply::EventRecorded,
    })))
}
