//! `watch`: a person begins to watch a request, a run or an agent.

use holdpoint_contracts::notification::{WatchAdded, Watched};

use crate::domain::decision::{Decision, LookupFn, Outcome, load, with_fact};
use crate::domain::effect::{Effect, Reply};
use crate::domain::model::{EndsFor, WATCHES_MAX, Watch};
use crate::domain::need::{Fact, Need};
use crate::domain::refusal::Refusal;

/// Watches from now on. A repetition changes nothing.
pub(crate) fn watch(known: Option<&Watch>, mut new: Watch, lookup: LookupFn<'_>) -> Decision {
    let reply = |watch, new| Reply::WatchAdded(Box::new(WatchAdded { watch, new }));
    if let Some(watch) = known.and_then(Watch::view) {
        return Ok(Outcome::Unchanged(reply(watch, false)));
    }
    let need = Need::WatchCount(new.workspace.clone(), new.person.clone());
    let count = load(need.clone(), lookup, Fact::try_as_count)?.unwrap_or(0);
    if count >= WATCHES_MAX {
        return Err(Refusal::TooManyWatches.into());
    }
    new.version += known.map_or(0, |one| one.version);
    let reply = new.view().map_or(Reply::Done, |watch| reply(watch, true));
    let effects = ask_for_ends(&new).into_iter().collect();
    let fact = [(need, Fact::Count(count + 1))];
    Ok(with_fact(new, effects, reply, fact))
}

/// Asks the executor to report the end of what is watched.
fn ask_for_ends(watch: &Watch) -> Option<Effect> {
    match watch.of {
        Watched::Request(_) => None,
        Watched::Run(_) | Watched::Agent(_) => Some(Effect::WatchRunEnds {
            workspace: watch.workspace.clone(),
            by: EndsFor::Person(watch.person.clone()),
            of: watch.of.clone().into(),
            rev: watch.version,
        }),
    }
}
