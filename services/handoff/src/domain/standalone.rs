//! Holds that belong to no run: any program opens one by one call (M-6).

use chrono::TimeDelta;
use holdpoint_auth::Right;
use holdpoint_contracts::hold::{BARGE_IN, HoldOutcome, HoldSpec, Rung};
use holdpoint_contracts::notification::FactKind;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use serde_json::json;

use super::asked::{cleaned, faults};
use super::audience::{self, Barred, Plan, Rules};
use super::caller::{Caller, Proof, active_user, allow, has};
use super::few::{self, Few};
use super::handling::{Handling, Mark};
use super::limits::{REQUESTER_BYTES_MAX, timeout_ms as default_timeout_ms};
use super::refusal::{Refusal, Winner};
use super::request::{BY_SERVICE, Phase, Request};
use super::settled::{at_once, settle};
use super::turn::Turn;
use super::user::User;
use super::{Answer, Scene, Step, Stop};

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
    scene: &Scene<'_>,
) -> Result<Step, Stop> {
    let spec = cleaned(opening.spec);
    let may = || allow(caller, scene.workspace, Right::Ask, scene.look).map(drop);
    let by = caller.name();
    let looks = [
        may(),
        settle(&spec, scene).map(drop),
        look_up(&spec, opening.openers(&by), scene),
        opening.requester_fault(&spec, scene).map(drop),
    ];
    at_once(looks)?;
    may()?;
    if let Some(request) = request {
        let said = request.handling.settled.applied(spec);
        let is_same = request.owner.is_none()
            && request.spec.as_ref() == Some(&said)
            && request.opened_by.as_ref() == Some(&by);
        if is_same {
            return Ok(Step::Same(shown(request)));
        }
        return Err(Refusal::Taken(scene.id).into());
    }
    let (settled, mut errors) = settle(&spec, scene)?;
    let timeout_ms = match opening.timeout_ms {
        0 if !spec.policies.is_empty() && !is_endless(&spec) => settled
            .decide_within_ms
            .unwrap_or_else(|| default_timeout_ms(spec.kind)),
        said => said,
    };
    let spec = settled.applied(spec);
    let looks = [
        look_up(&spec, opening.openers(&by), scene),
        opening.requester_fault(&spec, scene).map(drop),
    ];
    at_once(looks)?;
    errors.extend(faults(scene.id, &spec, timeout_ms));
    let (workspace, look) = (scene.workspace, scene.look);
    errors.extend(audience::faults(&spec.to, "/spec/to", workspace, look)?);
    for (place, rung) in spec.ladder.iter().enumerate() {
        let pointer = format!("/spec/ladder/{place}/to");
        errors.extend(audience::faults(&rung.to, &pointer, workspace, look)?);
    }
    errors.extend(opening.requester_fault(&spec, scene)?);
    if errors.is_empty() {
        let few = few::look(&spec, &Barred::of(&spec, opening.openers(&by)), scene)?;
        errors.extend(few.map(|few| few.fault(settled.votes.is_some())));
    }
    if !errors.is_empty() {
        return Err(Refusal::InvalidHold(errors).into());
    }
    let timeout = TimeDelta::milliseconds(i64::try_from(timeout_ms).unwrap_or(i64::MAX));
    let mut turn = Turn::of(Request {
        spec: Some(spec),
        phase: Phase::Open {
            deadline: (timeout_ms > 0).then(|| scene.now + timeout),
        },
        opened_by: Some(by),
        earlier_openers: opening.earlier_openers.clone(),
        lasts_ms: timeout_ms,
        handling: Handling {
            settled,
            ..Handling::default()
        },
        ..Request::fresh(scene, None)
    });
    begin(&mut turn, scene)?;
    Ok(turn.end(shown))
}

/// Whether a time of 0 means that it never ends by itself: only a handoff can be asked so.
fn is_endless(spec: &HoldSpec) -> bool {
    spec.kind == HoldKind::Handoff && !spec.time_by_policy
}

/// Who there is of those that a hold names: all that is not known is asked for at once.
pub(crate) fn look_up<'n>(
    spec: &'n HoldSpec,
    openers: impl IntoIterator<Item = &'n str>,
    scene: &Scene<'_>,
) -> Result<(), Stop> {
    let rules = Rules {
        assign: spec.assign,
        barred: Barred::default(),
    };
    let of_rung = |rung: &Rung| audience::faults(&rung.to, "", scene.workspace, scene.look);
    let rungs = spec.ladder.iter().map(|rung| of_rung(rung).map(drop));
    let others = [
        audience::plan(&spec.to, &rules, scene).map(drop),
        few::look(spec, &Barred::of(spec, openers), scene).map(drop),
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
        scene: &Scene<'_>,
    ) -> Result<Option<FieldError>, Stop> {
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
            Ok(name) => active_user(scene.workspace, &name, scene.look)?,
            Err(_) => None,
        };
        let is_nobody = user.is_none();
        Ok(is_nobody.then(|| FieldError::at(pointer, audience::not_active(requester))))
    }
}

