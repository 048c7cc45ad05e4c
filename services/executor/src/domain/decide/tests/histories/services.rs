//! Moves of other services.

use holdpoint_contracts::hold::HoldOutcome;
use serde_json::json;

use super::super::world::{World, closing, run_id};
use super::{Move, place};
use crate::domain::RunInput;

/// What the sweep, the handoff service and the kernel say.
pub(super) fn sent(world: &World, next: &Move) -> Option<RunInput> {
    match next {
        Move::Lost {
            step,
            dispatch,
            node,
        } => {
            let index = *step;
            let (step, dispatch) = place(world, index, *dispatch)?;
            let node = if *node { "node-a" } else { "node-b" };
            Some(RunInput::LeaseEnded {
                node: node.parse().unwrap(),
                step,
                dispatch,
            })
        }
        Move::ToolAvailability {
            step,
            dispatch,
            is_offered,
        } => {
            let (step, dispatch) = place(world, *step, *dispatch)?;
            Some(RunInput::ToolAvailability {
                step,
                dispatch,
                tool: "own.pay".parse().unwrap(),
                is_offered: *is_offered,
            })
        }
        Move::Closed { hold, choice } => {
            // Mostly one that is open, where there is any.
            let open = world.run.as_ref()?.questions().map(|(_, asked)| asked.hold);
            let open: Vec<_> = open.collect();
            let stray = holdpoint_ids::HoldId {
                run: run_id(),
                number: *hold,
            };
            let place = usize::try_from(*hold).unwrap();
            Some(RunInput::HoldClosed {
                hold: open.get(place).copied().unwrap_or(stray),
                closing: closing(HoldOutcome::Answered, json!(choice), world.now),
            })
        }
        Move::Incident(one) => Some(RunInput::Incident {
            reason: if *one { "unreadable" } else { "too large" }.to_owned(),
        }),
        _ => None,
    }
}
