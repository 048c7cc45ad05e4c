//! Wishes that no receiver has accepted: it could not read them, or refused them. Their rows stay, and
//! they are sent again rarely: a receiver of a newer version may take them.

use std::collections::{BTreeSet, HashMap};

use holdpoint_contracts::problem::Problem;

use super::{Sent, WishKey};
use crate::activity::Activity;

/// Most wishes that are known as set aside; more are sent again as often as any other.
const ASIDE_MAX: usize = 10_000;

/// Which wishes are set aside, each with the `rev` that was not accepted.
#[derive(Debug, Default)]
pub(super) struct Aside {
    wishes: HashMap<WishKey, i64>,
    /// Kinds of which the log has said so, until nothing is set aside any more.
    told: BTreeSet<String>,
}

impl Aside {
    /// Sets a wish aside; the log says so once a kind.
    pub(super) fn add(&mut self, service: &str, sent: Sent, problem: &Problem) {
        let WishKey {
            kind,
            workspace,
            id,
        } = &sent.key;
        if self.told.insert(kind.to_string()) {
            tracing::warn!(service, %kind, workspace, id, rev = sent.rev, %problem, "a desired state was not accepted; it is kept and sent again after ten minutes at most");
        }
        if self.wishes.len() < ASIDE_MAX || self.wishes.contains_key(&sent.key) {
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
