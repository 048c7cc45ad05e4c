//! Which events the fan-out sweep continues next.

use holdpoint_store::StoreError;
use sea_orm::ConnectionTrait;

use super::event_row::fanning;
use crate::domain::EventKey;

/// Selects events whose fan-out is pending. Half of them are the oldest, so that a fan-out of many pages ends
/// however many events follow. The other half rotates, so that events that cannot be decided block no other.
///
/// Run ends and other events have a queue each: a thousand runs that end at once must not delay an approval.
#[derive(Debug)]
pub(crate) struct FairQueue {
    are_run_ends: bool,
    /// How many events are older than the next one of the rotating half.
    skipped: u64,
}

impl FairQueue {
    pub(crate) const fn new(are_run_ends: bool) -> Self {
        Self {
            are_run_ends,
            skipped: 0,
        }
    }

    /// The next events. Empty: no fan-out is pending.
    pub(crate) async fn next(
        &mut self,
        db: &impl ConnectionTrait,
        limit: u64,
    ) -> Result<Vec<EventKey>, StoreError> {
        let half = limit.div_ceil(2);
        let mut all = fanning(db, self.are_run_ends, 0, half).await?;
        let mut others = Vec::new();
        for skipped in [Ord::max(self.skipped, half), half] {
            if others.is_empty() && all.len() as u64 == half {
                others = fanning(db, self.are_run_ends, skipped, limit - half).await?;
                self.skipped = skipped + others.len() as u64;
            }
        }
        all.append(&mut others);
        Ok(all)
    }
}
