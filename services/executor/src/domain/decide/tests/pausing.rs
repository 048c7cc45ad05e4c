//! Pause and resume: clocks stop, nothing starts, nothing is lost (S0-AC4).

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::executor::PauseWaiting;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::run::{ResumeMode, RunStatus};
use holdpoint_contracts::steps::{Grant, ResultReply};
use serde_json::json;

use super::world::{Heard, World, done};
use crate::domain::run::StepPhase;
use crate::domain::{Refusal, Reply};

const SEND_THEN_LOG: &str = "
  - id: send
    tool: send_email
    args: { to: x@x.example }
  - id: note
    tool: log
    args: { message: sent }
";

fn changed(heard: &Heard) -> bool {
    match heard {
        Heard::Decided(Reply::Changed(answer)) | Heard::Unchanged(Reply::Changed(answer)) => {
            answer.changed
        }
        other => panic!("{other:?}"),
    }
}

/// S0-AC4
#[test]
fn a_pause_freezes_the_wait_and_keeps_what_is_left() {
    let mut world = World::started("  - wait: 5 days\n");
    world.pass(TimeDelta::days(2));
    let heard = world.pause();
    assert!(changed(&heard));
    let view = world.view();
    assert_eq!(view.message, "Paused by owner; timer hold has 3 days left.");
    assert_eq!((view.status, view.resume_at), (RunStatus::Waiting, None));
    let three_days = u64::try_from(TimeDelta::days(3).num_milliseconds()).unwrap();
    assert_eq!(view.waiting_on[0].remaining_ms, Some(three_days));
    assert_eq!(view.waiting_on[0].until, None);
    assert_eq!(
        (view.paused_by[0].by.as_str(), view.paused_by[0].at),
        ("owner", world.now)
    );
    assert_eq!(world.event(EventType::RunPaused).message, view.message);
}

/// Five days of wait, paused after two, resumed after four: when does it end, counted from the
/// start?
fn resumed(mode: ResumeMode) -> (World, DateTime<Utc>) {
    let mut world = World::started("  - wait: 5 days\n");
    let began = world.now;
    world.pass(TimeDelta::days(2));
    world.pause();
    world.pass(TimeDelta::days(2));
    assert!(changed(&world.resume(mode)));
    (world, began)
}

/// S0-AC4
#[test]
fn resume_continue_waits_for_the_remaining_time() {
    let (world, began) = resumed(ResumeMode::Continue);
    assert_eq!(world.view().resume_at, Some(began + TimeDelta::days(7)));
    assert_eq!(world.view().message, "Agent paused. Will resume in 3 days.");
}

/// S0-AC4
#[test]
fn resume_keep_deadline_ends_when_it_would_have_ended() {
    let (world, began) = resumed(ResumeMode::KeepDeadline);
    assert_eq!(world.view().resume_at, Some(began + TimeDelta::days(5)));
}

/// S0-AC4
#[test]
fn resume_keep_deadline_goes_on_at_once_when_the_deadline_has_passed() {
    let mut world = World::started("  - wait: 5 days\n");
    world.pause();
    world.pass(TimeDelta::days(6));
    world.resume(ResumeMode::KeepDeadline);
    assert_eq!(world.status(), RunStatus::Completed);
}

/// S0-AC4
#[test]
fn resume_restart_waits_the_whole_time_again() {
    let (world, began) = resumed(ResumeMode::Restart);
    assert_eq!(world.view().resume_at, Some(began + TimeDelta::days(9)));
}

/// S0-AC4
#[test]
fn resume_now_ends_the_wait() {
    let (world, _) = resumed(ResumeMode::Now);
    assert_eq!(
        (world.status(), world.view().resume_at),
        (RunStatus::Completed, None)
    );
}

/// S0-AC4: time does not pass for a wait that is frozen, however often.
#[test]
fn two_pauses_in_a_row_cost_the_wait_nothing() {
    let mut world = World::started("  - wait: 5 days\n");
    let began = world.now;
    for _ in 0..2 {
        world.pass(TimeDelta::days(1));
        world.pause();
        world.pass(TimeDelta::days(10));
        world.resume(ResumeMode::Continue);
    }
    assert_eq!(world.view().resume_at, Some(began + TimeDelta::days(25)));
}

/// Races: a second pause is a no-op that says so.
#[test]
fn a_second_pause_and_a_second_resume_change_nothing_and_say_so() {
    let mut world = World::started("  - wait: 5 days\n");
    assert!(!changed(&world.resume(ResumeMode::Now)), "was never paused");
    assert_eq!(world.status(), RunStatus::Waiting);
    assert!(changed(&world.pause()));
    let before = world.run().clone();
    assert!(!changed(&world.pause()));
    assert_eq!(*world.run(), before);
    assert!(changed(&world.resume(ResumeMode::Continue)));
    assert!(!changed(&world.resume(ResumeMode::Now)));
}

/// S0-AC4: running ones finish and are kept.
#[test]
fn a_step_at_work_finishes_its_result_is_kept_and_nothing_follows_until_resume() {
    let mut world = World::started(SEND_THEN_LOG);
    assert_eq!(world.ask("node-a", "send"), Grant::Go);
    world.pause();
    assert_eq!(world.view().paused_by[0].in_flight, ["send"]);
    assert_eq!(
        world.report("send", done(json!({ "id": 1 }))),
        ResultReply::Applied
    );
    assert!(matches!(world.phase("send"), StepPhase::Completed { .. }));
    assert!(matches!(world.phase("note"), StepPhase::Planned));
    assert_eq!(world.view().paused_by[0].in_flight, ["send"]);
    world.resume(ResumeMode::Continue);
    assert_eq!(world.handed.last().unwrap().step, "note");
}

