//! `handoff.decide_request` and `handoff.decide_requests`: a person decides. The first commit wins, and a late
//! decision is kept beside the request.
//!
//! A decision needs no idempotency key, because its repetition changes nothing.

use chrono::{DateTime, Utc};
use holdpoint_contracts::form::{Form, answer_errors, plain, plain_value};
use holdpoint_contracts::handoff::{
    Completion, DecideRequest, Decided, DecidedOne, Decision, Effect as DecisionEffect, LateAnswer,
};
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec};
use holdpoint_contracts::link;
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::check_text;
use holdpoint_holds::limits::ANSWER_BYTES_MAX;
use serde_json::{Value, json};

use crate::domain::decision::{Outcome, Undecided};
use crate::domain::effect::Reply;
use crate::domain::input::Caller;
use crate::domain::lookup::DecisionContext;
use crate::domain::model::limits::{LATE_BYTES_MAX, LATE_MAX};
use crate::domain::model::progress::Vote;
use crate::domain::model::request::{End, Phase, Request};
use crate::domain::refusal::Refusal;
use crate::domain::rules::approved_items::{check_digest, check_edited_args};
use crate::domain::rules::authorization::{
    require_not_excluded, require_potential_decider, require_run_owner, require_version,
};
use crate::domain::rules::mentions::mentioned_users;
use crate::domain::transition::RequestTransition;

struct Verdict {
    outcome: HoldOutcome,
    data: Value,
    by: String,
    /// The recipients of the request that name the person.
    addressed_by: Vec<String>,
    /// Its text mentions no user.
    silent: bool,
}

impl Verdict {
    fn vote(&self, at: DateTime<Utc>) -> Vote {
        Vote {
            by: self.by.clone(),
            at,
            addressed_by: Some(self.addressed_by.clone()),
        }
    }
}

pub(crate) fn decide_request(
    request: Option<&Request>,
    caller: &Caller,
    command: &DecideRequest,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    let user = require_potential_decider(request, caller, context)?;
    let (request, spec) = (user.request, user.spec);
    let checked = check_decision(request, spec, &command.decision);
    let verdict = checked.map(|(outcome, data)| Verdict {
        outcome,
        data,
        by: user.name().to_string(),
        addressed_by: user.addressed_by(),
        silent: command.silent,
    });
    // Before the user is authorized: the request may have other recipients since the reply was lost.
    if verdict.as_ref().is_ok_and(|it| is_repeated(request, it)) {
        return Ok(Outcome::Unchanged(reply_decided(request)));
    }
    let decider = user.authorize()?;
    require_not_excluded(request, &decider.name)?;
    let verdict = verdict?;
    if let Some(end) = request.end() {
        return keep_late_answer(request, end, verdict, context);
    }
    require_run_owner(&decider)?;
    require_version(request, command.version)?;
    if verdict.outcome == HoldOutcome::Approved && !is_last_vote(request, spec) {
        return Ok(add_vote(request, &verdict, context));
    }
    Ok(record_decision(request, verdict, context))
}

/// Decides one of several requests, all or none. A late decision refuses all of them, so that it is not kept.
pub(crate) fn decide_one_of_requests(
    request: Option<&Request>,
    caller: &Caller,
    command: &DecideRequest,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    match decide_request(request, caller, command, context)? {
        Outcome::Unchanged(reply) => Ok(Outcome::Unchanged(shorten(reply))),
        Outcome::Decided(mut change) => {
            if change.reply.try_as_late_ref().is_some()
                && let Some(end) = request.and_then(Request::end)
            {
                return Err(Refusal::already_decided(context.id, end, false).into());
            }
            change.reply = shorten(change.reply);
            Ok(Outcome::Decided(change))
        }
    }
}

/// Shortens the reply, because the replies for all requests travel in one message.
fn shorten(reply: Reply) -> Reply {
    if let Reply::Decided(decided) = reply {
        return Reply::One(DecidedOne {
            effect: decided.effect,
            votes: decided.request.votes_so_far(),
        });
    }
    reply
}

/// Whether the decision, or the vote of its person, is on record. This stays so however the request ends.
fn is_repeated(request: &Request, verdict: &Verdict) -> bool {
    has_voted(request, verdict)
        || request
            .end()
            .is_some_and(|end| is_same(request, &end, verdict))
}

