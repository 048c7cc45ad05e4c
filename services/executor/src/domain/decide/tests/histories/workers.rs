//! Moves of workers.

use serde_json::json;

use super::super::suspension::supplement;
use super::super::world::{World, broken, done};
use super::{Move, place};
use crate::domain::{DeliveredStep, RunInput, StepReport, SuspensionReport};

/// What workers do with what they were dispatched.
pub(super) fn by_workers(world: &World, next: &Move) -> Option<RunInput> {
    match next {
        Move::Ask {
            step,
            dispatch,
            node,
            delivery,
            without_lease,
        } => {
            let index = *step;
            let (step, dispatch) = place(world, index, *dispatch)?;
            let node = if *node { "node-a" } else { "node-b" };
            Some(RunInput::StartStep(DeliveredStep {
                node: node.parse().unwrap(),
                step,
                dispatch,
                delivery: *delivery,
                without_lease: *without_lease,
                // Tools of some nodes have a risk that only the node knows.
                is_high_risk: *delivery == 2 && index.is_multiple_of(3),
                is_idempotent: false,
            }))
        }
        Move::SuspendStep {
            step,
            dispatch,
            node,
            shutdown,
            stopped,
        } => {
            let (step, dispatch) = place(world, *step, *dispatch)?;
            let node = if *node { "node-a" } else { "node-b" };
            Some(RunInput::SuspendStep(Box::new(SuspensionReport {
                node: node.parse().unwrap(),
                step,
                dispatch,
                shutdown: *shutdown,
                stopped: *stopped,
                supplement: Some(supplement(json!(7))),
            })))
        }
        Move::Report {
            step,
            dispatch,
            fails,
        } => {
            let (step, dispatch) = place(world, *step, *dispatch)?;
            Some(RunInput::StepResult(StepReport {
                cost: None,
                node: "node-a".parse().unwrap(),
                step,
                dispatch,
                result: if *fails {
                    broken()
                } else {
                    done(json!({ "n": 1 }))
                },
                error_code: fails.then(|| "http_status".to_owned()),
            }))
        }
        _ => None,
    }
}
