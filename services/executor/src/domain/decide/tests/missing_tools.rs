//! People are asked about a queued step whose tool no node offers.

use holdpoint_contracts::asking::ToolQuestion;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{HoldOutcome, HoldState};
use holdpoint_contracts::run::{FailureClass, ResumeMode, RunStatus, StepStatus};
use holdpoint_ids::HoldId;
use serde_json::json;

use super::world::{World, done, owner};
use crate::domain::{DeliveredStep, RunInput};

fn missing(world: &mut World, dispatch: u64) {
    look(world, dispatch, false);
}

fn look(world: &mut World, dispatch: u64, is_offered: bool) {
    look_at(world, "pay", dispatch, is_offered);
}

fn look_at(world: &mut World, step: &str, dispatch: u64, is_offered: bool) {
    world.give(RunInput::ToolAvailability {
        step: step.to_owned(),
        dispatch,
        tool: "own.pay".parse().unwrap(),
        is_offered,
    });
}

fn queued(on_error: &str) -> World {
    let world = World::started(&format!(
        "  - {{ id: pay, tool: own.pay, on_error: {on_error} }}\n  - {{ id: after, tool: log }}\n"
    ));
    assert_eq!(world.status(), RunStatus::Running);
    world
}

fn asked(world: &World) -> HoldId {
    world.step("pay").missing_tool().unwrap().id
}

#[test]
fn people_are_asked_once_for_each_dispatch() {
    let mut world = queued("fail");
    missing(&mut world, 9);
    assert_eq!(world.status(), RunStatus::Running, "of another dispatch");
    missing(&mut world, 1);
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    let item = world.event(EventType::RunAwaitingInput);
    assert!(
        item.message
            .contains("offers the tool own.pay, so pay waits since 2026-")
    );
    assert_eq!(item.data["reason"], "tool_missing");
    assert_eq!(world.view().waiting_on[0].id, asked(&world));
    missing(&mut world, 1);
    world.close_as(asked(&world), HoldOutcome::Answered, json!("keep waiting"));
    missing(&mut world, 1);
    assert_eq!(world.status(), RunStatus::Running);
    assert_eq!(world.run().holds, 1);
    assert_eq!(world.step("pay").phase.status(), StepStatus::Queued);
}

#[test]
fn a_step_that_starts_withdraws_the_question() {
    for starts in [Some(true), Some(false), None] {
        let mut world = queued("fail");
        missing(&mut world, 1);
        let hold = asked(&world);
        if let Some(without_lease) = starts {
            world.give(RunInput::StartStep(DeliveredStep {
                node: "node-a".parse().unwrap(),
                step: "pay".to_owned(),
                dispatch: 1,
                delivery: 1,
                without_lease,
                is_high_risk: false,
                is_idempotent: false,
            }));
            assert_eq!(world.step("pay").phase.status(), StepStatus::InProgress);
        } else {
            world.report("pay", done(json!({ "n": 1 })));
        }
        assert!(world.run().person_hold(hold).is_none());
        assert_withdrawn(&world, hold);
        missing(&mut world, 1);
        assert_eq!(world.status(), RunStatus::Running);
    }
}

fn assert_withdrawn(world: &World, hold: HoldId) {
    let (_, state) = &world.holds[&hold];
    assert!(matches!(state, HoldState::Withdrawn { .. }), "{state:?}");
}

#[test]
fn a_node_that_offers_the_tool_again_withdraws_the_question() {
    let mut world = queued("fail");
    look(&mut world, 1, true);
    assert_eq!(world.run().holds, 0);
    missing(&mut world, 1);
    let hold = asked(&world);
    look(&mut world, 1, true);
    assert_withdrawn(&world, hold);
    assert_eq!(world.status(), RunStatus::Running);
    missing(&mut world, 1);
    assert_ne!(asked(&world), hold, "it is missing once more");
}

