//! Events that happen in some histories only.
//!
//! Each history omits some features, and half of them omit all but the last ones. With all features at once, the
//! events that expose a broken rule are too rare (swarm testing, Groce and others 2012).

use crate::chance::Chance;

/// One kind of event.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Feature {
    /// One commit takes several messages.
    Batches,
    /// Commits lose races against another replica of their service.
    Races,
    /// The handoff service refuses some holds.
    Refusals,
    /// Agents and workspaces are paused.
    Scopes,
    /// Tools ask people, and park.
    Asking,
    /// Tools fail.
    Failing,
    /// Clocks of processes are set back.
    Clocks,
    /// The person who pauses a run resumes it at once with mode `restart`. Histories without the others have it, too.
    Restarting,
    /// Webhooks want events, and their receivers fail and recover.
    Webhooks,
    /// Steps wait for signals, and programs send them.
    Signals,
    /// Runs are suspended by people and by workers that leave, and resumed.
    Suspending,
    /// Schedules start runs.
    Schedules,
    /// Tools are called for each of several items.
    FanningOut,
    /// One action is done with many runs.
    Operations,
    /// Agents limit their runs, their starts and their calls.
    Limits,
    /// Steps start runs of another agent.
    ChildRuns,
    /// Calls of tools need an approval.
    Gates,
    /// People edit and revise these calls, approve them in advance, and lose the right to approve them.
    Reviews,
}

const COUNT: usize = Feature::Reviews as usize + 1;

/// The features of one history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Features([bool; COUNT]);

impl Features {
    /// Draws them by seed. They take no draw from the chance of the history itself.
    pub(crate) fn of(seed: u64) -> Self {
        let mut chance = Chance::of(!seed);
        let is_plain = chance.one_in(2);
        let mut drawn = [false; COUNT];
        for is_drawn in &mut drawn[..=Feature::Restarting as usize] {
            *is_drawn = !is_plain && chance.one_in(2);
        }
        // Drawn last, so that other features of a seed stay as they are.
        for last in [
            Feature::Restarting,
            Feature::Webhooks,
            Feature::Signals,
            Feature::Suspending,
            Feature::Schedules,
            Feature::FanningOut,
            Feature::Operations,
            Feature::Limits,
            Feature::ChildRuns,
            Feature::Gates,
            Feature::Reviews,
        ] {
            drawn[last as usize] = chance.one_in(2);
        }
        Self(drawn)
    }

    pub(crate) fn has(self, feature: Feature) -> bool {
        self.0[feature as usize]
    }

    /// Whether gated calls are played in all ways.
    pub(crate) fn has_reviews(self) -> bool {
        self.has(Feature::Gates) && self.has(Feature::Reviews)
    }
}
