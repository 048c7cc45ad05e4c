//! Wishes that no receiver has accepted: it could not read them, or refused them. Their rows stay, and
//! they are sent again rarely: a receiver of a newer version may take them.

use std::collections::{BTreeSet, HashMap};

use holdpoint_contracts::problem::Problem;

use super::{Sent, WishKey};
use crate::activity::Activity;

/// Most wishes that are known as not accepted; more are sent again as often as any other.
const UNACCEPTED_MAX: usize = 10_000;

/// Which wishes were not accepted, each with the `rev` that was sent.
#[derive(Debug, Default)]
pub(super) struct Unaccepted {
    wishes: HashMap<WishKey, i64>,
    /// Kinds of which the log has said so, until all wishes are accepted.
    told: BTreeSet<String>,
}

impl Unaccepted {
    /// Notes that a wish was not accepted; the log says so once a kind.
    pub(super) fn add(&mut self, service: &str, sent: Sent, problem: &Problem) {
        let WishKey {
            kind,
            workspace,
            id,
        } = &sent.key;
        if self.told.insert(kind.to_string()) {
            tracing::warn!(service, %kind, workspace, id, rev = sent.rev, %problem, "a desired state was not accepted; it is kept and sent again after ten minutes at most");
        }
        if self.wishes.len() < UNACCEPTED_MAX || self.wishes.contains_key(&sent.key) {
            self.wishes.insert(sent.key, sent.rev);
        }
    }

    pub(super) fn remove(&mut self, key: &WishKey) {
        self.wishes.remove(key);
    }

    pub(super) fn contains(&self, sent: &Sent) -> bool {
        self.wishes.get(&sent.key) == Some(&sent.rev)
    }

    /// Forgets those whose rows are gone.
    pub(super) fn retain(&mut self, is_there: impl Fn(&WishKey) -> bool) {
        self.wishes.retain(|key, _| is_there(key));
    }

    /// Tells how many there are.
    pub(super) fn report(&mut self, service: &str, activity: &Activity) {
        if self.wishes.is_empty() && !self.told.is_empty() {
            self.told.clear();
            tracing::info!(service, "all desired states are accepted");
        }
        activity.set_not_accepted(self.wishes.len());
    }
}
