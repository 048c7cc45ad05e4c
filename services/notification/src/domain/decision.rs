//! The types of a decision, and how decisions look up what they need.

use holdpoint_decision as decision;

use super::effect::{Effect, Reply};
use super::model::Aggregate;
use super::need::{Fact, Need};
use super::refusal::Refusal;

/// The rules of the notification service; [`decide`](super::decide) implements them.
#[derive(Debug, PartialEq)]
pub struct NotificationDomain;

pub type Outcome = decision::Outcome<NotificationDomain>;
pub type Change = decision::Decided<NotificationDomain>;
pub type Undecided = decision::Undecided<NotificationDomain>;
pub(crate) type Decision = Result<Outcome, Undecided>;
pub type Lookup = decision::Lookup<Fact>;
pub type LookupFn<'a> = &'a dyn Fn(&Need) -> Lookup;

impl From<Refusal> for Undecided {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// A decision without facts for later decisions of its batch.
pub(crate) fn decided(state: impl Into<Aggregate>, effects: Vec<Effect>, reply: Reply) -> Outcome {
    with_fact(state, effects, reply, None)
}

/// A decision with a fact that later decisions of its batch read.
pub(crate) fn with_fact(
    state: impl Into<Aggregate>,
    effects: Vec<Effect>,
    reply: Reply,
    fact: impl IntoIterator<Item = (Need, Fact)>,
) -> Outcome {
    Outcome::Decided(Box::new(Change {
        state: state.into(),
        effects,
        facts: fact.into_iter().collect(),
        reply,
    }))
}

/// The value of a need. `None`: it does not exist.
pub(crate) fn load<T>(
    need: Need,
    lookup: LookupFn<'_>,
    read: impl Fn(Fact) -> Option<T>,
) -> Result<Option<T>, Undecided> {
    match lookup(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(fact) => Ok(read(fact)),
        Lookup::Missing => Ok(None),
    }
}

/// The values of several needs. All missing ones are requested at once, because rounds are few.
pub(crate) fn load_all<T>(
    needs: impl IntoIterator<Item = Need>,
    lookup: LookupFn<'_>,
    read: impl Fn(Fact) -> Option<T>,
) -> Result<Vec<Option<T>>, Undecided> {
    let (mut missing, mut found) = (Vec::new(), Vec::new());
    for need in needs {
        match load(need, lookup, &read) {
            Ok(value) => found.push(value),
            Err(Undecided::NeedsMore(more)) => missing.extend(more),
            Err(refused @ Undecided::Refused(_)) => return Err(refused),
        }
    }
    if missing.is_empty() {
        Ok(found)
    } else {
        Err(Undecided::NeedsMore(missing))
    }
}

/// Two values of one decision. The needs of both are requested at once, because rounds are few.
pub(crate) fn both<A, B>(
    one: Result<A, Undecided>,
    other: Result<B, Undecided>,
) -> Result<(A, B), Undecided> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Err(Undecided::NeedsMore(mut needs)), Err(Undecided::NeedsMore(more))) => {
            needs.extend(more);
            Err(Undecided::NeedsMore(needs))
        }
        (Err(stop), _) | (_, Err(stop)) => Err(stop),
    }
}
