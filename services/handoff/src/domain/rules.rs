//! One file for each rule that several commands share. Rules read the model and change transitions.

pub(super) mod approved_items;
pub(super) mod audience;
pub(super) mod authorization;
pub(super) mod built_in_policies;
pub(super) mod derived_effects;
pub(super) mod erased_request;
pub(super) mod escalation;
pub(super) mod initial_assignment;
pub(crate) mod mentions;
pub(super) mod merge_desired_state;
pub(super) mod policy_change;
pub(super) mod quorum;
pub(super) mod resolved_policies;
pub(super) mod standing_approvals;
pub(super) mod user_change;
