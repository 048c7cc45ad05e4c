//! A resumed agent or workspace ends a wait for a signal whose time has passed.

use chrono::TimeDelta;
use holdpoint_contracts::run::{ResumeMode, RunStatus};

use super::{AGENT, hold, resume};
use crate::domain::RunInput;
use crate::domain::decide::tests::world::{World, owner};
use crate::domain::run::StepPhase;

/// The failed wait lets the run go on, and the next step is dispatched once.
#[test]
fn a_signal_that_is_overdue_at_the_resume_fails_its_step_once() {
    let mut world = World::started(
        "
  - id: paid
    wait_for: { signal: payment, timeout: 1h }
    on_error: continue
  - id: note
    tool: log
    args: { message: hi }
",
    );
    world.command(AGENT, hold());
    world.pages(AGENT);
    world.pass(TimeDelta::days(1));
    world.command(AGENT, resume(ResumeMode::KeepDeadline));
    world.pages(AGENT);
    assert_eq!(world.status(), RunStatus::Running);
    assert_eq!(world.handed.len(), 1, "{:?}", world.handed);
    let numbers: Vec<_> = world.history.iter().map(|item| item.seq).collect();
    let count = numbers.len() as u64;
    assert_eq!(numbers, (1..=count).collect::<Vec<_>>());
}

/// The resume skips the wait and fails the run, and the retry in the same decision keeps the skipped wait.
#[test]
fn a_retry_keeps_a_wait_that_the_resume_has_ended() {
    let mut world = World::started(
        "
  - id: paid
    wait_for: { signal: payment, timeout: 1h, on_timeout: skip }
  - id: end
    finish: { status: failed, summary: late }
",
    );
    world.command(AGENT, hold());
    world.pages(AGENT);
    world.pass(TimeDelta::days(1));
    world.command(AGENT, resume(ResumeMode::KeepDeadline));
    let by = owner();
    world.give(RunInput::Retry { by, from: None });
    assert!(matches!(world.phase("paid"), StepPhase::Skipped { .. }));
    assert_eq!(world.status(), RunStatus::Failed);
}
