//! The steps that a worker may have at the same time.
//!
//! The backlog of its queues never gets all of them. A call of a workspace with few calls therefore finds a free slot,
//! however long the calls of another workspace take (finding B-6).

use std::sync::Arc;

use holdpoint_contracts::subject::Lane;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One of so many slots is kept free of the backlog. A worker with fewer keeps none.
const KEPT_PART: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct Slots {
    all: Arc<Semaphore>,
    backlog: Arc<Semaphore>,
}

/// Slots that are taken, until this is dropped.
#[derive(Debug)]
pub(super) struct TakenSlots {
    all: OwnedSemaphorePermit,
    backlog: Option<OwnedSemaphorePermit>,
}

impl Slots {
    pub(super) fn new(number: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(number)),
            backlog: Arc::new(Semaphore::new(number - number / KEPT_PART)),
        }
    }

    /// Waits for one slot.
    pub(super) async fn take_one(&self, lane: Lane) -> Option<TakenSlots> {
        let backlog = match lane {
            Lane::Normal => None,
            Lane::Backlog => Some(Arc::clone(&self.backlog).acquire_owned().await.ok()?),
        };
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(TakenSlots { all, backlog })
    }

    /// Adds free slots, until `taken` has `most`.
    pub(super) fn add_free(&self, taken: &mut TakenSlots, most: usize) {
        let mut wanted = most.saturating_sub(taken.number());
        wanted = wanted.min(self.all.available_permits());
        if taken.backlog.is_some() {
            wanted = wanted.min(self.backlog.available_permits());
        }
        let wanted = u32::try_from(wanted).unwrap_or(0);
        let backlog = match &taken.backlog {
            None => None,
            Some(_) => match Arc::clone(&self.backlog).try_acquire_many_owned(wanted) {
                Ok(backlog) => Some(backlog),
                Err(_taken_meanwhile) => return,
            },
        };
        let Ok(all) = Arc::clone(&self.all).try_acquire_many_owned(wanted) else {
            return;
        };
        taken.all.merge(all);
        if let (Some(of_backlog), Some(more)) = (&mut taken.backlog, backlog) {
            of_backlog.merge(more);
        }
    }
}

impl TakenSlots {
    pub(super) fn number(&self) -> usize {
        self.all.num_permits()
    }

    /// Takes one of them out.
    pub(super) fn split_one(&mut self) -> Option<Self> {
        let all = self.all.split(1)?;
        let backlog = match &mut self.backlog {
            None => None,
            Some(backlog) => Some(backlog.split(1)?),
        };
        Some(Self { all, backlog })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn take(slots: &Slots, lane: Lane) -> Option<TakenSlots> {
        slots.take_one(lane).now_or_never().flatten()
    }

    /// B-6
    #[test]
    fn the_backlog_leaves_slots_free() {
        let slots = Slots::new(16);
        let mut backlog = take(&slots, Lane::Backlog).unwrap();
        slots.add_free(&mut backlog, 100);
        assert_eq!(backlog.number(), 14);
        assert!(take(&slots, Lane::Backlog).is_none());
        let normal = [take(&slots, Lane::Normal), take(&slots, Lane::Normal)];
        assert!(normal.iter().all(Option::is_some));
        assert!(take(&slots, Lane::Normal).is_none());
        drop(backlog.split_one().unwrap());
        assert!(take(&slots, Lane::Backlog).is_some());
    }

    #[test]
    fn the_normal_lane_may_have_all_slots() {
        let slots = Slots::new(16);
        let mut taken = take(&slots, Lane::Normal).unwrap();
        slots.add_free(&mut taken, 12);
        assert_eq!(taken.number(), 12);
        slots.add_free(&mut taken, 100);
        assert_eq!(taken.number(), 16);
        drop(taken);
        let one = Slots::new(1);
        assert!(take(&one, Lane::Backlog).is_some());
    }
}
