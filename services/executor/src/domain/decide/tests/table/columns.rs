//! The inputs that are tried, in the order of the page.

use holdpoint_contracts::asking::ToolQuestion;
use holdpoint_contracts::executor::{ChildRunState, DesiredChildRun};
use holdpoint_contracts::hold::{HandoffEventKind, HoldOutcome};
use holdpoint_contracts::run::{ResumeMode, RunStatus};
use holdpoint_contracts::suspension::{BlobContent, StepOnResume};
use holdpoint_ids::{HoldId, RunId};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::super::suspension::{supplement, suspend_input};
use super::super::world::{
    World, broken, child_end, closing, done, handoff_event, owner, pause_input, run_id,
    scheduled_start, start_input,
};
use super::STEP;
use crate::domain::run::{Choice, Signal, StepPhase, Timer};
use crate::domain::{
    BlobUpload, ContinuedCall, DeliveredStep, RefusedChildRun, RunInput, StepReport,
    SuspensionReport,
};

/// An input to be tried.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) on_idempotent: bool,
    pub(super) input: fn(&World) -> RunInput,
}

/// The first hold of the run, and the number under which its timer was set last.
fn timer(world: &World) -> (HoldId, u64) {
    let id = HoldId {
        run: run_id(),
        number: 1,
    };
    let open = world.run().holds().find(|(_, hold)| hold.id == id);
    let rev = open.map_or(0, |(_, hold)| match hold.timer {
        Timer::Set { rev, .. } => rev,
        // What was set before the pause: it may still be on its way.
        Timer::Frozen { .. } => world.run().version - 1,
    });
    (id, rev)
}

fn fired(world: &World, is_current: bool) -> RunInput {
    // The step that is looked at has no hold of its own here: the next step's is not meant.
    let number = match world.phase(STEP) {
        StepPhase::Planned | StepPhase::Waiting(_) => 1,
        StepPhase::FannedOut
        | StepPhase::Queued(_)
        | StepPhase::Granted(_)
        | StepPhase::AwaitingPerson(_)
        | StepPhase::Parked(_)
        | StepPhase::Uncertain(_)
        | StepPhase::Completed { .. }
        | StepPhase::Failed { .. }
        | StepPhase::Skipped { .. }
        | StepPhase::Cancelled { .. } => 99,
    };
    let (hold, rev) = timer(world);
    RunInput::TimerFired {
        hold: HoldId { number, ..hold },
        rev: if is_current {
            rev
        } else {
            rev.saturating_sub(1)
        },
    }
}

fn asked(world: &World, node: &str, back: u64, delivery: u64) -> RunInput {
    RunInput::StartStep(DeliveredStep {
        node: node.parse().unwrap(),
        step: STEP.to_owned(),
        dispatch: world.dispatch(STEP).saturating_sub(back),
        delivery,
        without_lease: false,
        is_high_risk: false,
        is_idempotent: false,
    })
}

fn reported(world: &World, is_ok: bool, back: u64) -> RunInput {
    RunInput::StepResult(StepReport {
        cost: None,
        node: "node-a".parse().unwrap(),
        step: STEP.to_owned(),
        dispatch: world.dispatch(STEP).saturating_sub(back),
        result: if is_ok { done(json!({})) } else { broken() },
        error_code: (!is_ok).then(|| "http_status".to_owned()),
    })
}

fn asks(world: &World, key: &str, back: u64) -> RunInput {
    RunInput::AskPeople {
        by: owner(),
        step: Some(STEP.to_owned()),
        dispatch: Some(world.dispatch(STEP).saturating_sub(back)),
        question: Box::new(ToolQuestion {
            key: (!key.is_empty()).then(|| key.to_owned()),
            ..ToolQuestion::new("Go on?")
        }),
    }
}

fn parks(world: &World, back: u64) -> RunInput {
    RunInput::StepParks {
        step: STEP.to_owned(),
        dispatch: world.dispatch(STEP).saturating_sub(back),
        duration_ms: 7,
    }
}

fn lost(world: &World, back: u64) -> RunInput {
    RunInput::LeaseEnded {
        node: "node-a".parse().unwrap(),
        step: STEP.to_owned(),
        dispatch: world.dispatch(STEP).saturating_sub(back),
    }
}

pub(super) fn tool_missing(world: &World) -> RunInput {
    RunInput::ToolAvailability {
        step: STEP.to_owned(),
        dispatch: world.dispatch(STEP),
        tool: "crm.find".parse().unwrap(),
        is_offered: false,
    }
}

/// About the step that is looked at; where nothing is asked, about a hold that never was.
fn answered(world: &World, choice: Choice) -> RunInput {
    RunInput::HoldClosed {
        hold: open(world),
        closing: closing(HoldOutcome::Answered, json!(choice), world.now),
    }
}

fn open(world: &World) -> HoldId {
    let uncertain = world.run().questions().next().map(|(_, asked)| asked.hold);
    let asked = world.run().people().next().map(|(_, on)| on.id);
    uncertain.or(asked).unwrap_or(HoldId {
        run: run_id(),
        number: 99,
    })
}

