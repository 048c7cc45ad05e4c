//! The types of a decision, and the data that it may lack.

use std::collections::BTreeSet;

use holdpoint_decision as decision;
use holdpoint_ids::{ScheduleName, Workspace};

use super::refusal::Refusal;

/// The scheduler's rules; `decide` implements them.
#[derive(Debug)]
pub struct SchedulerDomain;

pub(super) type Outcome = decision::Outcome<SchedulerDomain>;
pub(super) type Decision = decision::Decision<SchedulerDomain>;
pub(super) type Undecided = decision::Undecided<SchedulerDomain>;
pub(super) type Lookup = decision::Lookup<Fact>;
pub(super) type LookupFn<'a> = &'a dyn Fn(&Need) -> Lookup;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Need {
    /// The names of the schedules of a workspace.
    Schedules(Workspace),
}

/// The value of the need with the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    Schedules(BTreeSet<ScheduleName>),
}

impl From<Refusal> for Undecided {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
