//! `executor.holds_closed`: the handoff service reports how a hold on people ended, or that a person has taken its
//! run over. A repetition changes nothing.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{CloseReply, HoldOutcome};
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use crate::domain::effect::Reply;
use crate::domain::model::run::{
    Answered, Choice, HoldClosure, Ownership, PersonHold, StepPhase, Uncertain,
};
use crate::domain::refusal::Refusal;
use crate::domain::rules::close_person_hold::apply_closure;
use crate::domain::rules::end_person_step::{answer_text, step_of_hold};
use crate::domain::rules::handoff_events::{pass_ownership, record_events_before_close};
use crate::domain::rules::kept_answers::{apply_kept_answers, fits_kind, takes_effect};
use crate::domain::rules::next_steps::start_next_steps;
use crate::domain::rules::open_hold::next_hold_id;
use crate::domain::rules::open_hold_needs::load_open_hold_needs;
use crate::domain::rules::take_over::{record_takeover, revoke_steps};
use crate::domain::rules::timers::freeze_timers;
use crate::domain::rules::uncertain_steps::announce_question;
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

/// The handoff service refused the question, so no person can answer it (Mend B-3, B-13). The run gets an
/// incident. The question is asked once more, in a form that has nothing to refuse. If that one is refused
/// too, the step is given up: else nothing would ever wake the run.
fn ask_again_or_give_up<'a>(
    mut transition: RunTransition<'a>,
    step: &str,
    asked: &Uncertain,
    closing: &HoldClosure,
) -> RunDecision<'a> {
    let why = closing.data.get("message").and_then(Value::as_str);
    let why = why.unwrap_or("it was withdrawn").trim_end_matches('.');
    let next = if asked.is_minimal {
        "Its step is given up"
    } else {
        "It is asked again in a short form"
    };
    let message =
        format!("The question whether {step} happened could not be asked: {why}. {next}.");
    if transition.add_incident(&message) {
        let data = json!({ "reason": message });
        transition.event(EventType::RunIncident, Some(step), message, data);
    }
    let index = transition.position(step)?;
    load_open_hold_needs(&transition, &[])?;
    let mut next = asked.clone();
    if asked.is_minimal {
        next.answer = Some(Answered {
            choice: Choice::GiveUp,
            by: "holdpoint".to_owned(),
        });
    } else {
        // A hold is closed for good, so the second question needs an id of its own.
        next.hold = next_hold_id(&mut transition.run);
        next.is_minimal = true;
    }
    let hold = next.hold;
    if let Some(step) = transition.step_mut(index) {
        step.phase = StepPhase::Uncertain(next);
        if !asked.is_minimal {
            step.answered.push(asked.hold.number);
            announce_question(&mut transition, index, hold);
        }
    }
    let reply = if asked.is_minimal && !transition.run.moves() {
        CloseReply::OnResume
    } else {
        CloseReply::Applied
    };
    apply_kept_answers(&mut transition)?;
    transition.decided(Reply::Closed(reply))
}

/// A person has answered. A paused run keeps the answer until its resume, and a second answer changes
/// nothing.
pub(crate) fn close_uncertain_hold<'a>(
    mut transition: RunTransition<'a>,
    hold: HoldId,
    choice: Option<Choice>,
    closing: &HoldClosure,
) -> RunDecision<'a> {
    let unchanged = |reply| Ok(RunOutcome::Unchanged(Reply::Closed(reply)));
    let steps = &transition.run.steps;
    if steps
        .iter()
        .any(|step| step.answered.contains(&hold.number))
    {
        return unchanged(CloseReply::Applied);
    }
    let open = transition
        .run
        .questions()
        .find(|(_, asked)| asked.hold == hold);
    let Some((step, asked)) = open else {
        return unchanged(CloseReply::RunEnded);
    };
    if asked.answer.is_some() {
        return unchanged(CloseReply::OnResume);
    }
    let id = step.id.clone();
    let Some(choice) = choice else {
        if closing.outcome != HoldOutcome::Cancelled {
            return Err(Refusal::UnknownAnswer(hold).into());
        }
        let asked = asked.clone();
        return ask_again_or_give_up(transition, &id, &asked, closing);
    };
    let by = &closing.by;
    let index = transition.position(&id)?;
    load_open_hold_needs(&transition, &[])?;
    transition.event(
        EventType::InputAnswered,
        Some(&id),
        format!("{by} answered about {id}: {}.", choice.into_str()),
        json!({ "hold": hold, "answer": choice, "by": by }),
    );
    let answer = Answered {
        choice,
        by: by.clone(),
    };
    if let Some(StepPhase::Uncertain(asked)) =
        transition.step_mut(index).map(|step| &mut step.phase)
    {
        asked.answer = Some(answer);
    }
    if !transition.run.moves() {
        return transition.decided(Reply::Closed(CloseReply::OnResume));
    }
    apply_kept_answers(&mut transition)?;
    transition.decided(Reply::Closed(CloseReply::Applied))
}

