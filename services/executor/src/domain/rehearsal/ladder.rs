//! The rungs of a request in a rehearsal: when they fire.

use std::collections::VecDeque;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_calendar::WorkingHours;
use holdpoint_contracts::hold::{Rung, RungAct};
use holdpoint_holds::ladder::complete_ladder;

use crate::domain::model::time::after;

/// The rungs that have not fired.
#[derive(Debug)]
pub(super) struct Ladder {
    rungs: VecDeque<Rung>,
    /// Rungs of a policy that have not fired: one of them fires when a deadline passes.
    written: usize,
    /// Their times count from here.
    since: DateTime<Utc>,
    frozen_at: Option<DateTime<Utc>>,
    /// Working time in which rungs count and fire; none: all time.
    hours: Option<WorkingHours>,
}

impl Ladder {
    pub(super) fn built_in(rungs: [Rung; 2], since: DateTime<Utc>) -> Self {
        Self {
            rungs: rungs.into(),
            written: 0,
            since,
            frozen_at: None,
            hours: None,
        }
    }

    pub(super) fn written(
        rungs: Vec<Rung>,
        hours: Option<WorkingHours>,
        since: DateTime<Utc>,
    ) -> Self {
        Self {
            written: rungs.len(),
            rungs: complete_ladder(rungs).into(),
            since,
            frozen_at: None,
            hours,
        }
    }

    /// When the next rung fires. None: no rung is left, or a pause stops them.
    pub(super) fn due(&self) -> Option<DateTime<Utc>> {
        if self.frozen_at.is_some() {
            return None;
        }
        let after_ms = self.rungs.front()?.after_ms;
        let hours = self.hours.as_ref();
        let worked = hours.and_then(|hours| hours.after(self.since, after_ms));
        Some(worked.unwrap_or_else(|| after(self.since, after_ms)))
    }

    pub(super) fn pop(&mut self) -> Option<Rung> {
        self.written = self.written.saturating_sub(1);
        self.rungs.pop_front()
    }

    /// The rung that fires when the deadline passes and the request stays open.
    pub(super) fn pop_at_deadline(&mut self) -> Option<Rung> {
        let next = self.rungs.front().filter(|_| self.written > 0)?;
        let ends = matches!(next.act, RungAct::AnswerDefault | RungAct::Fail);
        if ends { None } else { self.pop() }
    }

    pub(super) fn freeze(&mut self, now: DateTime<Utc>) {
        self.frozen_at.get_or_insert(now);
    }

    /// A pause moves the rungs.
    pub(super) fn resume(&mut self, now: DateTime<Utc>) {
        if let Some(from) = self.frozen_at.take() {
            self.since += (now - from).max(TimeDelta::zero());
        }
    }
}
