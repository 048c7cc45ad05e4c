//! Holds that belong to no run: any program opens one by one call (M-6).

use chrono::TimeDelta;
use holdpoint_auth::Right;
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec, OPERATOR_TAKEOVER, Rung};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use serde_json::json;

use super::asked::{cleaned, faults};
use super::audience::{self, Barred, Plan, Rules};
use super::caller::{Caller, Proof, active_user, allow, has};
use super::limits::{REQUESTER_BYTES_MAX, timeout_ms as default_timeout_ms};
use super::progress::{AuditStamp, RequestProgress};
use super::quorum::{self, QuorumShortfall};
use super::refusal::{Refusal, Winner};
use super::request::{BY_SERVICE, Phase, Request};
use super::settled::{at_once, settle};
use super::transition::RequestTransition;
use super::user::User;
use super::{DecisionContext, Outcome, Reply, Undecided};

/// What somebody opens.
#[derive(Debug)]
pub(crate) struct Opening<'a> {
    pub(crate) spec: &'a HoldSpec,
    /// How long until time is up.
    pub(crate) timeout_ms: u64,
    /// It was asked before: who wanted it is known, and still barred where they have left meanwhile.
    pub(crate) is_again: bool,
    /// Who opened the requests that it repeats: barred as its opener is.
    pub(crate) earlier_openers: Vec<String>,
}

/// Opens one; asking again with the same id and content opens nothing twice.
pub(crate) fn open(
    request: Option<&Request>,
    caller: &Caller,
    opening: &Opening<'_>,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    let spec = cleaned(opening.spec);
    let may = || allow(caller, context.workspace, Right::Ask, context.lookup).map(drop);
    let by = caller.name();
    let looks = [
        may(),
        settle(&spec, context).map(drop),
        look_up(&spec, opening.openers(&by), context),
        opening.requester_fault(&spec, context).map(drop),
    ];
    at_once(looks)?;
    may()?;
    if let Some(request) = request {
        let said = request.progress.settled.applied(spec);
        let is_same = request.owner.is_none()
            && request.spec.as_ref() == Some(&said)
            && request.opened_by.as_ref() == Some(&by);
        if is_same {
            return Ok(Outcome::Unchanged(shown(request)));
        }
        return Err(Refusal::Taken(context.id).into());
    }
    let (settled, mut errors) = settle(&spec, context)?;
    let timeout_ms = match opening.timeout_ms {
        0 if !spec.policies.is_empty() && !is_endless(&spec) => settled
            .decide_within_ms
            .unwrap_or_else(|| default_timeout_ms(spec.kind)),
        said => said,
    };
    let spec = settled.applied(spec);
    let looks = [
        look_up(&spec, opening.openers(&by), context),
        opening.requester_fault(&spec, context).map(drop),
    ];
    at_once(looks)?;
    errors.extend(faults(context.id, &spec, timeout_ms));
    let (workspace, lookup) = (context.workspace, context.lookup);
    errors.extend(audience::faults(&spec.to, "/spec/to", workspace, lookup)?);
    for (place, rung) in spec.ladder.iter().enumerate() {
        let pointer = format!("/spec/ladder/{place}/to");
        errors.extend(audience::faults(&rung.to, &pointer, workspace, lookup)?);
    }
    errors.extend(opening.requester_fault(&spec, context)?);
    if errors.is_empty() {
        let shortfall = quorum::lookup(&spec, &Barred::of(&spec, opening.openers(&by)), context)?;
        errors.extend(shortfall.map(|shortfall| shortfall.fault(settled.votes.is_some())));
    }
    if !errors.is_empty() {
        return Err(Refusal::InvalidHold(errors).into());
    }
    let timeout = TimeDelta::milliseconds(i64::try_from(timeout_ms).unwrap_or(i64::MAX));
    let mut transition = RequestTransition::of(Request {
        spec: Some(spec),
        phase: Phase::Open {
            deadline: (timeout_ms > 0).then(|| context.now + timeout),
        },
        opened_by: Some(by),
        earlier_openers: opening.earlier_openers.clone(),
        lasts_ms: timeout_ms,
        progress: RequestProgress {
            settled,
            ..RequestProgress::default()
        },
        ..Request::fresh(context, None)
    });
    begin(&mut transition, context)?;
    Ok(transition.end(shown))
}

