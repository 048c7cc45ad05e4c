//! `handoff.withdraw_hold`: the opener or an operator withdraws a standalone hold.

use holdpoint_auth::Right;
use holdpoint_contracts::notification::RequestEventKind;

use crate::domain::decision::{Outcome, Undecided};
use crate::domain::effect::Reply;
use crate::domain::input::Caller;
use crate::domain::lookup::DecisionContext;
use crate::domain::model::request::{Phase, Request};
use crate::domain::refusal::Refusal;
use crate::domain::rules::authorization::{may_manage, require_right, require_version};
use crate::domain::transition::RequestTransition;

/// Withdraws a hold. Withdrawing it twice changes nothing.
pub(crate) fn withdraw_hold(
    request: Option<&Request>,
    caller: &Caller,
    version: Option<u64>,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    let user = require_right(caller, Right::Ask, context.facts)?;
    let request = request
        .filter(|request| request.spec.is_some())
        .ok_or(Refusal::NoRequest(context.id))?;
    if request.owner.is_some() {
        return Err(Refusal::OfRun(context.id).into());
    }
    if !may_manage(request, caller, user.as_ref()) {
        let (id, action) = (context.id, "withdraw it");
        return Err(Refusal::NotYours { id, action }.into());
    }
    if matches!(request.phase, Phase::Withdrawn { .. }) {
        return Ok(Outcome::Unchanged(Reply::of_request(request)));
    }
    if let Some(end) = request.end() {
        return Err(Refusal::already_decided(context.id, end, false).into());
    }
    require_version(request, version)?;
    let by = caller.name();
    let mut transition = RequestTransition::on(request, context.now);
    transition.request.phase = Phase::Withdrawn {
        reason: format!("withdrawn by {by}"),
        by: Some(by.clone()),
        at: context.now,
    };
    transition.close();
    transition.add_history("withdrawn", &by, None);
    let to = request.deciders();
    transition.notify(RequestEventKind::Withdrawn, Some(&by), to);
    Ok(transition.finish(Reply::of_request))
}
