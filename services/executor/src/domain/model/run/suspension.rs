//! A suspension: a person has to look at the run (S1-R1). It is an overlay beside the run's pause, which freezes the
//! holds.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::domain::model::run::{Run, Step};
use crate::domain::model::time::after;

/// How long a worker may add its part to a snapshot, in milliseconds.
pub const SUPPLEMENT_MS: u64 = 2 * 60 * 1_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suspension {
    pub at: DateTime<Utc>,
    pub reason: String,
    /// An operator, or the node that has shut down.
    pub by: String,
    /// The steps that workers had at that time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_flight: Vec<InFlightStep>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlightStep {
    pub step: String,
    /// Only reports of this dispatch count.
    pub dispatch: u64,
    /// Whether its worker has added its part.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_reported: bool,
}

impl InFlightStep {
    #[must_use]
    pub fn is_current(&self, step: &Step) -> bool {
        step.id == self.step && step.dispatch == self.dispatch
    }
}

impl Suspension {
    /// Until when workers may add their parts.
    #[must_use]
    pub fn supplement_until(&self) -> DateTime<Utc> {
        after(self.at, SUPPLEMENT_MS)
    }

    /// Whether the worker of a dispatch has not added its part.
    #[must_use]
    pub fn awaits(&self, step: &Step) -> bool {
        let mut in_flight = self.in_flight.iter();
        in_flight.any(|one| one.is_current(step) && !one.is_reported)
    }

    /// Whether nothing more can come: each step has ended, or its worker has added its part.
    #[must_use]
    pub fn is_complete(&self, run: &Run) -> bool {
        let is_open = |step: &Step| step.phase.at_worker().is_some() && self.awaits(step);
        !run.steps.iter().any(is_open)
    }
}
