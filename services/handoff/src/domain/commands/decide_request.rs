//! A person decides: the first commit wins, the loser is told, and what it said is kept.

use holdpoint_auth::Right;
use holdpoint_contracts::form::{Form, answer_faults, plain, plain_value};
use holdpoint_contracts::handoff::{
    Completion, Decided, DecidedOne, Decision, Effect as DecisionEffect, LateAnswer,
};
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec};
use holdpoint_contracts::link;
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::UserName;
use serde_json::{Value, json};

use super::caller::{Caller, Proof, allow, has};
use super::limits::{ANSWER_BYTES_MAX, LATE_BYTES_MAX, LATE_MAX, bytes};
use super::progress::AuditStamp;
use super::refusal::{Refusal, Winner};
use super::request::{End, Phase, Request};
use super::transition::RequestTransition;
use super::user::User;
use super::{DecisionContext, Outcome, Reply, Undecided};

/// A decision as it would be recorded.
struct Verdict {
    outcome: HoldOutcome,
    data: Value,
    by: String,
}

/// Somebody who may decide a request.
pub(crate) struct Addressed<'a> {
    pub(crate) request: &'a Request,
    pub(crate) spec: &'a HoldSpec,
    pub(crate) name: UserName,
    pub(crate) operates: bool,
}

/// Lets through whoever may decide, or act on, a request: by a signed word, and only whoever it is put
/// to, or an operator.
pub(crate) fn addressed<'a>(
    request: Option<&'a Request>,
    caller: &Caller,
    context: &DecisionContext<'_>,
) -> Result<Addressed<'a>, Undecided> {
    let user = allow(caller, context.workspace, Right::Decide, context.lookup)?;
    let known = request.and_then(|request| Some((request, request.spec.as_ref()?)));
    let Some((request, spec)) = known else {
        return Err(Refusal::NoRequest(context.id).into());
    };
    // `allow` lets nobody else through here: what nobody signed decides nothing.
    let (Proof::Good(claims), Some(user)) = (&caller.proof, &user) else {
        return Err(Refusal::NoRequest(context.id).into());
    };
    let operates = has(claims, user, Right::Operate);
    if !operates && !is_addressed(request, user) {
        return Err(Refusal::NotAddressed(claims.user.clone()).into());
    }
    Ok(Addressed {
        request,
        spec,
        name: claims.user.clone(),
        operates,
    })
}

pub(crate) fn decide(
    request: Option<&Request>,
    caller: &Caller,
    decision: &Decision,
    version: Option<u64>,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    let addressed = addressed(request, caller, context)?;
    let request = addressed.request;
    may_decide(request, &addressed.name)?;
    let (outcome, data) = check(request, addressed.spec, decision)?;
    let verdict = Verdict {
        outcome,
        data,
        by: addressed.name.to_string(),
    };
    match request.end() {
        Some(end) if is_same(&end, &verdict) => Ok(Outcome::Unchanged(decided(request))),
        // It was one of those that decided.
        Some(end) if end.outcome == HoldOutcome::Approved && has_voted(request, &verdict) => {
            Ok(Outcome::Unchanged(decided(request)))
        }
        Some(end) => lose(request, end, verdict, context),
        None if has_voted(request, &verdict) => Ok(Outcome::Unchanged(decided(request))),
        None => {
            is_free(&addressed)?;
            request.is_at(version)?;
            if outcome == HoldOutcome::Approved && !is_last_vote(request, addressed.spec) {
                return Ok(vote(request, &verdict, context));
            }
            Ok(win(request, verdict, context))
        }
    }
}

/// The requester and the opener do not decide it, where its policy says so.
pub(crate) fn may_decide(request: &Request, name: &UserName) -> Result<(), Refusal> {
    if request.barred().bars(name) {
        return Err(Refusal::IsRequester(name.clone()));
    }
    Ok(())
}

