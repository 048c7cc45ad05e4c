//! The executor has answered the start of a fire: the schedule records the outcome.

use holdpoint_contracts::executor::ScheduledStartReply;
use holdpoint_contracts::scheduler::FireOutcome;

use crate::domain::decision::Outcome;
use crate::domain::effect::Reply;
use crate::domain::model::Timer;
use crate::domain::model::schedule::{ERROR_CHARS_MAX, Fire, Schedule, StartAnswer, rev_of};
use crate::domain::transition::{decided, timer_of};

/// An answer to a start that a later fire has replaced changes nothing.
pub(crate) fn record_answer(state: Option<&Timer>, rev: u64, answer: &StartAnswer) -> Outcome {
    let unchanged = Outcome::Unchanged(Reply::Nothing(()));
    let Some(timer) = state else {
        return unchanged;
    };
    let Some(schedule) = timer.schedule.as_deref() else {
        return unchanged;
    };
    let Some(pending) = schedule.pending.filter(|pending| pending.rev == rev) else {
        return unchanged;
    };
    let (outcome, error) = outcome(answer);
    let may_be_open = outcome == FireOutcome::Started || *answer == StartAnswer::Unreadable;
    let last = schedule.last.clone().map(|fire| {
        if rev_of(fire.at) == rev {
            Fire {
                outcome,
                error,
                ..fire
            }
        } else {
            fire
        }
    });
    let schedule = Schedule {
        last,
        last_run: may_be_open.then_some(pending.run).or(schedule.last_run),
        pending: None,
        ..schedule.clone()
    };
    let timer = timer_of(Some(timer), &timer.key, schedule);
    decided(timer, Vec::new(), Reply::Nothing(()))
}

fn outcome(answer: &StartAnswer) -> (FireOutcome, Option<String>) {
    match answer {
        StartAnswer::Replied(ScheduledStartReply::Started) => (FireOutcome::Started, None),
        StartAnswer::Replied(ScheduledStartReply::Paused) => {
            let text = "the agent or the workspace was paused";
            (FireOutcome::Skipped, Some(text.to_owned()))
        }
        StartAnswer::Replied(ScheduledStartReply::Open) => {
            let text = "the last run of the schedule was open";
            (FireOutcome::Skipped, Some(text.to_owned()))
        }
        StartAnswer::Refused(reason) => {
            let reason = reason.chars().take(ERROR_CHARS_MAX).collect();
            (FireOutcome::Refused, Some(reason))
        }
        StartAnswer::Unreadable => {
            let text = "the reply of the executor has an unknown form; the run may have started";
            (FireOutcome::Refused, Some(text.to_owned()))
        }
    }
}
