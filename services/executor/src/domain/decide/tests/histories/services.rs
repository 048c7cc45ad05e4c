//! What other services, child runs, the sweep and the kernel say.

use holdpoint_contracts::hold::HoldOutcome;
use serde_json::json;

use super::super::world::{World, child_end, closing, run_id};
use super::{Move, place};
use crate::domain::{RefusedChildRun, RunInput};

/// What child runs report.
pub(super) fn by_child_runs(world: &World, next: &Move) -> Option<RunInput> {
    let child = |which: &usize| {
        let mut children = world.children.values();
        children.nth(which % world.children.len().max(1))
    };
    match next {
        Move::ChildEnds { which, status } => {
            let child = child(which)?;
            let end = child_end(child.run, child.hold, *status);
            Some(RunInput::ChildRunEnded(Box::new(end)))
        }
        Move::ChildRefused { which, is_old } => {
            let child = child(which)?;
            let runs = world.run.as_ref()?.steps.iter();
            let mut runs = runs.filter_map(|step| step.child_runs.as_deref());
            let runs = runs.find(|runs| runs.hold == child.hold)?;
            let place = runs.runs.iter().position(|run| run.run == child.run)?;
            Some(RunInput::ChildRunRefused(Box::new(RefusedChildRun {
                hold: child.hold,
                place: u32::try_from(place).unwrap(),
                rev: child.rev - u64::from(*is_old),
                code: "agent_paused".to_owned(),
                message: "paused".to_owned(),
            })))
        }
        _ => None,
    }
}

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
