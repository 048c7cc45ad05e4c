//! The places of an agent with `concurrency`: a run takes one before its first step, and frees it when it is final.
//!
//! The queue is the table of limits itself. A unique index over key and number guarantees that no place has two runs.

use std::sync::Arc;

use holdpoint_ids::RunId;

use crate::domain::decision::{Lookup, Undecided};
use crate::domain::model::run::PlaceRow;
use crate::domain::need::{Fact, Need, Places};
use crate::domain::transition::RunTransition;

/// Takes a free place unless an older run waits for it. A run without this limit needs none.
pub(crate) fn take_run_place(transition: &mut RunTransition<'_>) -> Result<(), Undecided> {
    let Some(wanted) = transition.run.wanted_place() else {
        return Ok(());
    };
    let need = Need::Places(wanted.key.clone());
    let places = match transition.lookup(&need) {
        Lookup::NotLoaded => return Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Places(places)) => places,
        Lookup::Missing | Lookup::Found(_) => Arc::default(),
    };
    let number = places.free_for(transition.run.id, wanted.runs);
    if let Some(place) = transition.run.place_mut() {
        place.number = number;
    }
    Ok(())
}

impl Places {
    /// The lowest free place for a run, if no older run waits for it.
    fn free_for(&self, run: RunId, runs: u32) -> Option<u32> {
        let taken = u32::try_from(self.taken.len()).unwrap_or(u32::MAX);
        let free = usize::try_from(runs.saturating_sub(taken)).unwrap_or(0);
        let ahead = self.queue.iter().take_while(|one| **one != run).count();
        let is_first = ahead < free && !(self.has_more && ahead == self.queue.len());
        let mut numbers = (0..runs).filter(|number| !self.taken.contains_key(number));
        numbers.next().filter(|_| is_first)
    }

    /// With the row of a run as it is after a decision.
    pub(crate) fn with_row(&self, run: RunId, row: Option<&PlaceRow>) -> Self {
        let mut places = self.clone();
        places.taken.retain(|_, holder| *holder != run);
        let was_queued = places.queue.contains(&run);
        match row.map(|row| row.number) {
            Some(Some(number)) => {
                places.taken.insert(number, run);
            }
            // Its place in the queue stays the same.
            Some(None) if was_queued => return places,
            Some(None) if places.has_more => return places,
            Some(None) => {
                places.queue.push(run);
                return places;
            }
            None => {}
        }
        places.queue.retain(|one| *one != run);
        places
    }
}
