//! The policies that are built in: the default ladder of each kind.

use holdpoint_contracts::handoff::{EscalationRules, PolicyRules, PolicyRung, PolicyView};
use holdpoint_contracts::hold::{Priority, RungAct};
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::ladder::{BUILT_IN_PREFIX, default_times};
use holdpoint_ids::PolicyName;

/// Whether a name is reserved for built-in policies.
pub(crate) fn is_reserved(name: &PolicyName) -> bool {
    name.as_str().starts_with(BUILT_IN_PREFIX)
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
        name: format!("{BUILT_IN_PREFIX}{}", kind.as_str()).parse().ok()?,
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
