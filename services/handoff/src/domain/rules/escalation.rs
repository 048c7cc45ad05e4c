//! The ladder: who is told, and what happens, when nobody acts (S4-R15). It is part of its request:
//! the one timer of a request is set to its deadline or its next rung, whichever comes first
//! (`docs/decisions/0007-a-ladder-is-part-of-its-request.md`).

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::hold::{HandoffEventKind, HoldSpec, Priority, Rung, RungAct};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::run::HoldKind;

use super::audience::{self, Plan};
use super::hours::WorkingHours;
use super::progress::{RequestProgress, RungEnd};
use super::request::{BY_TIME, Phase, Request};
use super::transition::RequestTransition;
use super::{DecisionContext, Undecided};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Shortest time that a request is quiet once somebody has seen it, unless its policy says another.
const QUIET_MS_MIN: u64 = 30 * MINUTE_MS;

/// After the last rung of a ladder that does not reach the owners, they are told after this time.
const OWNERS_AFTER_MS: u64 = DAY_MS;

/// When those it is put to are told again, and when the owners are, by kind and priority.
pub(crate) const fn default_times(kind: HoldKind, priority: Priority) -> (u64, u64) {
    let (again, owners) = match priority {
        Priority::Low => (3 * DAY_MS, 7 * DAY_MS),
        Priority::Normal => (DAY_MS, 3 * DAY_MS),
        Priority::High => (4 * HOUR_MS, DAY_MS),
        Priority::Urgent => (30 * MINUTE_MS, 2 * HOUR_MS),
        Priority::Critical => (10 * MINUTE_MS, 30 * MINUTE_MS),
    };
    match kind {
        // A question is small, and somebody stands still until it is answered.
        HoldKind::Input => (again / 4, owners / 4),
        HoldKind::Approval | HoldKind::Handoff | HoldKind::Timer => (again, owners),
    }
}

fn rung(after_ms: u64, act: RungAct, to: Vec<String>) -> Rung {
    Rung { after_ms, act, to }
}

/// Whether a rung is the last word: the owners know, or the request is over.
fn is_last_word(rung: &Rung) -> bool {
    match rung.act {
        RungAct::AnswerDefault | RungAct::Fail => true,
        RungAct::Notify | RungAct::Reassign | RungAct::Broaden => {
            rung.to.is_empty() || rung.to.iter().any(|to| to == "@role.owner")
        }
        RungAct::Raise => false,
    }
}

/// The rungs of this round.
fn rungs(request: &Request, spec: &HoldSpec) -> Vec<Rung> {
    let mut rungs = written(request, spec);
    let first = rungs.first().map_or(0, |rung| rung.after_ms);
    if let Some(quiet_ms) = request.progress.ladder.quiet_ms {
        for rung in &mut rungs {
            rung.after_ms = (rung.after_ms - first).saturating_add(quiet_ms);
        }
    }
    rungs
}

/// How long a request is quiet once somebody has seen it, in milliseconds: as its policy says, else as
/// long as its first rung waits, and half an hour at least.
pub(crate) fn quiet_ms(request: &Request) -> u64 {
    let rungs = request.spec.as_ref().map(|spec| written(request, spec));
    let first = rungs.and_then(|rungs| Some(rungs.first()?.after_ms));
    let said = request.progress.settled.acknowledged_for_ms;
    said.unwrap_or_else(|| QUIET_MS_MIN.max(first.unwrap_or(0)))
}

/// The rungs of a request, in the order of their times. The last word is never left out.
fn written(request: &Request, spec: &HoldSpec) -> Vec<Rung> {
    if spec.kind == HoldKind::Timer {
        return Vec::new();
    }
    if !is_by_policy(request) {
        let has_it = request.audience();
        return vec![
            rung(DAY_MS, RungAct::Notify, has_it),
            rung(3 * DAY_MS, RungAct::Notify, Vec::new()),
        ];
    }
    if spec.ladder.is_empty() {
        let kind = request.progress.settled.default_of.unwrap_or(spec.kind);
        let (again, owners) = default_times(kind, spec.priority);
        return vec![
            rung(again, RungAct::Notify, request.audience()),
            rung(owners, RungAct::Notify, Vec::new()),
        ];
    }
    let mut rungs = spec.ladder.clone();
    rungs.sort_by_key(|rung| rung.after_ms);
    if !rungs.iter().any(is_last_word) {
        let last = rungs.last().map_or(0, |rung| rung.after_ms);
        let after_ms = last.saturating_add(OWNERS_AFTER_MS);
        rungs.push(rung(after_ms, RungAct::Notify, Vec::new()));
    }
    rungs
}

/// The next rung and its instant; none: the ladder is at its end, or does not run. It stops while a person
/// owns the run (C-13).
pub(crate) fn next(request: &Request) -> Option<(Rung, DateTime<Utc>)> {
    if request.is_owned() {
        return None;
    }
    let spec = request.spec.as_ref()?;
    let since = request.progress.ladder.since?;
    let rung = rungs(request, spec)
        .into_iter()
        .nth(request.progress.ladder.fired)?;
    let ladder = &request.progress.ladder;
    let left_ms = rung.after_ms.saturating_sub(ladder.passed_ms);
    let worked = hours(request).and_then(|hours| hours.after(since, left_ms));
    let due = match worked {
        Some(due) => due,
        None => {
            let left = TimeDelta::milliseconds(i64::try_from(left_ms).ok()?);
            since.checked_add_signed(left)?
        }
    };
    Some((rung, due))
}