/// A hold on people was closed, or a person owns the run by it. Twice is once.
pub(crate) fn close_hold<'a>(
    mut transition: RunTransition<'a>,
    hold: HoldId,
    closing: &HoldClosure,
) -> RunDecision<'a> {
    if transition.run.closed.contains(&hold.number) {
        let is_late = closing.outcome != HoldOutcome::Timeout
            && transition.run.timed_out.contains(&hold.number);
        return Ok(RunOutcome::Unchanged(Reply::Closed(if is_late {
            CloseReply::RunEnded
        } else {
            CloseReply::Applied
        })));
    }
    let Some(on) = transition.run.person_hold(hold) else {
        return close_uncertain_hold(transition, hold, choice_of(closing), closing);
    };
    let is_news = record_events_before_close(&mut transition, &on, closing);
    // The events may have moved its deadline or its owner.
    let mut on = transition.run.person_hold(hold).unwrap_or(on);
    let reply_only = |transition: RunTransition<'a>, answer| {
        let answer = Reply::Closed(answer);
        if is_news {
            transition.decided(answer)
        } else {
            Ok(RunOutcome::Unchanged(answer))
        }
    };
    // A kept timeout does not bind. Its owner may have undone it, and then a person has answered.
    let is_kept = |kept: &HoldClosure| {
        kept.outcome != HoldOutcome::Timeout || closing.outcome == HoldOutcome::Timeout
    };
    if on.closing.as_ref().is_some_and(is_kept) {
        return reply_only(transition, CloseReply::OnResume);
    }
    if !fits_kind(on.kind, closing) {
        return Err(Refusal::UnknownAnswer(hold).into());
    }
    load_open_hold_needs(&transition, &[])?;
    if closing.outcome == HoldOutcome::TakenOver {
        return match on.taken {
            Some(_) => take_over_again(transition, &on, closing, is_news),
            None => take_over_handoff(transition, &on, closing),
        };
    }
    if closing.outcome == HoldOutcome::Timeout {
        // The take-over stopped the timer, so an earlier timeout is void.
        if on.taken.is_some() {
            return reply_only(transition, CloseReply::Applied);
        }
        // A timeout only proposes. Remaining time is desired again on resume, and the owner of the hold, who
        // may have undone the timeout, reports it again.
        if on.has_time_left_after(closing) || !transition.run.pauses.is_empty() {
            return reply_only(transition, CloseReply::OnResume);
        }
    }
    // The message about its end names its time.
    on.length_ms = closing
        .by_rung
        .map_or(on.length_ms, |end| Some(end.after_ms));
    record_answer(&mut transition, &on, closing);
    if !takes_effect(&transition, &on) {
        if let Some(on) = transition.run.people_mut().find(|on| on.id == hold) {
            on.closing = Some(HoldClosure {
                handoff_events: Vec::new(),
                ..closing.clone()
            });
        }
        return transition.decided(Reply::Closed(CloseReply::OnResume));
    }
    apply_closure(&mut transition, &on, closing)?;
    apply_kept_answers(&mut transition)?;
    start_next_steps(&mut transition)?;
    transition.decided(Reply::Closed(CloseReply::Applied))
}

/// The chosen option about an uncertain step, as the answer itself or in an object; none: it is not an
/// option.
fn choice_of(closing: &HoldClosure) -> Option<Choice> {
    let is_answer = closing.outcome == HoldOutcome::Answered;
    let answer = closing.data.get("answer").unwrap_or(&closing.data);
    is_answer
        .then(|| serde_json::from_value(answer.clone()).ok())
        .flatten()
}

/// Recorded at once, whenever it takes effect.
fn record_answer(transition: &mut RunTransition<'_>, on: &PersonHold, closing: &HoldClosure) {
    if closing.outcome != HoldOutcome::Answered {
        return;
    }
    let step = step_of_hold(transition, on.id);
    transition.event(
        EventType::InputAnswered,
        step.as_deref(),
        format!("{} answered: {}.", closing.by, answer_text(&closing.data)),
        json!({ "hold": on.id, "question": on.asks, "answer": closing.data, "by": closing.by }),
    );
}

/// A person owns the run from now on: its other live steps are revoked, and nothing of the agent
/// starts until they hand it back. The hold stays.
pub(crate) fn take_over_handoff<'a>(
    mut transition: RunTransition<'a>,
    on: &PersonHold,
    closing: &HoldClosure,
) -> RunDecision<'a> {
    revoke_steps(&mut transition)?;
    freeze_timers(&mut transition);
    let taken = Ownership {
        by: closing.by.clone(),
        at: closing.at,
    };
    if let Some(on) = transition.run.people_mut().find(|one| one.id == on.id) {
        on.taken = Some(taken);
    }
    record_takeover(&mut transition, on, closing);
    transition.decided(Reply::Closed(CloseReply::Applied))
}

/// A person takes over what was reassigned.
pub(crate) fn take_over_again<'a>(
    mut transition: RunTransition<'a>,
    on: &PersonHold,
    closing: &HoldClosure,
    is_news: bool,
) -> RunDecision<'a> {
    let answer = Reply::Closed(CloseReply::Applied);
    if pass_ownership(&mut transition, on.id, &closing.by, closing.at) {
        record_takeover(&mut transition, on, closing);
    } else if !is_news {
        return Ok(RunOutcome::Unchanged(answer));
    }
    transition.decided(answer)
}
