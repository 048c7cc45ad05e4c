//! `handoff.ask_again`: a caller opens a new request for one that ended without an answer. The new request
//! names the old one.

use holdpoint_auth::Right;
use holdpoint_contracts::handoff::AskAgain;
use holdpoint_contracts::hold::{HoldSpec, Policy as Votes};
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::deadline::{NO_END, default_timeout_ms};

use super::open_hold::{Opening, load_people, open_hold};
use crate::domain::decision::{Outcome, Undecided};
use crate::domain::effect::Reply;
use crate::domain::input::Caller;
use crate::domain::lookup::{DecisionContext, load_together};
use crate::domain::model::request::Request;
use crate::domain::refusal::Refusal;
use crate::domain::rules::authorization::{may_manage, require_right};

/// Opens the new request with the recipients and the timeout of the old one, unless the caller states others.
/// Limits count only for what the caller states.
/// Its id is derived from the old one's ([`holdpoint_ids::HoldId::asked_again`]), so that a second caller
/// finds it.
pub(crate) fn ask_again(
    request: Option<&Request>,
    caller: &Caller,
    wanted: &AskAgain,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    let authorize = || require_right(caller, Right::Ask, context.facts);
    let find_old = || context.facts.request(wanted.again);
    load_together([authorize().map(drop), find_old().map(drop)])?;
    let (user, old) = (authorize()?, find_old()?);
    let unknown = Refusal::NoRequest(wanted.again);
    let Some((old, spec)) = old
        .as_deref()
        .and_then(|old| Some((old, old.spec.as_ref()?)))
    else {
        return Err(unknown.into());
    };
    if old.owner.is_some() {
        return Err(Refusal::AskAgainOfRun(wanted.again).into());
    }
    if !may_manage(old, caller, user.as_ref()) {
        let (id, action) = (wanted.again, "ask it again");
        return Err(Refusal::NotYours { id, action }.into());
    }
    require_unanswered(old, spec.kind)?;
    if let Some(next) = request {
        return reply_if_asked_before(next, wanted);
    }
    let next_spec = next_spec(old, spec, wanted, caller);
    let opening = Opening {
        timeout_ms: next_timeout(old, &next_spec, wanted),
        spec: &next_spec,
        again: Some(wanted),
        earlier_openers: earlier_openers(old, caller),
    };
    let open = || open_hold(None, caller, &opening, context);
    // Most policies have not changed, so the people of the old request are asked for in the same round, and
    // not only once the policies are known.
    let as_before = load_people(spec, [caller.name().as_str()], context);
    load_together([as_before, open().map(drop)])?;
    open()
}

/// A caller was first. The existing request is the reply if it is the wanted one and did not end without an
/// answer.
fn reply_if_asked_before(next: &Request, wanted: &AskAgain) -> Result<Outcome, Undecided> {
    let spec = next.spec.as_ref();
    let Some(spec) = spec.filter(|spec| spec.asks_again == Some(wanted.again)) else {
        return Err(Refusal::Taken(next.id).into());
    };
    let by_policy = next.progress.resolved_policies.to.is_some();
    let differs = |to: &Vec<String>| *to != spec.to && !(by_policy && to.is_empty());
    let is_other = wanted.to.as_ref().is_some_and(differs)
        || wanted.timeout_ms.is_some_and(|ms| ms != next.timeout_ms);
    let (id, next_id) = (wanted.again, next.id);
    if next.is_unanswered() {
        return Err(Refusal::AskedAgainAndEnded { id, next: next_id }.into());
    }
    if is_other {
        return Err(Refusal::AskedAgainDifferently { id, next: next_id }.into());
    }
    Ok(Outcome::Unchanged(Reply::of_request(next)))
}

/// Requires that the request ended without an answer. A person's decision is final.
fn require_unanswered(old: &Request, kind: HoldKind) -> Result<(), Refusal> {
    let id = old.id;
    if kind == HoldKind::Timer {
        let action = "ask_again";
        return Err(Refusal::WrongKind { id, kind, action });
    }
    if old.is_unanswered() {
        return Ok(());
    }
    Err(old.end().map_or(Refusal::StillOpen(id), |end| {
        let winner = Box::new(end);
        Refusal::DecisionIsFinal { id, winner }
    }))
}

/// 0 leaves the time to the policies, or gives a handoff no automatic end.
fn next_timeout(old: &Request, spec: &HoldSpec, wanted: &AskAgain) -> u64 {
    let may_be_zero = !spec.policies.is_empty() || spec.kind == HoldKind::Handoff;
    let before = Some(old.timeout_ms).filter(|ms| *ms > 0);
    let default = if may_be_zero {
        NO_END
    } else {
        default_timeout_ms(spec.kind)
    };
    wanted.timeout_ms.or(before).unwrap_or(default)
}

/// The openers of the earlier requests without the caller, each once.
fn earlier_openers(old: &Request, caller: &Caller) -> Vec<String> {
    let by_caller = caller.name();
    let mut all: Vec<String> = Vec::new();
    for name in old.openers().filter(|name| *name != by_caller) {
        if !all.iter().any(|known| known == name) {
            all.push(name.to_owned());
        }
    }
    all
}

/// The spec as it was written, so that its policies are resolved anew.
fn next_spec(old: &Request, spec: &HoldSpec, wanted: &AskAgain, caller: &Caller) -> HoldSpec {
    let policies = &old.progress.resolved_policies;
    let by_caller = caller.name();
    let requester = old.requester().filter(|name| *name != by_caller);
    let mut next = HoldSpec {
        asks_again: Some(old.id),
        requester: requester.map(str::to_owned),
        ..spec.clone()
    };
    if policies.to.is_some() {
        next.to = Vec::new();
    }
    if policies.votes.is_some() {
        next.policy = Votes::default();
    }
    if !policies.ladder.is_empty() {
        next.ladder = Vec::new();
    }
    if let Some(to) = &wanted.to {
        next.to.clone_from(to);
    }
    next
}
