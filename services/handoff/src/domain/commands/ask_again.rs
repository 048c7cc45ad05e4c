//! Asking again what ended without an answer: a new request that names the old one (issue *People*).

use holdpoint_auth::Right;
use holdpoint_contracts::handoff::AskAgain;
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec, Policy as Votes};
use holdpoint_contracts::run::HoldKind;

use super::caller::{Caller, allow};
use super::limits::timeout_ms;
use super::refusal::{AskAgainRefusal, Refusal, Winner};
use super::request::{Phase, Request};
use super::settled::at_once;
use super::{DecisionContext, Fact, Lookup, Need, Outcome, Undecided, standalone};

/// Opens it, with what was asked before: of the same people and for as long, unless said. Its id is
/// derived from the old one's ([`holdpoint_ids::HoldId::asked_again`]): whoever is second finds it there.
pub(crate) fn ask(
    request: Option<&Request>,
    caller: &Caller,
    wanted: &AskAgain,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    let may = || allow(caller, context.workspace, Right::Ask, context.lookup);
    at_once([may().map(drop), lookup(wanted, context).map(drop)])?;
    let (user, old) = (may()?, lookup(wanted, context)?);
    let spec = old.spec.as_ref().ok_or(Refusal::NoRequest(wanted.again))?;
    if old.owner.is_some() {
        return Err(Refusal::NotAgain(wanted.again, AskAgainRefusal::OfRun).into());
    }
    if !standalone::steers(&old, caller, user.as_ref()) {
        return Err(Refusal::NotAgain(wanted.again, AskAgainRefusal::NotYours).into());
    }
    is_unanswered(&old, spec.kind)?;
    if let Some(there) = request {
        return asked_before(there, wanted);
    }
    let again = spec_of(&old, spec, wanted, caller);
    // 0 is the policies' time, and of a handoff no automatic end.
    let may_be_zero = !again.policies.is_empty() || spec.kind == HoldKind::Handoff;
    let lasts = wanted
        .timeout_ms
        .or(Some(old.lasts_ms).filter(|ms| *ms > 0));
    let lasts = lasts.unwrap_or_else(|| {
        if may_be_zero {
            0
        } else {
            timeout_ms(spec.kind)
        }
    });
    let opening = standalone::Opening {
        spec: &again,
        timeout_ms: lasts,
        is_again: true,
        earlier_openers: earlier_openers(&old, caller),
    };
    let open = || standalone::open(None, caller, &opening, context);
    // Its policies mostly say what they said then: whom it was put to is looked up beside them, and not
    // only once they are known.
    let as_then = standalone::look_up(spec, [caller.name().as_str()], context);
    at_once([as_then, open().map(drop)])?;
    open()
}

/// Somebody was first: it is there, and is the answer where it is what is wanted and may still be
/// answered, or has been.
fn asked_before(there: &Request, wanted: &AskAgain) -> Result<Outcome, Undecided> {
    let spec = there.spec.as_ref();
    let Some(spec) = spec.filter(|spec| spec.asks_again == Some(wanted.again)) else {
        return Err(Refusal::Taken(there.id).into());
    };
    let by_policy = there.progress.settled.to.is_some();
    let others = |to: &Vec<String>| *to != spec.to && !(by_policy && to.is_empty());
    let is_other = wanted.to.as_ref().is_some_and(others)
        || wanted.timeout_ms.is_some_and(|ms| ms != there.lasts_ms);
    let is_over = is_unanswered(there, spec.kind).is_ok();
    if is_other || is_over {
        let before = AskAgainRefusal::AskedBefore {
            id: there.id,
            is_over,
        };
        return Err(Refusal::NotAgain(wanted.again, before).into());
    }
    Ok(Outcome::Unchanged(standalone::shown(there)))
}

/// The request that ended.
fn lookup(wanted: &AskAgain, context: &DecisionContext<'_>) -> Result<Box<Request>, Undecided> {
    let need = Need::Request(context.workspace.clone(), wanted.again);
    match (context.lookup)(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Request(request)) => Ok(request),
        Lookup::Found(
            Fact::User(_)
            | Fact::Owners(_)
            | Fact::Members(_)
            | Fact::Role(_)
            | Fact::Loads(_)
            | Fact::Policy(_)
            | Fact::Policies(_),
        )
        | Lookup::Missing => Err(Refusal::NoRequest(wanted.again).into()),
    }
}

/// Whether it ended so that nobody has answered it: by time, also where its default answer counted then;
/// taken back; or because whoever it was put to was not there. What a person has decided stands.
pub(crate) fn is_unanswered(old: &Request, kind: HoldKind) -> Result<(), Refusal> {
    let id = old.id;
    if kind == HoldKind::Timer {
        return Err(Refusal::WrongKind {
            id,
            kind,
            action: "ask_again",
        });
    }
    match (&old.phase, old.end()) {
        (Phase::Open { .. } | Phase::Frozen { .. }, _) | (_, None) => {
            Err(Refusal::NotAgain(id, AskAgainRefusal::StillOpen))
        }
        (Phase::TimedOut { .. } | Phase::Withdrawn { .. }, Some(_)) => Ok(()),
        (Phase::Decided { .. }, Some(end)) if end.outcome == HoldOutcome::Cancelled => Ok(()),
        (Phase::Decided { .. }, Some(end)) => {
            let winner = Box::new(Winner(end));
            Err(Refusal::NotAgain(id, AskAgainRefusal::Decided(winner)))
        }
    }
}

/// Who opened what is asked again, however often that was, but for who asks it now.
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

/// What is asked: as it was written, so that the policies that it names are looked up anew.
fn spec_of(old: &Request, spec: &HoldSpec, wanted: &AskAgain, caller: &Caller) -> HoldSpec {
    let settled = &old.progress.settled;
    let by_caller = caller.name();
    let requester = old.requester().filter(|name| *name != by_caller);
    let mut again = HoldSpec {
        asks_again: Some(old.id),
        requester: requester.map(str::to_owned),
        ..spec.clone()
    };
    if settled.to.is_some() {
        again.to = Vec::new();
    }
    if settled.votes.is_some() {
        again.policy = Votes::default();
    }
    if !settled.ladder.is_empty() {
        again.ladder = Vec::new();
    }
    if let Some(to) = &wanted.to {
        again.to.clone_from(to);
    }
    again
}