/// A person has one vote.
fn has_voted(request: &Request, verdict: &Verdict) -> bool {
    let votes = &request.progress.votes;
    verdict.outcome == HoldOutcome::Approved && votes.iter().any(|vote| vote.by == verdict.by)
}

fn is_last_vote(request: &Request, spec: &HoldSpec) -> bool {
    let have = u32::try_from(request.progress.votes.len()).unwrap_or(u32::MAX);
    have.saturating_add(1) >= spec.policy.need
}

/// Adds an approval that does not decide yet.
fn add_vote(request: &Request, verdict: &Verdict, context: &DecisionContext<'_>) -> Outcome {
    let mut transition = RequestTransition::on(request, context.now);
    let vote = verdict.vote(context.now);
    transition.request.progress.votes.push(vote);
    transition.add_history("approved", &verdict.by, text_of(&verdict.data));
    transition.mention(mentioned_by(request, verdict), &verdict.by);
    transition.finish(reply_decided)
}

/// The comment, the reason or the notes of a decision.
fn text_of(data: &Value) -> Option<String> {
    let text = ["notes", "comment"].iter().find_map(|name| data.get(name));
    text.unwrap_or(data).as_str().map(str::to_owned)
}

/// The users whom a person names in a decision. Values of forms, options and defaults are texts that agents or contacts
/// may have written, so they name no user. The same text for hundreds of requests names none either.
fn mentioned_by(request: &Request, verdict: &Verdict) -> Vec<String> {
    if verdict.silent {
        return Vec::new();
    }
    let spec = request.spec.as_ref();
    let is_offered = |spec: &HoldSpec| {
        let is_option = |option: &String| verdict.data.as_str() == Some(option);
        spec.options.iter().any(is_option) || spec.default.as_ref() == Some(&verdict.data)
    };
    let is_answer = verdict.outcome == HoldOutcome::Answered;
    if is_answer && (!verdict.data.is_string() || spec.is_some_and(is_offered)) {
        return Vec::new();
    }
    let text = text_of(&verdict.data).unwrap_or_default();
    mentioned_users(&text, &verdict.by)
}

/// Checks that the decision fits the kind and that its content is valid.
fn check_decision(
    request: &Request,
    spec: &HoldSpec,
    decision: &Decision,
) -> Result<(HoldOutcome, Value), Refusal> {
    let (kind, action) = match decision {
        Decision::Respond { .. } => (HoldKind::Input, "respond"),
        Decision::Approve { .. } => (HoldKind::Approval, "approve"),
        Decision::Reject { .. } => (HoldKind::Approval, "reject"),
        Decision::Revise { .. } => (HoldKind::Approval, "revise"),
        Decision::Complete(_) => (HoldKind::Handoff, "complete"),
    };
    if spec.kind != kind {
        let (id, kind) = (request.id, spec.kind);
        return Err(Refusal::WrongKind { id, kind, action });
    }
    let (outcome, data) = match decision {
        Decision::Respond { answer } => {
            let answer = plain_value(answer);
            check_answer(spec, &answer)?;
            (HoldOutcome::Answered, answer)
        }
        Decision::Approve {
            comment,
            edited_args,
            digest,
        } => {
            let comment = comment.as_deref().map(plain);
            check_length("/decision/approve/comment", comment.as_deref())?;
            check_digest(request.id, spec, digest.as_deref())?;
            let data = match edited_args {
                None => json!(comment),
                Some(args) => {
                    let args = check_edited_args(spec, args)?;
                    json!({ "comment": comment, "edited_args": args })
                }
            };
            (HoldOutcome::Approved, data)
        }
        Decision::Reject { reason } => {
            let reason = check_required("/decision/reject/reason", reason)?;
            (HoldOutcome::Rejected, json!(reason))
        }
        Decision::Revise { instructions } => {
            if spec.revises.is_none() {
                return Err(Refusal::NotRevisable(request.id));
            }
            let pointer = "/decision/revise/instructions";
            let instructions = check_required(pointer, instructions)?;
            (HoldOutcome::Revised, json!(instructions))
        }
        Decision::Complete(completion) => {
            let completion = Completion {
                notes: plain(&completion.notes),
                ..completion.clone()
            };
            check_length("/decision/complete/notes", Some(&completion.notes))?;
            (HoldOutcome::Completed, json!(completion))
        }
    };
    if json_bytes(&data) > ANSWER_BYTES_MAX {
        let message = format!("expected at most {ANSWER_BYTES_MAX} bytes of JSON");
        return Err(Refusal::invalid_answer("/decision", message));
    }
    Ok((outcome, data))
}

