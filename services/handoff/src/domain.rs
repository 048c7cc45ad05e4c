//! The pure core: requests (holds on people and standalone holds), users and policies.
//!
//! It knows no clock, database or bus, and names missing data as a [`Need`]. Imports point only
//! downward: `decide`, `commands`, `rules`, the files beside this one, `model`.

mod commands;
mod decide;
mod decision;
mod effect;
mod input;
mod lookup;
mod model;
mod refusal;
mod rules;
mod transition;

#[cfg(test)]
mod tests;

pub use decision::{Change, Fact, HandoffDomain, Lookup, LookupFn, Need, Outcome, Undecided};
pub use effect::{Effect, Reply};
pub use holdpoint_holds::Recipient;
pub use input::{
    Caller, Input, PolicyInput, Proof, RequestInput, StandingApprovalInput, UserInput,
};
pub use model::aggregate::{Aggregate, Key};
pub use model::policy::Policy;
pub use model::progress::{
    AuditStamp, Ladder, PendingHandoffEvents, RequestProgress, RungEnd, Vote,
};
pub use model::request::{End, Owner, Phase, Request, Timer};
pub use model::standing_approval::{CallKind, CountedStandingApproval, StandingApproval};
pub use model::user::User;
pub use refusal::Refusal;
pub use rules::built_in_policies::built_in_policies;
pub use rules::merge_desired_state::{MergeAction, OwnerState, merge_desired_state};