/// Whether a time of 0 means that it never ends by itself: only a handoff can be asked so.
fn is_endless(spec: &HoldSpec) -> bool {
    spec.kind == HoldKind::Handoff && !spec.time_by_policy
}

/// Who there is of those that a hold names: all that is not known is asked for at once.
pub(crate) fn look_up<'n>(
    spec: &'n HoldSpec,
    openers: impl IntoIterator<Item = &'n str>,
    context: &DecisionContext<'_>,
) -> Result<(), Undecided> {
    let rules = Rules {
        assign: spec.assign,
        barred: Barred::default(),
    };
    let of_rung = |rung: &Rung| audience::faults(&rung.to, "", context.workspace, context.lookup);
    let rungs = spec.ladder.iter().map(|rung| of_rung(rung).map(drop));
    let others = [
        audience::plan(&spec.to, &rules, context).map(drop),
        quorum::lookup(spec, &Barred::of(spec, openers), context).map(drop),
    ];
    at_once(rungs.chain(others))
}

impl Opening<'_> {
    /// Who opens it now, and who opened the requests that it repeats.
    fn openers<'n>(&'n self, by: &'n str) -> impl Iterator<Item = &'n str> {
        let earlier = self.earlier_openers.iter().map(String::as_str);
        std::iter::once(by).chain(earlier)
    }

    /// Who is barred by name is somebody: a name that nobody has would bar nobody.
    fn requester_fault(
        &self,
        spec: &HoldSpec,
        context: &DecisionContext<'_>,
    ) -> Result<Option<FieldError>, Undecided> {
        let pointer = "/spec/requester";
        let Some(requester) = spec.requester.as_ref().filter(|_| !self.is_again) else {
            return Ok(None);
        };
        if requester.len() > REQUESTER_BYTES_MAX {
            let message = format!("at most {REQUESTER_BYTES_MAX} bytes");
            return Ok(Some(FieldError::at(pointer, message)));
        }
        if !spec.policy.not_requester {
            return Ok(None);
        }
        let user = match requester.parse() {
            Ok(name) => active_user(context.workspace, &name, context.lookup)?,
            Err(_) => None,
        };
        let is_nobody = user.is_none();
        Ok(is_nobody.then(|| FieldError::at(pointer, audience::not_active(requester))))
    }
}

/// Puts a request to people, for the first time. What is put to somebody who is not there is closed at
/// once (S0-R1).
pub(crate) fn begin(
    transition: &mut RequestTransition,
    context: &DecisionContext<'_>,
) -> Result<(), Undecided> {
    let Some(spec) = transition.request.spec.clone() else {
        return Ok(());
    };
    let by = transition.request.opened_by.clone();
    let by = by.unwrap_or_else(|| "service:executor".to_owned());
    let by_policy = transition.request.progress.settled.note();
    transition.note("opened", &by, context.now, by_policy);
    let barred = transition.request.barred();
    let shortfall = || quorum::lookup(&spec, &barred, context);
    let plan = match spec.kind {
        HoldKind::Timer => None,
        HoldKind::Approval | HoldKind::Input | HoldKind::Handoff => {
            let rules = Rules {
                assign: spec.assign,
                barred: barred.clone(),
            };
            let plan = || audience::plan(&spec.to, &rules, context);
            at_once([plan().map(drop), shortfall().map(drop)])?;
            Some(plan()?)
        }
    };
    match plan {
        None => {}
        Some(Plan::Inactive(name)) => refuse(transition, &name, spec.kind, context),
        Some(Plan::Assigned(put)) => {
            let progress = &mut transition.request.progress;
            progress.assignee = put.assignee;
            progress.reassigned_to = put.reassigned_to;
            progress.ladder.since = Some(context.now);
            if let Some(note) = put.note {
                transition.note("assigned", BY_SERVICE, context.now, Some(note));
            }
            transition.fact(put.fact);
            if let Some(shortfall) = shortfall()? {
                too_few(transition, &shortfall, context);
            }
            if spec.reason.as_deref() == Some(OPERATOR_TAKEOVER) {
                owned(transition, context);
            }
            let to = transition.request.audience();
            transition.tell_people(RequestEventKind::Opened, Some(&by), context.now, to);
        }
    }
    Ok(())
}

