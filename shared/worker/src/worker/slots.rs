//! The steps that a worker may have at the same time.
//!
//! The overflow of its queues never gets all of them. A call of a workspace with few calls therefore finds a free slot,
//! however long the calls of another workspace take (finding B-6).

use std::sync::Arc;

use holdpoint_contracts::subject::Lane;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One of so many slots is kept free of the overflow. A worker with fewer keeps none.
const KEPT_PART: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct Slots {
    all: Arc<Semaphore>,
    overflow: Arc<Semaphore>,
}

/// Slots that are taken, until this is dropped.
#[derive(Debug)]
pub(super) struct TakenSlots {
    all: OwnedSemaphorePermit,
    overflow: Option<OwnedSemaphorePermit>,
}

impl Slots {
    pub(super) fn new(number: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(number)),
            overflow: Arc::new(Semaphore::new(number - number / KEPT_PART)),
        }
    }

    /// Waits for one slot.
    pub(super) async fn take_one(&self, lane: Lane) -> Option<TakenSlots> {
        let overflow = match lane {
            Lane::Normal => None,
            Lane::Overflow => Some(Arc::clone(&self.overflow).acquire_owned().await.ok()?),
        };
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(TakenSlots { all, overflow })
    }

    /// Adds free slots, until `taken` has `most`.
    pub(super) fn add_free(&self, taken: &mut TakenSlots, most: usize) {
        let mut wanted = most.saturating_sub(taken.number());
        wanted = wanted.min(self.all.available_permits());
        if taken.overflow.is_some() {
            wanted = wanted.min(self.overflow.available_permits());
        }
        let wanted = u32::try_from(wanted).unwrap_or(0);
        let overflow = match &taken.overflow {
            None => None,
            Some(_) => match Arc::clone(&self.overflow).try_acquire_many_owned(wanted) {
                Ok(overflow) => Some(overflow),
                Err(_none_is_free) => return,
            },
        };
        let Ok(all) = Arc::clone(&self.all).try_acquire_many_owned(wanted) else {
            return;
        };
        taken.all.merge(all);
        if let (Some(of_overflow), Some(more)) = (&mut taken.overflow, overflow) {
            of_overflow.merge(more);
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
        let overflow = match &mut self.overflow {
            None => None,
            Some(overflow) => Some(overflow.split(1)?),
        };
        Some(Self { all, overflow })
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
    fn the_overflow_leaves_slots_free() {
        let slots = Slots::new(16);
        let mut overflow = take(&slots, Lane::Overflow).unwrap();
        slots.add_free(&mut overflow, 100);
        assert_eq!(overflow.number(), 14);
        assert!(take(&slots, Lane::Overflow).is_none());
        let normal = [take(&slots, Lane::Normal), take(&slots, Lane::Normal)];
        assert!(normal.iter().all(Option::is_some));
        assert!(take(&slots, Lane::Normal).is_none());
        drop(overflow.split_one().unwrap());
        assert!(take(&slots, Lane::Overflow).is_some());
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
        assert!(take(&one, Lane::Overflow).is_some());
    }
}