/// A text that a decision must have, without markup.
fn check_required(pointer: &str, text: &str) -> Result<String, Refusal> {
    if text.trim().is_empty() {
        let name = pointer.rsplit('/').next().unwrap_or_default();
        return Err(Refusal::invalid_answer(
            pointer,
            format!("`{name}` must not be empty"),
        ));
    }
    let text = plain(text);
    check_length(pointer, Some(&text))?;
    Ok(text)
}

fn check_length(pointer: &str, text: Option<&str>) -> Result<(), Refusal> {
    text.map_or(Ok(()), check_text)
        .map_err(|message| Refusal::invalid_answer(pointer, message))
}

fn check_answer(spec: &HoldSpec, answer: &Value) -> Result<(), Refusal> {
    let pointer = "/decision/respond/answer";
    if answer.is_null() {
        return Err(Refusal::invalid_answer(pointer, "expected an answer"));
    }
    let errors = match &spec.link {
        Some(_) => link::answer_errors(answer),
        None => {
            // A schema that is not a form was never shown as one, so any answer is valid.
            let form = spec.schema.as_ref().and_then(|it| Form::parse(it).ok());
            answer_errors(answer, &spec.options, form.as_ref())
        }
    };
    if errors.is_empty() {
        return Ok(());
    }
    let errors = errors.into_iter().map(|error| error.under(pointer));
    Err(Refusal::InvalidAnswer(errors.collect()))
}

fn record_decision(request: &Request, verdict: Verdict, context: &DecisionContext<'_>) -> Outcome {
    let mentioned = mentioned_by(request, &verdict);
    let mut transition = RequestTransition::on(request, context.now);
    if verdict.outcome == HoldOutcome::Approved {
        let vote = verdict.vote(context.now);
        transition.request.progress.votes.push(vote);
    }
    let Verdict {
        outcome, data, by, ..
    } = verdict;
    let note = text_of(&data);
    transition.add_history(outcome.as_str(), &by, note);
    let to = request.deciders();
    transition.notify(RequestEventKind::Decided, Some(&by), to);
    transition.mention(mentioned, &by);
    transition.request.phase = Phase::Decided {
        outcome,
        data,
        by,
        at: context.now,
    };
    transition.close();
    transition.finish(reply_decided)
}

/// The data of an erased decision cannot be compared.
fn is_same(request: &Request, end: &End, verdict: &Verdict) -> bool {
    let has_data = || end.data == verdict.data || request.erased_at.is_some();
    end.by == verdict.by && end.outcome == verdict.outcome && has_data()
}

/// The reply to a decision that counts, with its present effect.
pub(crate) fn reply_decided(request: &Request) -> Reply {
    // Only a request with a spec is decided, so there is a view.
    request.view().map_or(Reply::EventRecorded, |view| {
        Reply::Decided(Box::new(Decided {
            recorded: true,
            effect: request.effect.unwrap_or(DecisionEffect::Pending),
            request: view,
        }))
    })
}

/// Keeps a late decision if it is new, the limits allow it, and the request is not erased.
fn keep_late_answer(
    request: &Request,
    end: End,
    verdict: Verdict,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    let data = json!({ "outcome": verdict.outcome, "data": verdict.data });
    let is_same = |one: &LateAnswer| one.by == verdict.by && one.data == data;
    let is_known = request.late.iter().any(is_same);
    let kept: usize = request.late.iter().map(|one| json_bytes(&one.data)).sum();
    let has_room = request.erased_at.is_none()
        && request.late.len() < LATE_MAX
        && kept + json_bytes(&data) <= LATE_BYTES_MAX;
    let refusal = Refusal::already_decided(request.id, end, is_known || has_room);
    if is_known || !has_room {
        return Err(refusal.into());
    }
    let mut transition = RequestTransition::on(request, context.now);
    transition.mention(mentioned_by(request, &verdict), &verdict.by);
    transition.request.late.push(LateAnswer {
        by: verdict.by,
        at: context.now,
        data,
    });
    Ok(transition.finish(|_| Reply::Late(Box::new(refusal.problem()))))
}

fn json_bytes(value: &Value) -> usize {
    value.to_string().len()
}
