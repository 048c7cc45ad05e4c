//! What the limits of its agent mean for one run.

use chrono::{DateTime, Utc};
use holdpoint_contracts::run::Spent;
use holdpoint_ids::{HoldId, RunId};
use serde::{Deserialize, Serialize};

use crate::domain::model::is_default;
use crate::domain::model::plan::limits::{Budget, Limits};
use crate::domain::model::run::{PersonHold, Run};
use crate::domain::model::time::millis_between;

/// The limits that a run has: those of the version of its agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunLimits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Box<RunBudget>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<StartTurn>,
    /// Digest of the contact or key for which its agent starts once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once: Option<String>,
}

/// A budget, and what is used of it since the start or since a person granted it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunBudget {
    pub allowed: Budget,
    pub steps: u32,
    pub cost: f64,
    pub since: DateTime<Utc>,
    /// The active time of the run at that instant, in milliseconds.
    pub active_ms: u64,
    /// Calls before a person granted it again. They count in the budget of a parent run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub earlier_steps: u32,
    /// Costs before that.
    #[serde(default, skip_serializing_if = "is_default")]
    pub earlier_cost: f64,
    /// The open question whether the run continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Box<PersonHold>>,
}

/// One of the places of an agent, or of one key of it. A run holds a place from its first step until it is final.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Digest of the agent and the key.
    pub key: String,
    /// How many places there are.
    pub runs: u32,
    /// Since when it wants one. The queue is in this order.
    pub since: DateTime<Utc>,
    /// Its place; none: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
}

/// The turn of a run among the starts of an agent with `rate`. It is reserved when the run is accepted, so that no later
/// run passes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartTurn {
    /// Digest of the agent and the key.
    pub key: String,
    /// From 1.
    pub number: u64,
    pub due: DateTime<Utc>,
    /// The timer until its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<StartTimer>,
    /// Whether the run ended before its turn. It does not count then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartTimer {
    pub hold: HoldId,
    /// Version of the run that set it.
    pub rev: u64,
}

/// The row of a run's limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitRow {
    pub run: RunId,
    pub once: Option<String>,
    pub place: Option<PlaceRow>,
    /// Key, number and due time of its start, unless it has given its turn up.
    pub start: Option<(String, u64, DateTime<Utc>)>,
}

/// A place that a run holds, or wants now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceRow {
    pub key: String,
    pub since: DateTime<Utc>,
    pub number: Option<u32>,
}

impl RunBudget {
    #[must_use]
    pub const fn new(allowed: Budget, since: DateTime<Utc>, active_ms: u64) -> Self {
        Self {
            allowed,
            steps: 0,
            cost: 0.0,
            since,
            active_ms,
            earlier_steps: 0,
            earlier_cost: 0.0,
            hold: None,
        }
    }

    /// All calls and costs of the run.
    #[must_use]
    pub fn used(&self) -> (u32, f64) {
        let steps = self.earlier_steps.saturating_add(self.steps);
        (steps, self.earlier_cost + self.cost)
    }
}

impl Run {
    #[must_use]
    pub fn budget(&self) -> Option<&RunBudget> {
        self.limits.as_deref()?.budget.as_deref()
    }

    pub fn budget_mut(&mut self) -> Option<&mut RunBudget> {
        self.limits.as_deref_mut()?.budget.as_deref_mut()
    }

    /// The open question about its budget.
    #[must_use]
    pub fn budget_hold(&self) -> Option<&PersonHold> {
        self.budget()?.hold.as_deref()
    }

    /// What it has used of its budget.
    #[must_use]
    pub fn spent(&self, now: DateTime<Utc>) -> Option<Spent> {
        let budget = self.budget()?;
        let until = self.ended_at().unwrap_or(now);
        Some(Spent {
            steps: budget.steps,
            wall_time_ms: millis_between(budget.since, until),
            active_time_ms: self.clocks.active_ms.saturating_sub(budget.active_ms),
            cost: budget.cost,
        })
    }

