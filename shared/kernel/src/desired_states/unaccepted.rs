//! Desired states that their receiver refused or could not read. Their rows stay and they are sent again
//! rarely: a newer version of the receiver may accept them.

use std::collections::{BTreeSet, HashMap};

use holdpoint_contracts::problem::Problem;

use super::rows::{DesiredStateKey, Sent};
use crate::status::KernelStatus;

/// Entries at most; further desired states are sent again as often as any other.
const UNACCEPTED_MAX: usize = 10_000;

/// Desired states that were not accepted, with the `rev` that was sent.
#[derive(Debug, Default)]
pub(super) struct Unaccepted {
    desired_states: HashMap<DesiredStateKey, i64>,
    /// Kinds that were logged, until all desired states are accepted.
    logged: BTreeSet<String>,
}

impl Unaccepted {
    /// Adds a desired state; logs the first one of a kind.
    pub(super) fn add(&mut self, service: &str, sent: Sent, problem: &Problem) {
        let DesiredStateKey {
            kind,
            workspace,
            id,
        } = &sent.key;
        if self.logged.insert(kind.to_string()) {
            tracing::warn!(service, %kind, workspace, id, rev = sent.rev, %problem, "desired state not accepted; it is kept and sent again within ten minutes");
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

    /// Drops the desired states whose rows were deleted.
    pub(super) fn retain(&mut self, exists: impl Fn(&DesiredStateKey) -> bool) {
        self.desired_states.retain(|key, _| exists(key));
    }

    pub(super) fn report(&mut self, service: &str, status: &KernelStatus) {
        if self.desired_states.is_empty() && !self.logged.is_empty() {
            self.logged.clear();
            tracing::info!(service, "all desired states are accepted");
        }
        status.set_not_accepted(self.desired_states.len());
    }
}
