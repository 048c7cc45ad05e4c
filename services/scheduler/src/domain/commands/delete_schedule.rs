//! `scheduler.delete_schedule`: an operator deletes a schedule. Its runs continue.

use holdpoint_ids::ScheduleName;

use crate::domain::decision::Decision;
use crate::domain::effect::Reply;
use crate::domain::model::{Key, Phase, Timer};
use crate::domain::refusal::Refusal;
use crate::domain::transition::decided;

/// Clears the timer. It stays as a tombstone, so that a timer in the wheel does nothing.
pub(crate) fn delete_schedule(state: Option<&Timer>, key: &Key, name: &ScheduleName) -> Decision {
    let Some(timer) = state.filter(|timer| timer.schedule.is_some()) else {
        return Err(Refusal::NoSchedule(name.clone()).into());
    };
    let cleared = Timer {
        key: key.clone(),
        version: timer.version + 1,
        rev: timer.rev,
        phase: Phase::Cleared,
        schedule: None,
    };
    Ok(decided(cleared, Vec::new(), Reply::Nothing(())))
}