/// The same for one of several that are decided alike, all or none. What comes too late is not kept:
/// then nothing of it happens.
pub(crate) fn together(
    request: Option<&Request>,
    caller: &Caller,
    decision: &Decision,
    version: Option<u64>,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    match decide(request, caller, decision, version, context)? {
        Outcome::Unchanged(answer) => Ok(Outcome::Unchanged(one(answer))),
        Outcome::Decided(mut change) => match (
            std::mem::replace(&mut change.reply, Reply::EventRecorded),
            request.and_then(Request::end),
        ) {
            (Reply::Late(_), Some(end)) => {
                let id = context.id;
                let winner = Box::new(Winner(end));
                let is_kept = false;
                Err(Refusal::AlreadyDecided {
                    id,
                    winner,
                    is_kept,
                }
                .into())
            }
            (answer, _) => {
                change.reply = one(answer);
                Ok(Outcome::Decided(change))
            }
        },
    }
}

/// Short: the answers to all of them travel as one.
fn one(answer: Reply) -> Reply {
    match answer {
        Reply::Decided(decided) => Reply::One(DecidedOne {
            effect: decided.effect,
            votes: decided.request.votes_so_far(),
        }),
        other @ (Reply::DesiredState(_)
        | Reply::Timer(_)
        | Reply::EventRecorded
        | Reply::Request(_)
        | Reply::One(_)
        | Reply::Late(_)
        | Reply::User(_)
        | Reply::Policy(_)) => other,
    }
}

/// Whether a request is put to a user: by name, or by role.
fn is_addressed(request: &Request, user: &User) -> bool {
    let by_name = |to: &str| to.strip_prefix("@user.") == Some(user.name.as_str());
    let by_role = |to: &str| {
        to.strip_prefix("@role.")
            .is_some_and(|role| user.roles.iter().any(|one| one.as_str() == role))
    };
    let deciders = request.deciders();
    deciders.iter().any(|to| by_name(to) || by_role(to))
}

/// A run that a person owns is that person's to complete or to give away, or an operator's.
pub(crate) fn is_free(addressed: &Addressed<'_>) -> Result<(), Refusal> {
    let progress = &addressed.request.progress;
    let has_it = progress
        .assignee
        .as_ref()
        .is_none_or(|name| *name == addressed.name);
    match &progress.taken_over {
        Some(mark) if !has_it && !addressed.operates => Err(Refusal::IsSomebodys {
            id: addressed.request.id,
            what: "taken_over",
            mark: mark.clone(),
        }),
        Some(_) | None => Ok(()),
    }
}

/// The same person counts once.
fn has_voted(request: &Request, verdict: &Verdict) -> bool {
    let votes = &request.progress.votes;
    verdict.outcome == HoldOutcome::Approved && votes.iter().any(|vote| vote.by == verdict.by)
}

fn is_last_vote(request: &Request, spec: &HoldSpec) -> bool {
    let have = u32::try_from(request.progress.votes.len()).unwrap_or(u32::MAX);
    have.saturating_add(1) >= spec.policy.need
}

/// One approval of several; it stands, and decides nothing yet.
fn vote(request: &Request, verdict: &Verdict, context: &DecisionContext<'_>) -> Outcome {
    let mut transition = RequestTransition::on(request);
    transition.request.progress.votes.push(AuditStamp {
        by: verdict.by.clone(),
        at: context.now,
    });
    transition.note("approved", &verdict.by, context.now, words(&verdict.data));
    transition.end(decided)
}

/// What somebody said, where they said it in words.
fn words(data: &Value) -> Option<String> {
    data.as_str().map(str::to_owned)
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
            let answer = plain_value(answer);
            check_answer(spec, &answer)?;
            (HoldOutcome::Answered, answer)
        }
        (HoldKind::Approval, Decision::Approve { comment }) => {
            let comment = comment.as_deref().map(plain);
            (HoldOutcome::Approved, json!(comment))
        }
        (HoldKind::Approval, Decision::Reject { reason }) if reason.trim().is_empty() => {
            let error = FieldError::at("/decision/reject/reason", "say why it is rejected");
            return Err(Refusal::InvalidAnswer(vec![error]));
        }
        (HoldKind::Approval, Decision::Reject { reason }) => {
            (HoldOutcome::Rejected, json!(plain(reason)))
        }
        (HoldKind::Handoff, Decision::Complete(completion)) => {
            let completion = Completion {
                notes: plain(&completion.notes),
                ..completion.clone()
            };
            (HoldOutcome::Completed, json!(completion))
        }
        (HoldKind::Timer | HoldKind::Approval | HoldKind::Handoff, Decision::Respond { .. }) => {
            return Err(wrong("respond"));
        }
        (HoldKind::Timer | HoldKind::Input | HoldKind::Handoff, Decision::Approve { .. }) => {
            return Err(wrong("approve"));
        }
        (HoldKind::Timer | HoldKind::Input | HoldKind::Handoff, Decision::Reject { .. }) => {
            return Err(wrong("reject"));
        }
        (HoldKind::Timer | HoldKind::Approval | HoldKind::Input, Decision::Complete(_)) => {
            return Err(wrong("complete"));
        }
    };
    if bytes(&data) > ANSWER_BYTES_MAX {
        let message = format!("an answer has at most {ANSWER_BYTES_MAX} bytes as JSON");
        return Err(Refusal::InvalidAnswer(vec![FieldError::at(
            "/decision",
            message,
        )]));
    }
    Ok((outcome, data))
}