/// The tool began without a grant, and its question replaces the one about the tool.
#[test]
fn a_question_of_the_tool_withdraws_the_question_about_it() {
    let mut world = queued("fail");
    missing(&mut world, 1);
    let hold = asked(&world);
    world.give(RunInput::AskPeople {
        by: owner(),
        step: Some("pay".to_owned()),
        dispatch: Some(1),
        question: Box::new(ToolQuestion::new("Which account?")),
    });
    assert_withdrawn(&world, hold);
    let (_, open) = world.run().people().next().unwrap();
    assert_eq!(open.asks, "Which account?");
}

#[test]
fn a_question_that_ends_without_an_answer_is_asked_again() {
    let mut world = queued("fail");
    missing(&mut world, 1);
    let hold = asked(&world);
    world.close_as(hold, HoldOutcome::Cancelled, json!(null));
    assert_eq!(world.status(), RunStatus::Running);
    missing(&mut world, 1);
    assert_ne!(asked(&world), hold);
}

#[test]
fn a_person_may_fail_the_step() {
    let mut world = queued("fail");
    missing(&mut world, 1);
    world.close_as(asked(&world), HoldOutcome::Answered, json!("fail the step"));
    let failure = world.view().failure.unwrap();
    assert_eq!(
        (failure.code.as_str(), failure.class),
        ("tool_missing", FailureClass::Infra)
    );

    let mut world = queued("continue");
    missing(&mut world, 1);
    world.close_as(asked(&world), HoldOutcome::Answered, json!("fail the step"));
    assert_eq!(world.step("pay").phase.status(), StepStatus::Failed);
    assert_eq!(world.step("after").phase.status(), StepStatus::Queued);
}

#[test]
fn a_paused_run_asks_no_person_and_keeps_an_answer_for_later() {
    let mut world = queued("fail");
    world.pause();
    missing(&mut world, 1);
    assert_eq!(world.run().holds, 0);
    world.resume(ResumeMode::Continue);
    let dispatch = world.dispatch("pay");
    missing(&mut world, dispatch);
    let hold = asked(&world);
    world.pause();
    world.close_as(hold, HoldOutcome::Answered, json!("fail the step"));
    assert_eq!(world.step("pay").phase.status(), StepStatus::Queued);
    world.resume(ResumeMode::Continue);
    assert_eq!(world.status(), RunStatus::Failed);
}

/// Gate 1, S2-R9: one question is for all items of a fan-out, and so is its answer.
#[test]
fn people_are_asked_once_for_all_items() {
    let plan = |on_error: &str| {
        format!(
            "  - {{ id: pay, for_each: [a, b, c], parallel: 2, tool: own.pay, on_error: {on_error} }}\n"
        )
    };
    let missing_for = |world: &mut World, item: &str| {
        let dispatch = world.dispatch(item);
        look_at(world, item, dispatch, false);
    };
    let hold_of = |world: &World| world.step("pay-0").missing_tool().unwrap().id;
    let mut world = World::started(&plan("fail"));
    missing_for(&mut world, "pay-0");
    missing_for(&mut world, "pay-1");
    assert_eq!(world.run().holds, 1);
    let hold = hold_of(&world);
    world.close_as(hold, HoldOutcome::Answered, json!("keep waiting"));
    missing_for(&mut world, "pay-1");
    missing_for(&mut world, "pay-0");
    assert_eq!(world.run().holds, 1, "the answer is for both");

    let mut world = World::started(&plan("continue"));
    missing_for(&mut world, "pay-1");
    missing_for(&mut world, "pay-0");
    let hold = world.step("pay-1").missing_tool().unwrap().id;
    world.close_as(hold, HoldOutcome::Answered, json!("fail the step"));
    let steps = world.run().steps.iter();
    let queued = steps.filter(|step| step.phase.status() == StepStatus::Queued);
    let queued: Vec<_> = queued.map(|step| step.id.as_str()).collect();
    assert_eq!(
        queued,
        ["pay-2"],
        "both items have failed, and the third one starts"
    );

    let mut world = World::started(&plan("fail"));
    missing_for(&mut world, "pay-0");
    world.close_as(
        hold_of(&world),
        HoldOutcome::Answered,
        json!("fail the step"),
    );
    assert_eq!(world.status(), RunStatus::Failed);
}
