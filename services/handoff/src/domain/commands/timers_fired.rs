//! `handoff.timers_fired`: the scheduler reports that the timer of a request was due.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::TimerReply;
use holdpoint_contracts::hold::OnTimeout;
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::run::HoldKind;

use crate::domain::decision::{Outcome, Undecided};
use crate::domain::effect::Reply;
use crate::domain::lookup::DecisionContext;
use crate::domain::model::request::{BY_TIME, Phase, Request};
use crate::domain::rules::escalation;
use crate::domain::transition::RequestTransition;

/// The timer of a request was due: a rung fires, or the deadline has passed. A timer that was moved or cleared
/// since is stale.
pub(crate) fn fire_timer(
    request: Option<&Request>,
    rev: u64,
    due: DateTime<Utc>,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    let stale = || Ok(Outcome::Unchanged(Reply::Timer(TimerReply::Stale)));
    let Some(request) = request else {
        return stale();
    };
    let is_current = request.timer.rev == rev && request.timer.due.is_some();
    if !is_current || !matches!(request.phase, Phase::Open { .. }) {
        return stale();
    }
    // The scheduler's clock stamps due times, and the local clock may be slightly behind it.
    let at = context.now.max(due);
    let mut transition = RequestTransition::on(request, at);
    transition.request.timer.due = None;
    transition.request.timer.is_acknowledged = true;
    match (request.next_deadline(), escalation::next_rung(request)) {
        (deadline, Some((rung, due))) if deadline.is_none_or(|deadline| due < deadline) => {
            escalation::fire_rung(&mut transition, &rung, context)?;
        }
        // The timer was set before take-over stopped the ladder.
        (None, None) if transition.request.is_owned() => {}
        (Some(_) | None, Some(_) | None) => pass_deadline(&mut transition, context)?,
    }
    Ok(transition.finish(|_| Reply::Timer(TimerReply::Applied)))
}

fn pass_deadline(
    transition: &mut RequestTransition,
    context: &DecisionContext<'_>,
) -> Result<(), Undecided> {
    let on_timeout = transition.request.spec.as_ref().map(|spec| spec.on_timeout);
    match on_timeout {
        Some(OnTimeout::Escalate) if transition.request.kind() != Some(HoldKind::Timer) => {
            transition.request.escalated_at = Some(transition.at);
            if let Some(rung) = escalation::rung_at_deadline(&transition.request) {
                let note = "the deadline passed".to_owned();
                transition.add_history("escalated", BY_TIME, Some(note));
                escalation::fire_rung(transition, &rung, context)?;
            } else {
                let note = "the deadline passed; notified the owners".to_owned();
                transition.add_history("escalated", BY_TIME, Some(note));
                transition.notify(RequestEventKind::Escalated, None, Vec::new());
            }
            // The assignees of a due task must still do it (Mend C-14).
            if transition.request.is_task() {
                transition.notify_audience_too();
            }
        }
        Some(
            OnTimeout::Escalate
            | OnTimeout::Fail
            | OnTimeout::Skip
            | OnTimeout::Default
            | OnTimeout::Continue,
        )
        | None => {
            transition.request.phase = Phase::TimedOut { at: transition.at };
            transition.close();
            transition.add_history("expired", BY_TIME, None);
            let to = transition.request.deciders();
            transition.notify(RequestEventKind::Expired, None, to);
        }
    }
    Ok(())
}

/// The scheduler acknowledged a timer. Only the acknowledgement that a timer is cleared is stored (S0-R4). A caller who
/// completes a handoff waits for it. No other reader does, so nothing else is nudged.
pub(crate) fn acknowledge_timer(
    request: Option<&Request>,
    rev: u64,
    context: &DecisionContext<'_>,
) -> Outcome {
    let unchanged = Outcome::Unchanged(Reply::EventRecorded);
    let Some(request) = request else {
        return unchanged;
    };
    let timer = request.timer;
    if timer.rev != rev || !timer.is_unconfirmed() {
        return unchanged;
    }
    let mut transition = RequestTransition::invisible(request, context.now);
    transition.request.timer.is_acknowledged = true;
    if request.kind() == Some(HoldKind::Handoff) {
        transition.finish(|_| Reply::EventRecorded)
    } else {
        transition.finish_without_nudge(|_| Reply::EventRecorded)
    }
}