/// A run stands still for it all the same: the owners are asked too, who can let more people decide it.
fn too_few(
    transition: &mut RequestTransition,
    shortfall: &QuorumShortfall,
    context: &DecisionContext<'_>,
) {
    let owners = "@role.owner".to_owned();
    let mut to = transition.request.addressed_to().to_vec();
    if !to.is_empty() && !to.contains(&owners) {
        to.push(owners);
        transition.request.progress.reassigned_to = Some(to);
    }
    let note = format!(
        "{}: put to the owners too, who can give more people the role, or end the run",
        shortfall.what()
    );
    transition.note("assigned", BY_SERVICE, context.now, Some(note));
}

/// Whoever it is put to took the run over, and the executor knows: there is nothing to tell it.
fn owned(transition: &mut RequestTransition, context: &DecisionContext<'_>) {
    let Some(by) = transition.request.progress.assignee.as_ref() else {
        return;
    };
    let by = by.to_string();
    transition.note("taken_over", &by, context.now, None);
    transition.request.progress.taken_over = Some(AuditStamp {
        by,
        at: context.now,
    });
}

/// S0-R1: the text is literal; the executor fails the step with it.
fn refuse(
    transition: &mut RequestTransition,
    name: &str,
    kind: HoldKind,
    context: &DecisionContext<'_>,
) {
    let not_active = audience::not_active(name);
    let message = match kind {
        HoldKind::Handoff => format!("Handoff failed: {not_active}"),
        HoldKind::Approval | HoldKind::Input | HoldKind::Timer => not_active,
    };
    transition.note("withdrawn", BY_SERVICE, context.now, Some(message.clone()));
    transition.request.phase = Phase::Decided {
        outcome: HoldOutcome::Cancelled,
        data: json!({ "code": "assignee_inactive", "message": message }),
        by: BY_SERVICE.to_owned(),
        at: context.now,
    };
    transition.close();
    let to = transition.request.audience();
    transition.tell_people(
        RequestEventKind::Withdrawn,
        Some(BY_SERVICE),
        context.now,
        to,
    );
}

/// Whether somebody may take it back, or ask it again: whoever opened it, or an operator.
pub(crate) fn steers(request: &Request, caller: &Caller, user: Option<&User>) -> bool {
    let operates = match (&caller.proof, user) {
        (Proof::Good(claims), Some(user)) => has(claims, user, Right::Operate),
        // What nobody signed has the rights of its subject, and that is one of them.
        (Proof::Absent, _) => true,
        (Proof::Good(_), None) | (Proof::Bad(_), _) => false,
    };
    operates || request.opened_by.as_ref() == Some(&caller.name())
}

/// Takes one back; twice is once.
pub(crate) fn withdraw(
    request: Option<&Request>,
    caller: &Caller,
    version: Option<u64>,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    let user = allow(caller, context.workspace, Right::Ask, context.lookup)?;
    let request = request
        .filter(|request| request.spec.is_some())
        .ok_or(Refusal::NoRequest(context.id))?;
    if request.owner.is_some() {
        return Err(Refusal::OfRun(context.id).into());
    }
    let by = caller.name();
    if !steers(request, caller, user.as_ref()) {
        return Err(Refusal::NotYours(context.id).into());
    }
    match &request.phase {
        Phase::Withdrawn { .. } => Ok(Outcome::Unchanged(shown(request))),
        Phase::Decided { .. } | Phase::TimedOut { .. } => {
            let end = request.end().ok_or(Refusal::NoRequest(context.id))?;
            Err(Refusal::AlreadyDecided {
                id: context.id,
                winner: Box::new(Winner(end)),
                is_kept: false,
            }
            .into())
        }
        Phase::Open { .. } | Phase::Frozen { .. } => {
            request.is_at(version)?;
            let mut transition = RequestTransition::on(request);
            transition.request.phase = Phase::Withdrawn {
                reason: format!("withdrawn by {by}"),
                by: Some(by.clone()),
                at: context.now,
            };
            transition.close();
            transition.note("withdrawn", &by, context.now, None);
            let to = request.deciders();
            transition.tell_people(RequestEventKind::Withdrawn, Some(&by), context.now, to);
            Ok(transition.end(shown))
        }
    }
}

pub(crate) fn shown(request: &Request) -> Reply {
    request
        .view()
        .map_or(Reply::EventRecorded, |view| Reply::Request(Box::new(view)))
}
