//! The plans of the agents whose runs the steps of a rehearsed run start.

use std::collections::BTreeMap;

use holdpoint_ids::AgentName;

use crate::domain::model::plan::Plan;

/// `None`: there is no such agent. The runs of an absent one are not rehearsed, and complete at once.
pub type ChildPlans = BTreeMap<AgentName, Option<Plan>>;
