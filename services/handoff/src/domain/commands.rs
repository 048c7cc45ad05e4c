//! One file for each command, or for a few that belong together, named after a verb. Commands call rules.

pub(super) mod act_on_request;
pub(super) mod ask_again;
pub(super) mod close_acked;
pub(super) mod create_standing_approval;
pub(super) mod decide_request;
pub(super) mod delete_policy;
pub(super) mod disable_user;
pub(super) mod erase_hold;
pub(crate) mod open_hold;
pub(super) mod put_policy;
pub(super) mod put_user;
pub(super) mod reassign_orphaned;
pub(super) mod revoke_standing_approval;
pub(super) mod set_holds;
pub(super) mod timers_fired;
pub(super) mod withdraw_hold;