/// S0-AC4: queued steps do not start.
#[test]
fn a_queued_step_is_dropped_while_paused_and_handed_out_anew_on_resume() {
    let mut world = World::started(SEND_THEN_LOG);
    world.pause();
    assert_eq!(world.ask("node-a", "send"), Grant::Drop);
    assert!(world.view().paused_by[0].in_flight.is_empty());
    let before = world.dispatch("send");
    world.resume(ResumeMode::Continue);
    assert_eq!(world.dispatch("send"), before + 1);
    assert_eq!(world.handed.len(), 2);
    assert_eq!(
        world.ask_as("node-a", "send", before, 1),
        Grant::Drop,
        "the old dispatch"
    );
    assert_eq!(world.ask("node-a", "send"), Grant::Go);
}

/// S0-AC4, Races: delivered less than a second before, it had begun without asking.
#[test]
fn the_result_of_a_queued_step_that_had_begun_counts_as_in_flight() {
    let mut world = World::started("  - id: note\n    tool: log\n    args: { message: hi }\n");
    world.pause();
    assert_eq!(world.report("note", done(json!({}))), ResultReply::Applied);
    assert_eq!(world.view().paused_by[0].in_flight, ["note"]);
    assert!(
        !world.run().is_final(),
        "a paused run does not end by itself"
    );
    world.resume(ResumeMode::Continue);
    assert_eq!(world.status(), RunStatus::Completed);
}

/// S0-AC4: the answer to its first request was lost, and the grant stands.
#[test]
fn a_node_that_was_granted_the_start_before_the_pause_may_ask_again() {
    let mut world = World::started(SEND_THEN_LOG);
    assert_eq!(world.ask("node-a", "send"), Grant::Go);
    world.pause();
    assert_eq!(world.ask("node-a", "send"), Grant::Go);
    assert_eq!(world.report("send", done(json!({}))), ResultReply::Applied);
}

/// Nothing waits without a waker: its worker died, and its lease ends during the pause.
#[test]
fn an_idempotent_step_that_is_lost_while_paused_is_handed_out_on_resume() {
    let mut world = World::started("  - id: note\n    tool: log\n    args: { message: hi }\n");
    let first = world.dispatch("note");
    assert_eq!(world.ask("node-a", "note"), Grant::Go);
    world.pause();
    assert_eq!(world.ask_as("node-b", "note", first, 2), Grant::Drop);
    world.lose("note");
    world.resume(ResumeMode::Continue);
    assert_eq!(world.handed.last().unwrap().dispatch, first + 1);
    assert_eq!(
        world.report_as("note", first, done(json!({}))),
        ResultReply::Late
    );
}

/// The same for a step that must not be done twice: a person decides.
#[test]
fn a_step_that_must_not_be_done_twice_is_uncertain_when_lost_while_paused() {
    let mut world = World::started(SEND_THEN_LOG);
    let first = world.dispatch("send");
    assert_eq!(world.ask("node-a", "send"), Grant::Go);
    world.pause();
    world.lose("send");
    assert_eq!(world.ask_as("node-b", "send", first, 2), Grant::Uncertain);
    world.resume(ResumeMode::Continue);
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    assert_eq!(world.report("send", done(json!({}))), ResultReply::Applied);
}

/// S0-AC4: conditions see the world after the pause.
#[test]
fn a_queued_step_whose_condition_no_longer_holds_is_skipped_on_resume() {
    let mut world = World::started(
        "  - id: nudge\n    when: contact.replied == false\n    tool: send_email\n    args: { to: x }\n",
    );
    world.pause();
    world.contact = Some(json!({ "id": "ada", "replied": true }));
    world.resume(ResumeMode::Continue);
    assert_eq!(world.status(), RunStatus::Completed);
    assert!(matches!(world.phase("nudge"), StepPhase::Skipped { .. }));
    assert_eq!(
        world.report_as("nudge", 1, done(json!({}))),
        ResultReply::Late
    );
}

/// S0-AC4: what fails while paused still fails the run, and the rest of it is revoked.
#[test]
fn a_failure_while_paused_ends_the_run() {
    let mut world = World::started(SEND_THEN_LOG);
    world.ask("node-a", "send");
    world.pause();
    world.report("send", super::world::broken());
    assert_eq!(world.status(), RunStatus::Failed);
    assert!(world.view().paused_by.is_empty());
}

/// S2-R13
#[test]
fn a_final_run_can_be_neither_paused_nor_resumed() {
    let mut world = World::started("  - wait: 1 day\n");
    world.fire_next();
    for heard in [world.pause(), world.resume(ResumeMode::Now)] {
        let Heard::Refused(Refusal::RunFinal(_, RunStatus::Completed)) = heard else {
            panic!("{heard:?}");
        };
    }
}

/// Mend C-8: a pause of one run takes the words of a pause of many.
#[test]
fn a_pause_may_cancel_a_run_that_waits_and_no_other() {
    let mut world = World::started("  - id: w\n    wait: 2 days\n");
    world.pause_as(PauseWaiting::Cancel);
    assert_eq!(world.status(), RunStatus::Cancelled);
    let failure = world.view().failure.unwrap();
    assert_eq!(failure.message, "Agent paused manually", "S0-T6.3");
    let mut world = World::started("  - id: l\n    tool: log\n    args: { message: hi }\n");
    world.pause_as(PauseWaiting::Cancel);
    assert_ne!(
        world.status(),
        RunStatus::Cancelled,
        "it works and does not wait"
    );
    assert_eq!(world.view().paused_by.len(), 1);
}