fn check_answer(spec: &HoldSpec, answer: &Value) -> Result<(), Refusal> {
    let pointer = "/decision/respond/answer";
    if answer.is_null() {
        return Err(Refusal::InvalidAnswer(vec![FieldError::at(
            pointer,
            "there is no answer",
        )]));
    }
    let errors = match &spec.link {
        Some(_) => link::answer_faults(answer),
        None => {
            // What cannot be read as a form was never shown as one: any answer will do.
            let form = spec.schema.as_ref().and_then(|it| Form::parse(it).ok());
            answer_faults(answer, &spec.options, form.as_ref())
        }
    };
    let errors: Vec<_> = errors
        .into_iter()
        .map(|error| error.under(pointer))
        .collect();
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Refusal::InvalidAnswer(errors)),
    }
}

fn win(request: &Request, verdict: Verdict, context: &DecisionContext<'_>) -> Outcome {
    let Verdict { outcome, data, by } = verdict;
    let mut transition = RequestTransition::on(request);
    if outcome == HoldOutcome::Approved {
        let (by, at) = (by.clone(), context.now);
        transition
            .request
            .progress
            .votes
            .push(AuditStamp { by, at });
    }
    let note = data.get("notes").map_or_else(|| words(&data), words);
    transition.note(outcome.as_str(), &by, context.now, note);
    let to = request.deciders();
    transition.tell_people(RequestEventKind::Decided, Some(&by), context.now, to);
    transition.request.phase = Phase::Decided {
        outcome,
        data,
        by,
        at: context.now,
    };
    transition.close();
    transition.end(decided)
}

/// The same person says the same again.
fn is_same(end: &End, verdict: &Verdict) -> bool {
    end.by == verdict.by && end.outcome == verdict.outcome && end.data == verdict.data
}

fn decided(request: &Request) -> Reply {
    // Decisions are made on requests that were asked: there is a view.
    request.view().map_or(Reply::EventRecorded, |view| {
        Reply::Decided(Box::new(Decided {
            recorded: true,
            effect: request.effect.unwrap_or(DecisionEffect::Pending),
            request: view,
        }))
    })
}

/// Who was first.
pub(crate) fn already_decided(request: &Request, end: End, is_kept: bool) -> Refusal {
    Refusal::AlreadyDecided {
        id: request.id,
        winner: Box::new(Winner(end)),
        is_kept,
    }
}

/// Keeps what came too late, where there is room and it is not there yet.
fn lose(
    request: &Request,
    end: End,
    verdict: Verdict,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    let data = json!({ "outcome": verdict.outcome, "data": verdict.data });
    let said_before = |one: &LateAnswer| one.by == verdict.by && one.data == data;
    let is_there = request.late.iter().any(said_before);
    let kept: usize = request.late.iter().map(|one| bytes(&one.data)).sum();
    let has_room = request.late.len() < LATE_MAX && kept + bytes(&data) <= LATE_BYTES_MAX;
    let refusal = already_decided(request, end, is_there || has_room);
    if is_there || !has_room {
        return Err(refusal.into());
    }
    let mut transition = RequestTransition::on(request);
    transition.request.late.push(LateAnswer {
        by: verdict.by,
        at: context.now,
        data,
    });
    Ok(transition.end(|_| Reply::Late(Box::new(refusal.problem()))))
}
