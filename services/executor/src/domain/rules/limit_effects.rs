//! The row of a run's limits, which follows from the states before and after a decision.

use std::sync::Arc;

use crate::domain::decision::Lookup;
use crate::domain::effect::Effect;
use crate::domain::need::{Fact, Need, STARTS_SEEN_MAX};
use crate::domain::transition::RunTransition;

/// What to store and whom to wake, and what later decisions of the batch must know.
pub(crate) fn limit_effects(transition: &RunTransition<'_>) -> (Vec<Effect>, Vec<(Need, Fact)>) {
    let (mut effects, mut facts) = (Vec::new(), Vec::new());
    let Some(after) = transition.run.limit_row() else {
        return (effects, facts);
    };
    let before = transition.before.limit_row();
    if before.as_ref() == Some(&after) {
        return (effects, facts);
    }
    if let Some(once) = after.once.clone().filter(|_| before.is_none()) {
        let run = Arc::new(transition.run.clone());
        facts.push((Need::StartedOnce(once), Fact::StartedRun(run)));
    }
    if let Some((key, number, due)) = after.start.clone().filter(|_| before.is_none()) {
        let need = Need::Starts(key);
        let known = match transition.lookup(&need) {
            Lookup::Found(Fact::Starts(starts)) => starts,
            Lookup::NotLoaded | Lookup::Missing | Lookup::Found(_) => Arc::default(),
        };
        let mut starts = vec![(number, due)];
        starts.extend(known.iter().copied().take(STARTS_SEEN_MAX - 1));
        facts.push((need, Fact::Starts(Arc::new(starts))));
    }
    let was = before.and_then(|row| row.place);
    let changed = was.as_ref().or(after.place.as_ref());
    if let Some(key) = changed.map(|place| place.key.clone()) {
        let need = Need::Places(key.clone());
        let known = match transition.lookup(&need) {
            Lookup::Found(Fact::Places(places)) => Some(places),
            Lookup::Missing => Some(Arc::default()),
            // Nothing of this batch has looked at them, and a later look finds the row of before.
            Lookup::NotLoaded | Lookup::Found(_) => None,
        };
        if let Some(places) = known {
            let places = places.with_row(transition.run.id, after.place.as_ref());
            facts.push((need, Fact::Places(Arc::new(places))));
        }
        if was.is_some() {
            effects.push(Effect::PlacesChanged { key });
        }
    }
    effects.push(Effect::Limits {
        workspace: transition.run.workspace.clone(),
        row: Box::new(after),
    });
    (effects, facts)
}
