//! Time passes, and the bus and the clocks fail.

use chrono::{DateTime, TimeDelta, Utc};

use crate::features::Feature;
use crate::world::{CLOCK_LAG_MAX, World};

impl World {
    pub(crate) fn pass_time(&mut self) {
        let length = match self.chance.below(10) {
            0..=4 => TimeDelta::milliseconds(1 + i64::try_from(self.chance.below(900)).unwrap()),
            5..=7 => TimeDelta::milliseconds(1 + i64::try_from(self.chance.below(30_000)).unwrap()),
            8 => TimeDelta::minutes(1 + i64::try_from(self.chance.below(600)).unwrap()),
            _ => TimeDelta::days(1 + i64::try_from(self.chance.below(60)).unwrap()),
        };
        self.move_to(self.now + length);
    }

    pub(crate) fn move_to(&mut self, now: DateTime<Utc>) {
        self.now = now;
        self.clock.move_to(now).unwrap();
    }

    pub(crate) fn inject_chaos(&mut self) {
        if !self.chaos {
            return;
        }
        if self.features.has(Feature::Clocks) && self.chance.one_in(5) {
            return self.set_clocks(CLOCK_LAG_MAX.unsigned_abs());
        }
        match self.chance.below(if self.config.loses { 6 } else { 4 }) {
            0..=3 => self.bus.crash(&mut self.chance),
            4 => {
                let count = self.chance.place(5);
                self.bus.lose_tail(count);
            }
            _ => self.bus.wipe(),
        }
    }

    /// Sets the clocks of processes back, each by less than so many seconds.
    pub(crate) fn set_clocks(&mut self, seconds: u64) {
        let mut lag = || TimeDelta::seconds(i64::try_from(self.chance.below(seconds)).unwrap());
        self.executor.clock_lag = lag();
        self.handoff.clock_lag = lag();
        self.scheduler.clock_lag = lag();
    }
}
