//! Desired states of child runs, and reports of their ends: their rows, and what follows if the executor refuses them.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::{ChildRunEnd, ChildRunState};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::RunStatus;
use holdpoint_ids::{HoldId, RunId};
use holdpoint_kernel::{AfterRefusal, DesiredState, SentState};
use serde_json::Value;

use super::json::write;
use crate::domain::{Effect, Input, RefusedChildRun, RunInput};

pub(super) const CHILD_RUN: &str = "child_run";

/// A cancel has a kind of its own, because a refused one is kept. The child ignores an older row of the other kind.
pub(super) const CHILD_RUN_CANCEL: &str = "child_run_cancel";

pub(super) const CHILD_RUN_END: &str = "child_run_end";

/// Codes of a receiver that does not have the run: no run waits for the desired state.
const ABSENT: [&str; 2] = ["not_found", "id_taken"];

/// The desired state of a child run, or the end of one for its parent.
pub(super) fn child_run_state(effect: &Effect) -> Option<DesiredState> {
    if let Effect::ChildRun {
        workspace,
        place,
        desired_state,
    } = effect
    {
        let kind = match desired_state.state {
            ChildRunState::Open { .. } | ChildRunState::Frozen { .. } => CHILD_RUN,
            ChildRunState::Cancelled { .. } => CHILD_RUN_CANCEL,
        };
        return Some(DesiredState {
            kind,
            workspace: workspace.clone(),
            id: format!("{}.{place}", desired_state.hold),
            rev: desired_state.rev,
            body: write(desired_state)?,
        });
    }
    let Effect::ChildRunEnded { workspace, end } = effect else {
        return None;
    };
    Some(DesiredState {
        kind: CHILD_RUN_END,
        workspace: workspace.clone(),
        id: format!("{}.{}", end.id, end.child),
        rev: end.rev,
        body: write(end)?,
    })
}

pub(super) fn refused_child_run(sent: &SentState<'_>, problem: &Problem) -> AfterRefusal<Input> {
    let Some((hold, place)) = child_run_place(sent.id) else {
        return AfterRefusal::Keep;
    };
    let refused = RefusedChildRun {
        hold,
        place,
        rev: sent.rev,
        code: problem.code.clone(),
        message: problem.detail.clone(),
    };
    decide_parent(sent, hold, RunInput::ChildRunRefused(Box::new(refused)))
}

/// The child runs on, although no step waits for it. The kernel sends its cancel again and reports it.
pub(super) fn refused_cancel(problem: &Problem) -> AfterRefusal<Input> {
    if ABSENT.contains(&problem.code.as_str()) {
        AfterRefusal::Drop
    } else {
        AfterRefusal::Keep
    }
}

/// The parent cannot record the end, for example because its output is a dead letter. A short one without the output
/// takes its place, so that the step does not wait for its deadline.
pub(super) fn refused_end(
    sent: &SentState<'_>,
    problem: &Problem,
    now: DateTime<Utc>,
) -> AfterRefusal<Input> {
    if ABSENT.contains(&problem.code.as_str()) {
        return AfterRefusal::Drop;
    }
    let Some((hold, child)) = ended_child_run(sent.id) else {
        return AfterRefusal::Keep;
    };
    let end = ChildRunEnd {
        id: hold,
        child,
        rev: sent.rev,
        status: RunStatus::Failed,
        code: Some(problem.code.clone()),
        message: format!("its end could not be recorded: {}", problem.detail),
        output: Value::Null,
        steps: 0,
        cost: 0.0,
        at: now,
    };
    decide_parent(sent, hold, RunInput::ChildRunEnded(Box::new(end)))
}

fn decide_parent(sent: &SentState<'_>, hold: HoldId, input: RunInput) -> AfterRefusal<Input> {
    AfterRefusal::Decide(Input::Run {
        workspace: sent.workspace.clone(),
        run: hold.run,
        input,
    })
}

/// The hold and the place that the id of a desired child run names.
fn child_run_place(id: &str) -> Option<(HoldId, u32)> {
    let (hold, place) = id.split_once('.')?;
    Some((hold.parse().ok()?, place.parse().ok()?))
}

/// The hold and the child that the id of a reported end names.
fn ended_child_run(id: &str) -> Option<(HoldId, RunId)> {
    let (hold, child) = id.split_once('.')?;
    Some((hold.parse().ok()?, child.parse().ok()?))
}

/// The parent that the id of a desired child run, or of a reported end, names.
pub(crate) fn parent_of(id: &str) -> Option<RunId> {
    let (hold, _of_child) = id.split_once('.')?;
    let hold: HoldId = hold.parse().ok()?;
    Some(hold.run)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{acme, executor};
    use super::*;
    use holdpoint_kernel::Outbound as _;

    fn hold() -> HoldId {
        HoldId {
            run: RunId::fresh(),
            number: 3,
        }
    }

    fn after_refusal(kind: &str, id: &str, code: &str) -> AfterRefusal<Input> {
        let sent = SentState {
            kind,
            workspace: &acme(),
            id,
            rev: 4,
        };
        executor().refused(&sent, &Problem::new(422, code, "no room"))
    }

    /// A cancel that the child cannot handle is kept: the child runs on.
    #[test]
    fn a_refused_cancel_is_kept_and_a_refused_start_fails_the_step() {
        let hold = hold();
        let id = format!("{hold}.2");
        for (code, after) in [
            ("dead_letter", AfterRefusal::Keep),
            ("id_taken", AfterRefusal::Drop),
            ("not_found", AfterRefusal::Drop),
        ] {
            assert_eq!(after_refusal(CHILD_RUN_CANCEL, &id, code), after, "{code}");
        }
        let AfterRefusal::Decide(Input::Run { run, input, .. }) =
            after_refusal(CHILD_RUN, &id, "agent_paused")
        else {
            panic!()
        };
        assert_eq!(run, hold.run);
        let RunInput::ChildRunRefused(refused) = input else {
            panic!("{input:?}")
        };
        assert_eq!((refused.place, refused.rev), (2, 4));
    }

    /// An end that is a dead letter reaches the parent as a failure.
    #[test]
    fn a_refused_end_is_a_failure_for_the_parent() {
        let (hold, child) = (hold(), RunId::fresh());
        let id = format!("{hold}.{child}");
        for code in ABSENT {
            assert_eq!(after_refusal(CHILD_RUN_END, &id, code), AfterRefusal::Drop);
        }
        let AfterRefusal::Decide(Input::Run { run, input, .. }) =
            after_refusal(CHILD_RUN_END, &id, "dead_letter")
        else {
            panic!()
        };
        assert_eq!(run, hold.run);
        let RunInput::ChildRunEnded(end) = input else {
            panic!("{input:?}")
        };
        assert_eq!(
            (end.id, end.child, end.rev, end.status),
            (hold, child, 4, RunStatus::Failed)
        );
        assert!(end.message.contains("no room"), "{}", end.message);
        assert_eq!(parent_of(&id), Some(hold.run));
    }
}
