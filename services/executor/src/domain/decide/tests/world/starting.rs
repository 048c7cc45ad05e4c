//! Workers that ask whether they may start a step.

use holdpoint_contracts::steps::Grant;

use super::{Heard, World};
use crate::domain::{DeliveredStep, Reply, RunInput};

impl World {
    /// A node asks to start the newest dispatch of a step, on its first delivery.
    pub(in super::super) fn ask(&mut self, node: &str, step: &str) -> Grant {
        self.ask_as(node, step, self.dispatch(step), 1)
    }

    pub(in super::super) fn ask_as(
        &mut self,
        node: &str,
        step: &str,
        dispatch: u64,
        delivery: u64,
    ) -> Grant {
        self.may_start(RunInput::StartStep(DeliveredStep {
            node: node.parse().unwrap(),
            step: step.to_owned(),
            dispatch,
            delivery,
            without_lease: false,
            is_high_risk: false,
            is_idempotent: false,
        }))
    }

    /// The same by a worker that would do without a lease.
    pub(in super::super) fn ask_without_lease(
        &mut self,
        node: &str,
        step: &str,
        delivery: u64,
    ) -> Grant {
        self.may_start(RunInput::StartStep(DeliveredStep {
            node: node.parse().unwrap(),
            step: step.to_owned(),
            dispatch: self.dispatch(step),
            delivery,
            without_lease: true,
            is_high_risk: false,
            is_idempotent: false,
        }))
    }

    fn may_start(&mut self, input: RunInput) -> Grant {
        match self.give(input) {
            Heard::Decided(Reply::Grant(grant)) | Heard::Unchanged(Reply::Grant(grant)) => grant,
            other => panic!("{other:?}"),
        }
    }
}
