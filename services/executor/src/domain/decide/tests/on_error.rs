//! What the failure of a step does to its run.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{HoldOutcome, HoldState};
use holdpoint_contracts::run::{ResumeMode, RunStatus, StepStatus};
use holdpoint_contracts::steps::ResultReply;
use serde_json::json;

use super::world::{World, broken, done};
use crate::domain::run::Choice;

/// A tool that fails, and one after it that reads its result.
fn failing(on_error: &str) -> World {
    World::started(&format!(
        "  - id: find\n    tool: orders.find\n    on_error: {on_error}\n  - id: tell\n    tool: tell\n    args: {{ order: $find.order.id }}\n"
    ))
}

fn statuses(world: &World) -> Vec<StepStatus> {
    let steps = world.run().steps.iter();
    steps.map(|step| step.phase.status()).collect()
}

#[test]
fn by_default_the_run_fails() {
    let mut world = failing("fail");
    world.report("find", broken());
    assert_eq!(world.status(), RunStatus::Failed);
    assert_eq!(
        statuses(&world),
        [StepStatus::Failed, StepStatus::Cancelled]
    );
}

#[test]
fn with_continue_the_run_goes_on_and_the_step_reads_as_null() {
    let mut world = failing("continue");
    world.report("find", broken());
    assert_eq!(world.handed[1].args, json!({ "order": null }));
    world.report("tell", done(json!({})));
    assert_eq!(
        statuses(&world),
        [StepStatus::Failed, StepStatus::Completed]
    );
    let view = world.view();
    assert_eq!((view.status, view.failure), (RunStatus::Completed, None));
    assert_eq!(view.message, "1 step done, 1 failed.");
    assert_eq!(
        world.rows["find"].error_code.as_deref(),
        Some("http_status")
    );
}

#[test]
fn with_skip_rest_the_run_completes() {
    let mut world = failing("skip_rest");
    world.report("find", broken());
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(statuses(&world), [StepStatus::Failed, StepStatus::Skipped]);
    assert_eq!(
        world.event(EventType::StepSkipped).message,
        "Skipped: find failed."
    );
}

/// A failure during a pause takes effect on resume.
#[test]
fn a_pause_delays_what_follows_a_failure() {
    for on_error in ["continue", "skip_rest"] {
        let mut world = failing(on_error);
        world.ask("node-a", "find");
        world.pause();
        world.report("find", broken());
        assert!(!world.run().is_final());
        world.resume(ResumeMode::Continue);
        let went_on = world.handed.len() == 2 || world.status() == RunStatus::Completed;
        assert!(went_on, "{on_error}");
    }
}

/// S0-T2: the owners get the failed step with the context of a handoff, and complete it.
#[test]
fn with_handoff_the_owners_complete_the_step() {
    let mut world = failing("handoff");
    world.report("find", broken());
    assert_eq!(world.status(), RunStatus::Waiting);
    assert_eq!(world.phase("find").status(), StepStatus::Waiting);
    let (_, state) = world.holds.values().next().unwrap();
    let HoldState::Open { spec, .. } = state else {
        panic!("{state:?}")
    };
    assert!(spec.to.is_empty(), "the owners");
    let task = spec.task.as_ref().unwrap();
    assert_eq!(task.description, "find failed: The server answered 500.");
    assert!(spec.question.contains("ada@x.example") || spec.question.contains("ada"));
    let response = world.rows["find"].response.clone().unwrap();
    assert!(!response.success && response.data["task_id"].is_string());
    assert_eq!(world.report_as("find", 1, broken()), ResultReply::Known);
    let hold = world.run().people().next().unwrap().1.id;
    let data = json!({ "disposition": "return_to_agent", "notes": "Sent by hand." });
    world.close_as(hold, HoldOutcome::Completed, data);
    assert_eq!(world.phase("find").status(), StepStatus::Completed);
    assert_eq!(
        world.handed.len(),
        1,
        "it has no order, so the next step fails"
    );
    assert_eq!(world.view().failure.unwrap().code, "unresolved_placeholder");
}

#[test]
fn a_handoff_of_a_failed_step_ends_or_times_out() {
    let mut world = failing("handoff");
    world.report("find", broken());
    let mut late = world.clone();
    let hold = world.run().people().next().unwrap().1.id;
    world.close_as(
        hold,
        HoldOutcome::Completed,
        json!({ "disposition": "finish" }),
    );
    assert_eq!(world.status(), RunStatus::Completed);
    late.close_as(hold, HoldOutcome::Timeout, json!(null));
    assert_eq!(late.view().failure.unwrap().code, "human_timeout");
}

/// Not only tools fail.
#[test]
fn a_step_that_cannot_start_may_let_the_run_go_on() {
    let mut world = World::started(
        "  - id: ask\n    ask: { question: Go on?, timeout: 1h }\n    on_error: continue\n  - id: note\n    when: $ask.answer == null\n    tool: log\n    args: { message: $input.nobody }\n    on_error: continue\n",
    );
    let hold = world.run().people().next().unwrap().1.id;
    world.close_as(hold, HoldOutcome::Timeout, json!(null));
    assert_eq!(statuses(&world), [StepStatus::Failed, StepStatus::Failed]);
    assert_eq!(world.view().message, "0 steps done, 2 failed.");
}

/// Two steps start in one decision. The first one fails and skips the rest, so the second one never starts.
#[test]
fn skip_rest_skips_a_step_that_was_about_to_start() {
    let world = World::started(
        "  - id: one\n    tool: log\n    needs: []\n    on_error: skip_rest\n    args: { m: \"$contact.none\" }\n  - id: two\n    tool: log\n    needs: []\n    args: {}\n",
    );
    assert!(world.handed.is_empty(), "{:?}", world.handed);
    assert_eq!(statuses(&world), [StepStatus::Failed, StepStatus::Skipped]);
    assert_eq!(world.status(), RunStatus::Completed);
}

/// Two answers about uncertain steps are kept during a pause. The first one skips the rest.
#[test]
fn skip_rest_voids_a_kept_answer() {
    let step = |id: &str| {
        format!(
            "  - id: {id}\n    tool: own.pay\n    needs: []\n    on_error: skip_rest\n    args: {{}}\n"
        )
    };
    let mut world = World::started(&format!("{}{}", step("one"), step("two")));
    for id in ["one", "two"] {
        world.ask("node-a", id);
        world.lose(id);
    }
    world.pause();
    world.answer("one", Choice::GiveUp);
    world.answer("two", Choice::RunAgain);
    world.resume(ResumeMode::Continue);
    assert_eq!(statuses(&world), [StepStatus::Failed, StepStatus::Skipped]);
    assert_eq!(world.handed.len(), 2, "nothing was dispatched again");
}
