//! Schedules: a person creates, changes and deletes them, and they start runs.

use std::collections::BTreeSet;

use holdpoint_contracts::scheduler::{
    DeleteSchedule, Overlap, PutSchedule, ScheduleSpec, WhenPaused,
};
use holdpoint_executor::domain::Aggregate;
use holdpoint_ids::{RunId, ScheduleName};
use holdpoint_scheduler::domain::Effect;
use serde_json::json;

use crate::world::World;

/// Schedules of a history.
const SCHEDULES: u64 = 2;

/// Fires of a history, after which schedules are only deleted: each run costs turns until it ends.
const FIRES_MAX: usize = 3;

/// The runs that schedules have wanted so far.
#[derive(Default)]
pub(crate) struct ScheduledRuns(BTreeSet<RunId>);

impl ScheduledRuns {
    /// Checks commits of the scheduler: no two fires want the same run.
    pub(crate) fn follow(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Effect::Start { start, .. } = effect {
                assert!(self.0.insert(start.run), "a second fire wants {start:?}");
            }
        }
    }
}

fn name(number: u64) -> ScheduleName {
    format!("schedule-{number}").parse().unwrap()
}

impl World {
    pub(crate) fn act_on_schedules(&mut self) {
        let name = name(self.chance.below(SCHEDULES));
        if self.chance.one_in(4) || self.scheduled_runs.0.len() >= FIRES_MAX {
            return self.signed(0, DeleteSchedule { name });
        }
        let cron = ["0 9 * * *", "@hourly", "0 0 1 * *"][self.chance.place(3)];
        let is_queued = self.chance.one_in(2);
        let is_exclusive = self.chance.one_in(2);
        let schedule = ScheduleSpec {
            name,
            agent: format!("agent-{}", self.chance.below(2)).parse().unwrap(),
            cron: cron.to_owned(),
            time_zone: "Europe/Berlin".to_owned(),
            input: json!({}),
            when_paused: match is_queued {
                true => WhenPaused::Queue,
                false => WhenPaused::Skip,
            },
            overlap: match is_exclusive {
                true => Overlap::Skip,
                false => Overlap::Start,
            },
        };
        self.signed(0, PutSchedule { schedule });
    }

    /// Deletes all schedules, which would fire for ever.
    pub(crate) fn delete_schedules(&mut self) {
        let names: Vec<_> = self
            .scheduler
            .states
            .values()
            .filter_map(|timer| Some(timer.schedule.as_ref()?.spec.name.clone()))
            .collect();
        for name in names {
            self.signed(0, DeleteSchedule { name });
        }
    }

    /// The runs that schedules have started, each of which a fire has wanted.
    pub(crate) fn scheduled_runs(&self) -> Vec<RunId> {
        let states = self.executor.states.values();
        let runs = states.filter_map(Aggregate::try_as_run_ref);
        // A child run has the starter of its parent.
        let scheduled = runs.filter(|run| run.parent.is_none());
        let scheduled = scheduled.filter(|run| run.started_by.0.starts_with("schedule:"));
        let scheduled: Vec<_> = scheduled.map(|run| run.id).collect();
        let is_wanted = |run: &RunId| self.scheduled_runs.0.contains(run);
        assert!(scheduled.iter().all(is_wanted), "a run that no fire wanted");
        scheduled
    }
}