/// The rung that fires when time is up and the request stays: the next one that it was given. None: it
/// has no more of them, or that one would end it.
pub(crate) fn next_to_tell(request: &Request) -> Option<Rung> {
    let given = request.spec.as_ref()?.ladder.len();
    if !is_by_policy(request) || request.progress.ladder.fired >= given {
        return None;
    }
    let (rung, _) = next(request)?;
    match rung.act {
        RungAct::Notify | RungAct::Reassign | RungAct::Raise | RungAct::Broaden => Some(rung),
        RungAct::AnswerDefault | RungAct::Fail => None,
    }
}

/// Whether the rungs are those of its policy: not once somebody owns it, or has stopped them.
fn is_by_policy(request: &Request) -> bool {
    let RequestProgress {
        settled,
        taken_over,
        accepted,
        ..
    } = &request.progress;
    taken_over.is_none() && !(settled.stops_on_accept && accepted.is_some())
}

/// When its rungs count; none: always.
pub(crate) fn hours(request: &Request) -> Option<WorkingHours<'_>> {
    let calendar = request.progress.settled.calendar.as_ref();
    let calendar = calendar.filter(|_| is_by_policy(request))?;
    // It was read before it was kept.
    WorkingHours::read(calendar).ok()
}

/// No rung before an instant.
pub(crate) fn not_before(request: &mut Request, until: DateTime<Utc>) {
    let due = next(request).map(|(rung, due)| (rung.after_ms, due));
    let counts_hours = hours(request).is_some();
    let ladder = &mut request.progress.ladder;
    ladder.not_before(due, until, counts_hours);
}

/// Its clock stood still for a while.
pub(crate) fn stood(request: &mut Request, from: DateTime<Utc>, until: DateTime<Utc>) {
    let mut ladder = request.progress.ladder.clone();
    ladder.stood(from, until, hours(request).as_ref());
    request.progress.ladder = ladder;
}

/// The next rung fires, once.
pub(crate) fn fire(
    transition: &mut RequestTransition,
    rung: &Rung,
    at: DateTime<Utc>,
    context: &DecisionContext<'_>,
) -> Result<(), Undecided> {
    let act = effect(&transition.request, rung);
    transition.request.progress.ladder.fired += 1;
    // Whom it names may have left meanwhile: the owners are told instead.
    let put = audience::of_rung(&rung.to, context)?;
    let said = |what: &str| Some(format!("{what} {}", audience::words(&put)));
    let note = match act {
        RungAct::Notify => said("told:"),
        RungAct::Reassign => {
            if let Plan::Assigned(plan) =
                audience::plan(&put, &audience::Rules::default(), context)?
            {
                transition.request.progress.give(put.clone(), plan.assignee);
                transition.handoff_event(HandoffEventKind::Reassigned, BY_TIME, at);
            }
            said("given to")
        }
        RungAct::Raise => {
            let raised = transition.request.priority().raised();
            transition.request.progress.raised = Some(raised);
            Some(format!("now {}", raised.as_str()))
        }
        RungAct::Broaden => {
            transition.request.also(&put);
            said("may decide it too:")
        }
        RungAct::AnswerDefault => {
            end(
                transition,
                at,
                rung.after_ms,
                has_default(&transition.request),
            );
            return Ok(());
        }
        RungAct::Fail => {
            end(transition, at, rung.after_ms, false);
            return Ok(());
        }
    };
    let note = note.map(|note| in_round(transition, note));
    transition.note("escalated", BY_TIME, at, note);
    transition.tell_people(RequestEventKind::Escalated, None, at, put);
    Ok(())
}

/// What the next rung does. Once somebody has seen the request, a rung that has had its effect tells
/// only, and none takes it from whoever has accepted it.
fn effect(request: &Request, rung: &Rung) -> RungAct {
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

/// Whether a rung answers. What a run asks has a default where that is what its timeout says: it ends
/// as that would.
fn has_default(request: &Request) -> bool {
    let spec = request.spec.as_ref().filter(|_| request.owner.is_none());
    spec.is_some_and(|spec| spec.kind == HoldKind::Input && spec.default.is_some())
}

/// A rung that fires once more is told apart from its first time.
fn in_round(transition: &RequestTransition, note: String) -> String {
    match transition.request.progress.ladder.rounds {
        0 => note,
        before => format!(
            "round {}, for it was seen and is still open: {note}",
            before + 1
        ),
    }
}

fn end(transition: &mut RequestTransition, at: DateTime<Utc>, after_ms: u64, is_answered: bool) {
    // Of a later round, what it says counts from when somebody saw it.
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
    transition.note("expired", BY_TIME, at, Some("its ladder ended it".into()));
    let to = transition.request.audience();
    transition.tell_people(RequestEventKind::Expired, None, at, to);
}
