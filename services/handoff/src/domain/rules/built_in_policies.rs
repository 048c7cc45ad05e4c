//! The policies that are built in: the default ladder of each kind.

use holdpoint_contracts::handoff::{EscalationRules, PolicyRules, PolicyRung, PolicyView};
use holdpoint_contracts::hold::{Priority, RungAct};
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::PolicyName;

pub(super) const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
pub(super) const DAY_MS: u64 = 24 * HOUR_MS;

/// Prefix of their names.
const PREFIX: &str = "default-";

/// Times of the default rungs that notify the audience and the owners, in milliseconds.
pub(crate) const fn default_times(kind: HoldKind, priority: Priority) -> (u64, u64) {
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

/// Whether a name is reserved for built-in policies.
pub(crate) fn is_reserved(name: &PolicyName) -> bool {
    name.as_str().starts_with(PREFIX)
}

/// The kind whose default ladder a name means.
pub(crate) fn kind_of_built_in(name: &PolicyName) -> Option<HoldKind> {
    match name.as_str().strip_prefix(PREFIX)? {
        "approval" => Some(HoldKind::Approval),
        "input" => Some(HoldKind::Input),
        "handoff" => Some(HoldKind::Handoff),
        _ => None,
    }
}

/// All built-in policies as the API shows them.
#[must_use]
pub fn built_in_policies() -> Vec<PolicyView> {
    let kinds = [HoldKind::Approval, HoldKind::Handoff, HoldKind::Input];
    kinds.into_iter().filter_map(view_of).collect()
}

fn view_of(kind: HoldKind) -> Option<PolicyView> {
    let rungs = |priority: Priority| -> Vec<PolicyRung> {
        let (audience, owners) = default_times(kind, priority);
        let rung = |after| PolicyRung {
            after,
            act: RungAct::Notify,
            to: Vec::new(),
            repeat: None,
        };
        [audience, owners].into_iter().map(rung).collect()
    };
    Some(PolicyView {
        name: format!("{PREFIX}{}", kind.as_str()).parse().ok()?,
        rules: PolicyRules::Escalation(EscalationRules {
            rungs: rungs(Priority::Normal),
            stop_on: Vec::new(),
            calendar: None,
            acknowledged_for: None,
        }),
        version: 0,
        built_in: true,
        by_priority: Priority::ALL.map(|one| (one, rungs(one))).into(),
    })
}
