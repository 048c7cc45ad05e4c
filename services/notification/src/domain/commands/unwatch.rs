//! `unwatch`: a person stops watching something.

use holdpoint_contracts::notification::Watched;

use crate::domain::decision::{Decision, decided};
use crate::domain::model::{Aggregate, Watch};
use crate::domain::refusal::Refusal;
use crate::domain::reply::Reply;

pub(crate) fn unwatch(known: Option<&Watch>, of: &Watched) -> Decision {
    let watched = known.and_then(|one| Some((one, one.view()?)));
    let (known, view) = watched.ok_or_else(|| Refusal::NoWatch(of.clone()))?;
    let next = Aggregate::Watch(Box::new(known.changed(None)));
    Ok(decided(next, Vec::new(), Reply::Watch(Box::new(view))))
}
