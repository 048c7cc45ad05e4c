//! Desired states that no receiver has accepted: it could not read them, or refused them. Their rows stay, and
//! they are sent again rarely: a receiver of a newer version may take them.

use std::collections::{BTreeSet, HashMap};

use holdpoint_contracts::problem::Problem;

use super::{DesiredStateKey, Sent};
use crate::activity::KernelStatus;

/// Most desired states that are known as not accepted; more are sent again as often as any other.
const UNACCEPTED_MAX: usize = 10_000;

/// Which desired states were not accepted, each with the `rev` that was sent.
#[derive(Debug, Default)]
pub(super) struct Unaccepted {
    desired_states: HashMap<DesiredStateKey, i64>,
    /// Kinds of which the log has said so, until all desired states are accepted.
    told: BTreeSet<String>,
}

impl Unaccepted {
    /// Notes that a desired state was not accepted; the log says so once a kind.
    pub(super) fn add(&mut self, service: &str, sent: Sent, problem: &Problem) {
        let DesiredStateKey {
            kind,
            workspace,
            id,
        } = &sent.key;
        if self.told.insert(kind.to_string()) {
            tracing::warn!(service, %kind, workspace, id, rev = sent.rev, %problem, "a desired state was not accepted; it is kept and sent again after ten minutes at most");
        }
        if self.desired_states.len() < UNACCEPTED_MAX || self.desired_states.contains_key(&sent.key)
        {
            self.desired_states.insert(sent.key, sent.rev);
        }
    }

    pub(super) fn remove(&mut self, key: &DesiredStateKey) {
        self.desired_states.remove(key);
    }

    pub(super) fn contains(&self, sent: &Sent) -> bool {
        self.desired_states.get(&sent.key) == Some(&sent.rev)
    }

    /// Forgets those whose rows are gone.
    pub(super) fn retain(&mut self, is_there: impl Fn(&DesiredStateKey) -> bool) {
        self.desired_states.retain(|key, _| is_there(key));
    }

    /// Tells how many there are.
    pub(super) fn report(&mut self, service: &str, activity: &KernelStatus) {
        if self.desired_states.is_empty() && !self.told.is_empty() {
            self.told.clear();
            tracing::info!(service, "all desired states are accepted");
        }
        activity.set_not_accepted(self.desired_states.len());
    }
}
