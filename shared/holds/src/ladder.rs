//! Ladders: the rungs of policies, and those that are built in (S4-R15).

use holdpoint_contracts::handoff::PolicyRung;
use holdpoint_contracts::hold::{Priority, Rung, RungAct};
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::PolicyName;

use crate::limits::RUNGS_MAX;
use crate::recipient::OWNERS;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Time from the last rung of a ladder that does not reach the owners to the rung that notifies them.
const OWNERS_AFTER_MS: u64 = DAY_MS;

/// Prefix of the names of built-in policies.
pub const BUILT_IN_PREFIX: &str = "default-";

/// The kind whose default ladder a name means.
#[must_use]
pub fn kind_of_built_in(name: &PolicyName) -> Option<HoldKind> {
    match name.as_str().strip_prefix(BUILT_IN_PREFIX)? {
        "approval" => Some(HoldKind::Approval),
        "input" => Some(HoldKind::Input),
        "handoff" => Some(HoldKind::Handoff),
        _ => None,
    }
}

/// Times of the default rungs that notify the audience and the owners, in milliseconds.
#[must_use]
pub const fn default_times(kind: HoldKind, priority: Priority) -> (u64, u64) {
    let (audience, owners) = match priority {
        Priority::Low => (3 * DAY_MS, 7 * DAY_MS),
        Priority::Normal => (DAY_MS, 3 * DAY_MS),
        Priority::High => (4 * HOUR_MS, DAY_MS),
        Priority::Urgent => (30 * MINUTE_MS, 2 * HOUR_MS),
        Priority::Critical => (10 * MINUTE_MS, 30 * MINUTE_MS),
    };
    match kind {
        // An answer takes little time, and a step waits for it.
        HoldKind::Input => (audience / 4, owners / 4),
        HoldKind::Approval
        | HoldKind::Handoff
        | HoldKind::Timer
        | HoldKind::Signal
        | HoldKind::ChildRun => (audience, owners),
    }
}

/// The default ladder: it notifies the audience, then the owners.
#[must_use]
pub fn default_ladder(kind: HoldKind, priority: Priority, audience: Vec<String>) -> [Rung; 2] {
    let (first, owners) = default_times(kind, priority);
    [notify(first, audience), notify(owners, Vec::new())]
}

/// A written ladder in the order of its times. Its last rung always reaches the owners or ends the request.
#[must_use]
pub fn complete_ladder(mut rungs: Vec<Rung>) -> Vec<Rung> {
    rungs.sort_by_key(|rung| rung.after_ms);
    if !rungs.iter().any(is_final) {
        let last = rungs.last().map_or(0, |rung| rung.after_ms);
        rungs.push(notify(last.saturating_add(OWNERS_AFTER_MS), Vec::new()));
    }
    rungs
}

const fn notify(after_ms: u64, to: Vec<String>) -> Rung {
    Rung {
        after_ms,
        act: RungAct::Notify,
        to,
    }
}

/// Whether the rung is a last one: it reaches the owners or ends the request.
fn is_final(rung: &Rung) -> bool {
    match rung.act {
        RungAct::AnswerDefault | RungAct::Fail => true,
        RungAct::Notify | RungAct::Reassign | RungAct::Broaden => {
            rung.to.is_empty() || rung.to.iter().any(|to| to == OWNERS)
        }
        RungAct::Raise => false,
    }
}

/// How often a rung of a policy fires.
#[must_use]
pub fn count_firings(rung: &PolicyRung) -> usize {
    let repeats = rung.repeat.map_or(0, |repeat| repeat.times);
    usize::try_from(repeats).map_or(usize::MAX, |repeats| repeats.saturating_add(1))
}

/// A rung and its repetitions, each as a rung that fires once.
#[must_use]
pub fn expand_rung(rung: &PolicyRung) -> Vec<Rung> {
    let every = rung.repeat.map_or(0, |repeat| repeat.every);
    let count = u64::try_from(count_firings(rung).min(RUNGS_MAX + 1)).unwrap_or(1);
    let one = |place: u64| Rung {
        after_ms: rung.after.saturating_add(every.saturating_mul(place)),
        act: rung.act,
        to: rung.to.clone(),
    };
    (0..count).map(one).collect()
}