/// What the owner of a hold on people says of it; that time is up, when it is.
fn closed(world: &World, outcome: HoldOutcome, data: Value) -> RunInput {
    let hold = open(world);
    let is_timeout = outcome == HoldOutcome::Timeout;
    let due = world.deadline(hold).filter(|_| is_timeout);
    RunInput::HoldClosed {
        hold,
        closing: closing(outcome, data, due.unwrap_or(world.now)),
    }
}

/// What the owner of a handoff says of it while it stands.
fn accepted(world: &World) -> RunInput {
    RunInput::HandoffUpdate {
        hold: open(world),
        handoff_events: vec![handoff_event(2, HandoffEventKind::Accepted, world.now)],
    }
}

fn resume(mode: ResumeMode) -> RunInput {
    RunInput::Resume {
        by: owner(),
        mode,
        step: None,
    }
}

/// A resume that says what happens with a step in progress.
fn resume_step(step: StepOnResume) -> RunInput {
    RunInput::Resume {
        by: owner(),
        mode: ResumeMode::Continue,
        step: Some(step),
    }
}

/// What the worker of a step says at a suspension.
fn suspended(world: &World, shutdown: bool, stopped: bool) -> RunInput {
    RunInput::SuspendStep(Box::new(SuspensionReport {
        node: "node-a".parse().unwrap(),
        step: STEP.to_owned(),
        dispatch: world.dispatch(STEP),
        shutdown,
        stopped,
        supplement: Some(supplement(json!(7))),
    }))
}

/// The tool of a step uploads a blob.
fn uploaded(world: &World) -> RunInput {
    RunInput::PutBlob(Box::new(BlobUpload {
        step: STEP.to_owned(),
        dispatch: world.dispatch(STEP),
        sha256: format!("{:x}", Sha256::digest("1")),
        size: 1,
        offset: 0,
        content: BlobContent(b"1".as_slice().into()),
    }))
}

fn continued(world: &World) -> RunInput {
    RunInput::ContinueStep(Box::new(ContinuedCall {
        node: "node-a".parse().unwrap(),
        step: STEP.to_owned(),
        dispatch: world.dispatch(STEP),
        sandbox: None,
    }))
}

/// What operators and workers do at a suspension.
fn of_suspension() -> Vec<Column> {
    let on = |on_idempotent, name, input| Column {
        name,
        on_idempotent,
        input,
    };
    vec![
        on(false, "suspend", |_| suspend_input("odd")),
        on(false, "resume, `redo`", |_| resume_step(StepOnResume::Redo)),
        on(false, "resume, `skip`", |_| resume_step(StepOnResume::Skip)),
        on(false, "resume, `complete_with`", |_| {
            resume_step(StepOnResume::CompleteWith { result: json!(1) })
        }),
        on(false, "supplement", |it| suspended(it, false, false)),
        on(true, "stopped, idempotent", |it| suspended(it, false, true)),
        on(false, "stopped, not idempotent", |it| {
            suspended(it, false, true)
        }),
        on(true, "shutdown, idempotent", |it| suspended(it, true, true)),
        on(false, "shutdown, not idempotent", |it| {
            suspended(it, true, true)
        }),
        on(false, "upload", uploaded),
        on(false, "continue", continued),
    ]
}

fn cancel() -> RunInput {
    let (by, reason) = (owner(), None);
    RunInput::Cancel { by, reason }
}

fn retry() -> RunInput {
    let (by, from) = (owner(), None);
    RunInput::Retry { by, from }
}

/// The newest version is that of the run.
fn migrate() -> RunInput {
    let (by, version) = (owner(), None);
    RunInput::Migrate { by, version }
}

fn patch_context() -> RunInput {
    let (by, patch) = (
        owner(),
        [("more".to_owned(), json!(1))].into_iter().collect(),
    );
    RunInput::PatchContext { by, patch }
}

fn signal() -> RunInput {
    let (by, name) = (owner(), "paid".to_owned());
    let signal = Signal {
        name,
        data: json!(12),
        key: None,
    };
    RunInput::Signal { by, signal }
}

/// What people do.
fn of_people() -> Vec<Column> {
    let on = |name, input| Column {
        name,
        on_idempotent: false,
        input,
    };
    vec![
        on("start again, same id", |_| start_input()),
        on("pause", |_| pause_input()),
        on("resume `continue`", |_| resume(ResumeMode::Continue)),
        on("resume `now`", |_| resume(ResumeMode::Now)),
        on("cancel", |_| cancel()),
        on("migrate", |_| migrate()),
        on("retry", |_| retry()),
        on("signal", |_| signal()),
        on("change the context", |_| patch_context()),
        on("take over", |_| RunInput::TakeOver { by: owner() }),
        on("follow", |_| RunInput::Watch),
        on("scheduled start again", |_| scheduled_start()),
    ]
}

