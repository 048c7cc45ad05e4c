//! `unwatch`: a person stops watching a request, a run or an agent.

use holdpoint_contracts::notification::Watched;

use crate::domain::decision::{Decision, decided};
use crate::domain::effect::Reply;
use crate::domain::model::Watch;
use crate::domain::refusal::Refusal;

pub(crate) fn unwatch(known: Option<&Watch>, of: &Watched) -> Decision {
    let watched = known.and_then(|one| Some((one, one.view()?)));
    let (known, view) = watched.ok_or_else(|| Refusal::NoWatch(of.clone()))?;
    let reply = Reply::Watch(Box::new(view));
    Ok(decided(known.changed(None), Vec::new(), reply))
}
