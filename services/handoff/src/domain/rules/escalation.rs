//! The ladder of a request: which rung is next, and what it does (S4-R15).
//!
//! The ladder is part of the request, and the one timer of a request is set to its deadline or its next
//! rung, whichever comes first (`docs/decisions/0007-a-ladder-is-part-of-its-request.md`).

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_calendar::WorkingHours;
use holdpoint_contracts::hold::{HandoffEventKind, HoldSpec, Rung, RungAct};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::ladder::{complete_ladder, default_ladder};

use super::audience::{self, Assignment, AssignmentRules};
use crate::domain::decision::Undecided;
use crate::domain::lookup::DecisionContext;
use crate::domain::model::progress::{RequestProgress, RungEnd};
use crate::domain::model::request::{BY_TIME, Phase, Request};
use crate::domain::transition::RequestTransition;

/// Shortest time without reminders after an acknowledgement, if no policy states one.
const QUIET_MS_MIN: u64 = 30 * 60_000;

const DAY_MS: u64 = 24 * 3_600_000;

fn rung(after_ms: u64, act: RungAct, to: Vec<String>) -> Rung {
    Rung { after_ms, act, to }
}

fn rungs_of_round(request: &Request, spec: &HoldSpec) -> Vec<Rung> {
    let mut rungs = rungs_of(request, spec);
    let first = rungs.first().map_or(0, |rung| rung.after_ms);
    if let Some(quiet_ms) = request.progress.ladder.quiet_ms {
        for rung in &mut rungs {
            rung.after_ms = (rung.after_ms - first).saturating_add(quiet_ms);
        }
    }
    rungs
}

/// Time without reminders after an acknowledgement, in milliseconds: the policy's value, else the time of
/// the first rung, but at least half an hour.
pub(crate) fn quiet_ms(request: &Request) -> u64 {
    let rungs = request.spec.as_ref().map(|spec| rungs_of(request, spec));
    let first = rungs.and_then(|rungs| Some(rungs.first()?.after_ms));
    let by_policy = request.progress.resolved_policies.acknowledged_for_ms;
    by_policy.unwrap_or_else(|| QUIET_MS_MIN.max(first.unwrap_or(0)))
}

/// The rungs of a request in the order of their times. The last one always reaches the owners or ends the
/// request.
fn rungs_of(request: &Request, spec: &HoldSpec) -> Vec<Rung> {
    if spec.kind == HoldKind::Timer {
        return Vec::new();
    }
    if !is_by_policy(request) {
        let audience = request.audience();
        return vec![
            rung(DAY_MS, RungAct::Notify, audience),
            rung(3 * DAY_MS, RungAct::Notify, Vec::new()),
        ];
    }
    if spec.ladder.is_empty() {
        let kind = request
            .progress
            .resolved_policies
            .default_of
            .unwrap_or(spec.kind);
        return default_ladder(kind, spec.priority, request.audience()).into();
    }
    complete_ladder(spec.ladder.clone())
}

/// The next rung and its due time; none if the ladder has ended or does not run. It stops while a person
/// owns the run (C-13).
pub(crate) fn next_rung(request: &Request) -> Option<(Rung, DateTime<Utc>)> {
    if request.is_owned() {
        return None;
    }
    let spec = request.spec.as_ref()?;
    let since = request.progress.ladder.since?;
    let rung = rungs_of_round(request, spec)
        .into_iter()
        .nth(request.progress.ladder.fired)?;
    let ladder = &request.progress.ladder;
    let left_ms = rung.after_ms.saturating_sub(ladder.passed_ms);
    let worked = working_hours(request).and_then(|hours| hours.after(since, left_ms));
    let due = match worked {
        Some(due) => due,
        None => {
            let left = TimeDelta::milliseconds(i64::try_from(left_ms).ok()?);
            since.checked_add_signed(left)?
        }
    };
    Some((rung, due))
}

/// Due time of the request's one timer: its deadline or its next rung. A deadline that has passed and was
/// escalated needs none.
pub(crate) fn timer_due(request: &Request) -> Option<DateTime<Utc>> {
    if !matches!(request.phase, Phase::Open { .. }) {
        return None;
    }
    let rung = next_rung(request).map(|(_, due)| due);
    [request.next_deadline(), rung].into_iter().flatten().min()
}

/// The rung that fires when the deadline passes and the request stays open: the next rung of the request's
/// written ladder. None if there is none left, or if it would end the request.
pub(crate) fn rung_at_deadline(request: &Request) -> Option<Rung> {
    let given = request.spec.as_ref()?.ladder.len();
    if !is_by_policy(request) || request.progress.ladder.fired >= given {
        return None;
    }
    let (rung, _) = next_rung(request)?;
    let ends = matches!(rung.act, RungAct::AnswerDefault | RungAct::Fail);
    (!ends).then_some(rung)
}

/// Whether the written rungs count: not after a take-over, nor after an acceptance that stops them.
fn is_by_policy(request: &Request) -> bool {
    let RequestProgress {
        resolved_policies,
        taken_over,
        accepted,
        ..
    } = &request.progress;
    taken_over.is_none() && !(resolved_policies.stops_on_accept && accepted.is_some())
}

