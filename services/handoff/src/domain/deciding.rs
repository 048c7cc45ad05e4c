//! A person decides: the first commit wins, the loser is told, and what it said is kept.

use holdpoint_auth::{Claims, Right};
use holdpoint_contracts::handoff::{Decided, Decision, Effect as Word, LateAnswer};
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec};
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use serde_json::{Value, json};

use super::caller::{Caller, Proof, allow, has};
use super::limits::{ANSWER_BYTES_MAX, LATE_BYTES_MAX, LATE_MAX, bytes, fault};
use super::refusal::{Refusal, Winner};
use super::request::{End, Phase, Request};
use super::turn::Turn;
use super::user::User;
use super::{Answer, Scene, Step, Stop};

/// A decision as it would be recorded.
struct Verdict {
    outcome: HoldOutcome,
    data: Value,
    by: String,
}

pub(crate) fn decide(
    request: Option<&Request>,
    caller: &Caller,
    decision: &Decision,
    version: Option<u64>,
    scene: &Scene<'_>,
) -> Result<Step, Stop> {
    let user = allow(caller, scene.workspace, Right::Decide, scene.look)?;
    let known = request.and_then(|request| Some((request, request.spec.as_ref()?)));
    let Some((request, spec)) = known else {
        return Err(Refusal::NoRequest(scene.id).into());
    };
    match (&caller.proof, &user) {
        (Proof::Good(claims), Some(user)) if is_addressed(spec, claims, user) => {}
        (Proof::Good(claims), _) => return Err(Refusal::NotAddressed(claims.user.clone()).into()),
        // `allow` lets nobody through here: what nobody signed decides nothing.
        (Proof::Absent | Proof::Bad(_), _) => return Err(Refusal::NoRequest(scene.id).into()),
    }
    let (outcome, data) = check(request, spec, decision)?;
    let verdict = Verdict {
        outcome,
        data,
        by: caller.name(),
    };
    match request.end() {
        None => {
            if let Some(seen) = version.filter(|seen| *seen != request.version) {
                let version = request.version;
                return Err(Refusal::VersionConflict { seen, version }.into());
            }
            Ok(win(request, verdict, scene))
        }
        Some(end) if is_same(&end, &verdict) => Ok(Step::Same(decided(request))),
        Some(end) => lose(request, end, verdict, scene),
    }
}

/// Whether a request is put to a user: by name, by role, or because they may decide any.
fn is_addressed(spec: &HoldSpec, claims: &Claims, user: &User) -> bool {
    let by_name = |to: &str| to.strip_prefix("@user.") == Some(user.name.as_str());
    let by_role = |to: &str| {
        to.strip_prefix("@role.")
            .is_some_and(|role| user.roles.iter().any(|one| one.as_str() == role))
    };
    spec.to.iter().any(|to| by_name(to) || by_role(to)) || has(claims, user, Right::Operate)
}

/// Whether this kind is decided so, and the answer is one.
fn check(
    request: &Request,
    spec: &HoldSpec,
    decision: &Decision,
) -> Result<(HoldOutcome, Value), Refusal> {
    let wrong = |action| Refusal::WrongKind {
        id: request.id,
        kind: spec.kind,
        action,
    };
    let (outcome, data) = match (spec.kind, decision) {
        (HoldKind::Input, Decision::Respond { answer }) => {
            check_answer(spec, answer)?;
            (HoldOutcome::Answered, answer.clone())
        }
        (HoldKind::Approval, Decision::Approve { comment }) => {
            (HoldOutcome::Approved, json!(comment))
        }
        (HoldKind::Approval, Decision::Reject { reason }) if reason.trim().is_empty() => {
            let error = fault("/decision/reject/reason", "say why it is rejected");
            return Err(Refusal::InvalidAnswer(vec![error]));
        }
        (HoldKind::Approval, Decision::Reject { reason }) => (HoldOutcome::Rejected, json!(reason)),
        (HoldKind::Timer | HoldKind::Approval | HoldKind::Handoff, Decision::Respond { .. }) => {
            return Err(wrong("respond"));
        }
        (HoldKind::Timer | HoldKind::Input | HoldKind::Handoff, Decision::Approve { .. }) => {
            return Err(wrong("approve"));
        }
        (HoldKind::Timer | HoldKind::Input | HoldKind::Handoff, Decision::Reject { .. }) => {
            return Err(wrong("reject"));
        }
        (_, Decision::Complete(_)) => return Err(wrong("complete")),
    };
    if bytes(&data) > ANSWER_BYTES_MAX {
        let message = format!("an answer has at most {ANSWER_BYTES_MAX} bytes as JSON");
        return Err(Refusal::InvalidAnswer(vec![fault("/decision", message)]));
    }
    Ok((outcome, data))
}

fn check_answer(spec: &HoldSpec, answer: &Value) -> Result<(), Refusal> {
    let pointer = "/decision/respond/answer";
    if answer.is_null() {
        return Err(Refusal::InvalidAnswer(vec![fault(
            pointer,
            "there is no answer",
        )]));
    }
    let is_option = |text: &str| spec.options.iter().any(|option| option == text);
    if spec.options.is_empty() || answer.as_str().is_some_and(is_option) {
        return Ok(());
    }
    Err(Refusal::InvalidAnswer(vec![FieldError {
        text: answer.to_string().chars().take(200).collect(),
        nearest: spec.options.clone(),
        ..fault(
            pointer,
            format!("answer with one of: {}", spec.options.join(", ")),
        )
    }]))
}

fn win(request: &Request, verdict: Verdict, scene: &Scene<'_>) -> Step {
    let mut turn = Turn::on(request);
    turn.request.phase = Phase::Decided {
        outcome: verdict.outcome,
        data: verdict.data,
        by: verdict.by,
        at: scene.now,
    };
    turn.close();
    turn.end(decided)
}

/// The same person says the same again.
fn is_same(end: &End, verdict: &Verdict) -> bool {
    end.by == verdict.by && end.outcome == verdict.outcome && end.data == verdict.data
}

fn decided(request: &Request) -> Answer {
    // Decisions are made on requests that were asked: there is a view.
    request.view().map_or(Answer::Noted, |view| {
        Answer::Decided(Box::new(Decided {
            recorded: true,
            effect: request.effect.unwrap_or(Word::Pending),
            request: view,
        }))
    })
}

/// Keeps what came too late, where there is room and it is not there yet.
fn lose(request: &Request, end: End, verdict: Verdict, scene: &Scene<'_>) -> Result<Step, Stop> {
    let data = json!({ "outcome": verdict.outcome, "data": verdict.data });
    let said_before = |one: &LateAnswer| one.by == verdict.by && one.data == data;
    let is_there = request.late.iter().any(said_before);
    let kept: usize = request.late.iter().map(|one| bytes(&one.data)).sum();
    let has_room = request.late.len() < LATE_MAX && kept + bytes(&data) <= LATE_BYTES_MAX;
    let refusal = Refusal::AlreadyDecided {
        id: request.id,
        winner: Box::new(Winner(end)),
        is_kept: is_there || has_room,
    };
    if is_there || !has_room {
        return Err(refusal.into());
    }
    let mut turn = Turn::on(request);
    turn.request.late.push(LateAnswer {
        by: verdict.by,
        at: scene.now,
        data,
    });
    Ok(turn.end(|_| Answer::Late(Box::new(refusal.problem()))))
}
