//! What can happen in a history, beside what happens in all of them.
//!
//! Each history leaves out some of it, and many leave out all of it: where everything can happen, what a
//! broken rule needs happens too seldom (swarm testing, Groce and others 2012).

use crate::chance::Chance;

/// Something that can happen.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Feature {
    /// One commit takes several messages.
    Batches,
    /// Commits lose races against another player of their service.
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
    /// Who pauses a run restarts its waits in the next moment; in histories without all others, too.
    Restarting,
}

const COUNT: usize = Feature::Restarting as usize + 1;

/// What can happen in one history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Features([bool; COUNT]);

impl Features {
    /// Drawn by seed, beside the chance of the history itself.
    pub(crate) fn of(seed: u64) -> Self {
        let mut chance = Chance::of(!seed);
        let is_plain = chance.one_in(2);
        let mut drawn = [(); COUNT].map(|()| !is_plain && chance.one_in(2));
        drawn[Feature::Restarting as usize] = chance.one_in(2);
        Self(drawn)
    }

    pub(crate) fn has(self, feature: Feature) -> bool {
        self.0[feature as usize]
    }
}