pub(super) fn columns() -> Vec<Column> {
    let on = |on_idempotent, name, input| Column {
        name,
        on_idempotent,
        input,
    };
    let mut columns = of_people();
    columns.extend([
        on(false, "timer fired, current", |it| fired(it, true)),
        on(false, "timer fired, stale", |it| fired(it, false)),
        on(true, "lease ended, idempotent", |it| lost(it, 0)),
        on(false, "lease ended, not idempotent", |it| lost(it, 0)),
        on(false, "lease ended, older dispatch", |it| lost(it, 1)),
        on(false, "tool missing", tool_missing),
        on(false, "answered `it_happened`", |it| {
            answered(it, Choice::ItHappened)
        }),
        on(false, "answered `run_again`", |it| {
            answered(it, Choice::RunAgain)
        }),
        on(false, "timed out", |it| {
            closed(it, HoldOutcome::Timeout, Value::Null)
        }),
        on(false, "approved", |it| {
            closed(it, HoldOutcome::Approved, json!(""))
        }),
        on(false, "rejected", |it| {
            closed(it, HoldOutcome::Rejected, json!("no"))
        }),
        on(false, "taken over", |it| {
            closed(it, HoldOutcome::TakenOver, Value::Null)
        }),
        on(false, "accepted", accepted),
        on(false, "completed, `finish`", |it| {
            closed(
                it,
                HoldOutcome::Completed,
                json!({ "disposition": "finish" }),
            )
        }),
        on(false, "completed, `return_to_agent`", |it| {
            closed(
                it,
                HoldOutcome::Completed,
                json!({ "disposition": "return_to_agent" }),
            )
        }),
        on(false, "answered `give_up`", |it| {
            answered(it, Choice::GiveUp)
        }),
        on(false, "dead letter", |_| RunInput::Incident {
            reason: "unreadable".to_owned(),
        }),
        on(true, "idempotent, same delivery", |it| {
            asked(it, "node-a", 0, 1)
        }),
        on(true, "idempotent, other delivery", |it| {
            asked(it, "node-b", 0, 2)
        }),
        on(false, "not idempotent, same delivery", |it| {
            asked(it, "node-a", 0, 1)
        }),
        on(false, "not idempotent, other delivery", |it| {
            asked(it, "node-b", 0, 2)
        }),
        on(false, "older dispatch", |it| asked(it, "node-a", 1, 1)),
    ]);
    columns.extend(of_runs());
    columns.extend(of_tools_and_results());
    columns.extend(of_suspension());
    columns
}

/// What child runs and a parent run say.
fn of_runs() -> [Column; 5] {
    let on = |name, input| Column {
        name,
        on_idempotent: false,
        input,
    };
    [
        on("child run completed", |it| {
            child_ended(it, RunStatus::Completed)
        }),
        on("child run failed", |it| child_ended(it, RunStatus::Failed)),
        on("child run cancelled", |it| {
            child_ended(it, RunStatus::Cancelled)
        }),
        on("start of the child run refused", |it| {
            RunInput::ChildRunRefused(Box::new(RefusedChildRun {
                hold: child(it).1,
                place: 0,
                rev: it.run().version,
                code: "agent_paused".to_owned(),
                message: "paused".to_owned(),
            }))
        }),
        on("a parent run that it does not have", |_| {
            RunInput::SetChildRun(Box::new(DesiredChildRun {
                run: run_id(),
                rev: 1,
                hold: HoldId {
                    run: run_id(),
                    number: 99,
                },
                step: "other".to_owned(),
                agent: "outreach".parse().unwrap(),
                state: ChildRunState::Cancelled {
                    reason: String::new(),
                },
            }))
        }),
    ]
}

/// The child run of the step, and its hold; otherwise one that never was.
fn child(world: &World) -> (RunId, HoldId) {
    let children = world.children.values().next();
    let none = (
        run_id(),
        HoldId {
            run: run_id(),
            number: 99,
        },
    );
    children.map_or(none, |child| (child.run, child.hold))
}

fn child_ended(world: &World, status: RunStatus) -> RunInput {
    let (child, hold) = child(world);
    RunInput::ChildRunEnded(Box::new(child_end(child, hold, status)))
}

/// What tools ask, that they park, and what they came to.
fn of_tools_and_results() -> [Column; 9] {
    let on = |name, input| Column {
        name,
        on_idempotent: false,
        input,
    };
    [
        on("asks", |it| asks(it, "another", 0)),
        on("asks again", |it| asks(it, "", 0)),
        on("asks, older dispatch", |it| asks(it, "", 1)),
        on("parks", |it| parks(it, 0)),
        on("parks, older dispatch", |it| parks(it, 1)),
        on("ok, current", |it| reported(it, true, 0)),
        on("failed, current", |it| reported(it, false, 0)),
        on("ok, older", |it| reported(it, true, 1)),
        on("failed, older", |it| reported(it, false, 1)),
    ]
}