/// Puts a request to people, for the first time. What is put to somebody who is not there is closed at
/// once (S0-R1).
pub(crate) fn begin(turn: &mut Turn, scene: &Scene<'_>) -> Result<(), Stop> {
    let Some(spec) = turn.request.spec.clone() else {
        return Ok(());
    };
    let by = turn.request.opened_by.clone();
    let by = by.unwrap_or_else(|| "service:executor".to_owned());
    let by_policy = turn.request.handling.settled.note();
    turn.note("opened", &by, scene.now, by_policy);
    let barred = turn.request.barred();
    let few = || few::look(&spec, &barred, scene);
    let plan = match spec.kind {
        HoldKind::Timer => None,
        HoldKind::Approval | HoldKind::Input | HoldKind::Handoff => {
            let rules = Rules {
                assign: spec.assign,
                barred: barred.clone(),
            };
            let plan = || audience::plan(&spec.to, &rules, scene);
            at_once([plan().map(drop), few().map(drop)])?;
            Some(plan()?)
        }
    };
    match plan {
        None => {}
        Some(Plan::Inactive(name)) => refuse(turn, &name, spec.kind, scene),
        Some(Plan::Put(put)) => {
            let handling = &mut turn.request.handling;
            handling.assignee = put.assignee;
            handling.moved_to = put.moved_to;
            handling.ladder.since = Some(scene.now);
            if let Some(note) = put.note {
                turn.note("assigned", BY_SERVICE, scene.now, Some(note));
            }
            turn.fact(put.fact);
            if let Some(few) = few()? {
                too_few(turn, &few, scene);
            }
            if spec.reason.as_deref() == Some(BARGE_IN) {
                owned(turn, scene);
            }
            let to = turn.request.audience();
            turn.tell_people(FactKind::Opened, Some(&by), scene.now, to);
        }
    }
    Ok(())
}

/// A run stands still for it all the same: the owners are asked too, who can let more people decide it.
fn too_few(turn: &mut Turn, few: &Few, scene: &Scene<'_>) {
    let owners = "@role.owner".to_owned();
    let mut to = turn.request.put_to().to_vec();
    if !to.is_empty() && !to.contains(&owners) {
        to.push(owners);
        turn.request.handling.moved_to = Some(to);
    }
    let note = format!(
        "{}: put to the owners too, who can give more people the role, or end the run",
        few.what()
    );
    turn.note("assigned", BY_SERVICE, scene.now, Some(note));
}

/// Whoever it is put to took the run over, and the executor knows: there is nothing to tell it.
fn owned(turn: &mut Turn, scene: &Scene<'_>) {
    let Some(by) = turn.request.handling.assignee.as_ref() else {
        return;
    };
    let by = by.to_string();
    turn.note("taken_over", &by, scene.now, None);
    turn.request.handling.taken_over = Some(Mark { by, at: scene.now });
}

/// S0-R1: the text is literal; the executor fails the step with it.
fn refuse(turn: &mut Turn, name: &str, kind: HoldKind, scene: &Scene<'_>) {
    let not_active = audience::not_active(name);
    let message = match kind {
        HoldKind::Handoff => format!("Handoff failed: {not_active}"),
        HoldKind::Approval | HoldKind::Input | HoldKind::Timer => not_active,
    };
    turn.note("withdrawn", BY_SERVICE, scene.now, Some(message.clone()));
    turn.request.phase = Phase::Decided {
        outcome: HoldOutcome::Cancelled,
        data: json!({ "code": "assignee_inactive", "message": message }),
        by: BY_SERVICE.to_owned(),
        at: scene.now,
    };
    turn.close();
    let to = turn.request.audience();
    turn.tell_people(FactKind::Withdrawn, Some(BY_SERVICE), scene.now, to);
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
    scene: &Scene<'_>,
) -> Result<Step, Stop> {
    let user = allow(caller, scene.workspace, Right::Ask, scene.look)?;
    let request = request
        .filter(|request| request.spec.is_some())
        .ok_or(Refusal::NoRequest(scene.id))?;
    if request.owner.is_some() {
        return Err(Refusal::OfRun(scene.id).into());
    }
    let by = caller.name();
    if !steers(request, caller, user.as_ref()) {
        return Err(Refusal::NotYours(scene.id).into());
    }
    match &request.phase {
        Phase::Gone { .. } => Ok(Step::Same(shown(request))),
        Phase::Decided { .. } | Phase::TimedOut { .. } => {
            let end = request.end().ok_or(Refusal::NoRequest(scene.id))?;
            Err(Refusal::AlreadyDecided {
                id: scene.id,
                winner: Box::new(Winner(end)),
                is_kept: false,
            }
            .into())
        }
        Phase::Open { .. } | Phase::Frozen { .. } => {
            request.is_at(version)?;
            let mut turn = Turn::on(request);
            turn.request.phase = Phase::Gone {
                reason: format!("withdrawn by {by}"),
                by: Some(by.clone()),
                at: scene.now,
            };
            turn.close();
            turn.note("withdrawn", &by, scene.now, None);
            let to = request.deciders();
            turn.tell_people(FactKind::Withdrawn, Some(&by), scene.now, to);
            Ok(turn.end(shown))
        }
    }
}

pub(crate) fn shown(request: &Request) -> Answer {
    request
        .view()
        .map_or(Answer::Noted, |view| Answer::Request(Box::new(view)))
}