    /// How many runs may hold a place; none: its agent does not limit that.
    #[must_use]
    pub fn places(&self) -> Option<u32> {
        Some(self.place()?.runs)
    }

    /// Takes the budget and the number of places of a newer version of its agent. It keeps its key and its turn, and what
    /// it has used. A budget that is new counts from now.
    pub fn renew_limits(&mut self, before: &Limits, after: &Limits, now: DateTime<Utc>) {
        if after.budget.is_some() && self.limits.is_none() {
            self.limits = Some(Box::default());
        }
        let active_ms = self.clocks.active_ms;
        let is_child = self.parent.is_some();
        let Some(limits) = self.limits.as_deref_mut() else {
            return;
        };
        match (&mut limits.budget, &after.budget) {
            // Its budget is bounded by that of its parent.
            (Some(_), _) if is_child => {}
            (Some(budget), Some(allowed)) => budget.allowed.clone_from(allowed),
            (None, Some(allowed)) => {
                let budget = RunBudget::new(allowed.clone(), now, active_ms);
                limits.budget = Some(Box::new(budget));
            }
            // An open question is decided first.
            (budget, None) => drop(budget.take_if(|it| it.hold.is_none())),
        }
        let counts = before.concurrency.as_ref().zip(after.concurrency.as_ref());
        if let (Some(place), Some((old, new))) = (&mut limits.place, counts)
            && old.key == new.key
        {
            place.runs = new.runs;
        }
    }

    fn place(&self) -> Option<&Place> {
        self.limits.as_deref()?.place.as_ref()
    }

    pub fn place_mut(&mut self) -> Option<&mut Place> {
        self.limits.as_deref_mut()?.place.as_mut()
    }

    /// Whether it still needs a place before a step may start.
    #[must_use]
    pub fn lacks_place(&self) -> bool {
        self.place().is_some_and(|place| place.number.is_none())
    }

    /// Its start, while the rate of its agent delays that.
    #[must_use]
    pub fn delayed_start(&self) -> Option<(StartTimer, DateTime<Utc>)> {
        let turn = self.limits.as_deref()?.rate.as_ref()?;
        Some((turn.timer?, turn.due))
    }

    /// Takes the timer of its delayed start.
    pub fn take_start_timer(&mut self) -> Option<StartTimer> {
        self.limits.as_deref_mut()?.rate.as_mut()?.timer.take()
    }

    /// It ends before its turn, and later starts do not wait for the turn.
    pub fn give_up_turn(&mut self) {
        let limits = self.limits.as_deref_mut();
        if let Some(turn) = limits.and_then(|limits| limits.rate.as_mut()) {
            turn.given_up = true;
        }
    }

    /// Whether its first step waits for a place or for its turn.
    #[must_use]
    pub fn is_queued_by_limits(&self) -> bool {
        self.lacks_place() || self.delayed_start().is_some()
    }

    /// The place that it waits for now; none: it has one, needs none, or something else stops it.
    #[must_use]
    pub fn wanted_place(&self) -> Option<&Place> {
        let place = self.place().filter(|place| place.number.is_none())?;
        self.moves_with_place().then_some(place)
    }

    /// What its row says; none: its agent has no such limits.
    #[must_use]
    pub fn limit_row(&self) -> Option<LimitRow> {
        let limits = self.limits.as_deref()?;
        if limits.place.is_none() && limits.once.is_none() && limits.rate.is_none() {
            return None;
        }
        let held = self.place().filter(|place| place.number.is_some());
        let place = held.or_else(|| self.wanted_place());
        let turn = limits.rate.as_ref().filter(|turn| !turn.given_up);
        Some(LimitRow {
            run: self.id,
            once: limits.once.clone(),
            start: turn.map(|turn| (turn.key.clone(), turn.number, turn.due)),
            place: place.map(|place| PlaceRow {
                key: place.key.clone(),
                since: place.since,
                number: place.number,
            }),
        })
    }
}