/// Working time in which rungs count; none: all time.
fn working_hours(request: &Request) -> Option<WorkingHours> {
    let calendar = request.progress.resolved_policies.calendar.as_ref();
    let calendar = calendar.filter(|_| is_by_policy(request))?;
    // The calendar was validated before it was stored.
    WorkingHours::read(calendar).ok()
}

/// Delays the ladder, so that no rung fires before an instant. Later rungs keep their distance to the next
/// one.
pub(crate) fn delay_until(request: &mut Request, until: DateTime<Utc>) {
    let Some((rung, due)) = next_rung(request) else {
        return;
    };
    let counts_hours = working_hours(request).is_some();
    let ladder = &mut request.progress.ladder;
    if counts_hours && until > due {
        // The rung is due at the first working instant from then on.
        ladder.since = Some(until);
        ladder.passed_ms = rung.after_ms;
    } else {
        let delay = (until - due).max(TimeDelta::zero());
        ladder.since = ladder.since.map(|since| since + delay);
    }
}

/// Moves the ladder by a time in which a pause stopped it.
pub(crate) fn skip_pause(request: &mut Request, from: DateTime<Utc>, until: DateTime<Utc>) {
    let Some(since) = request.progress.ladder.since else {
        return;
    };
    let passed = working_hours(request).map(|hours| hours.between(since, from.max(since)));
    let ladder = &mut request.progress.ladder;
    if let Some(passed) = passed {
        ladder.passed_ms = ladder.passed_ms.saturating_add(passed);
        ladder.since = Some(until.max(since));
    } else {
        let paused = until - from.max(since);
        ladder.since = Some(since + paused.max(TimeDelta::zero()));
    }
}

pub(crate) fn fire_rung(
    transition: &mut RequestTransition,
    rung: &Rung,
    context: &DecisionContext<'_>,
) -> Result<(), Undecided> {
    let act = act_of_rung(&transition.request, rung);
    transition.request.progress.ladder.fired += 1;
    // Its recipients may be disabled by now: then the owners are notified.
    let to = audience::active_recipients(&rung.to, context)?;
    let to_text = audience::describe(&to);
    let note = match act {
        RungAct::Notify => format!("notified {to_text}"),
        RungAct::Reassign => {
            let rules = AssignmentRules::default();
            if let Assignment::Assigned(assigned) = audience::assign(&to, &rules, context)? {
                let progress = &mut transition.request.progress;
                progress.reassign(to.clone(), assigned.assignee);
                transition.add_handoff_event(HandoffEventKind::Reassigned, BY_TIME);
            }
            format!("reassigned to {to_text}")
        }
        RungAct::Raise => {
            let raised = transition.request.priority().raised();
            transition.request.progress.raised = Some(raised);
            format!("priority raised to {}", raised.as_str())
        }
        RungAct::Broaden => {
            transition.request.add_deciders(&to);
            format!("also asked {to_text}")
        }
        RungAct::AnswerDefault => {
            let is_answered = has_default(&transition.request);
            end_by_rung(transition, rung.after_ms, is_answered);
            return Ok(());
        }
        RungAct::Fail => {
            end_by_rung(transition, rung.after_ms, false);
            return Ok(());
        }
    };
    let note = match transition.request.progress.ladder.rounds {
        0 => note,
        before => format!("round {}, after an acknowledgement: {note}", before + 1),
    };
    transition.add_history("escalated", BY_TIME, Some(note));
    transition.notify(RequestEventKind::Escalated, None, to);
    Ok(())
}

/// What a rung does in this round. After an acknowledgement, a rung that has had its effect only notifies,
/// and no rung reassigns a request that was accepted.
fn act_of_rung(request: &Request, rung: &Rung) -> RungAct {
    let RequestProgress {
        ladder, accepted, ..
    } = &request.progress;
    let is_done = ladder.fired < ladder.done;
    let is_seen = ladder.rounds > 0;
    match rung.act {
        RungAct::Reassign | RungAct::Raise | RungAct::Broaden if is_done => RungAct::Notify,
        RungAct::Reassign if is_seen && accepted.is_some() => RungAct::Notify,
        act @ (RungAct::Notify
        | RungAct::Reassign
        | RungAct::Raise
        | RungAct::Broaden
        | RungAct::AnswerDefault
        | RungAct::Fail) => act,
    }
}

/// Whether a rung answers with the default. The request of a run ends like its timeout instead, because the
/// run applies `on_timeout`.
fn has_default(request: &Request) -> bool {
    let spec = request.spec.as_ref().filter(|_| request.owner.is_none());
    spec.is_some_and(|spec| spec.kind == HoldKind::Input && spec.default.is_some())
}

fn end_by_rung(transition: &mut RequestTransition, after_ms: u64, is_answered: bool) {
    let at = transition.at;
    // In a later round `after_ms` counts from the acknowledgement, and callers expect it from the opening.
    let after_ms = match transition.request.progress.ladder.rounds {
        0 => after_ms,
        _ => u64::try_from((at - transition.request.created_at).num_milliseconds())
            .unwrap_or(after_ms),
    };
    transition.request.progress.ladder.ended = Some(RungEnd {
        after_ms,
        deadline: transition.request.deadline(),
        is_answered,
    });
    transition.request.phase = Phase::TimedOut { at };
    transition.close();
    transition.add_history("expired", BY_TIME, Some("a rung ended it".to_owned()));
    let to = transition.request.audience();
    transition.notify(RequestEventKind::Expired, None, to);
}
