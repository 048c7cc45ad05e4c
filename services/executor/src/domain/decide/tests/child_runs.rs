//! Runs that the step of another run starts: the parent, and the child.

pub(super) mod children;
mod owned;

use chrono::TimeDelta;
use holdpoint_contracts::executor::{ChildRunEndReply, ChildRunState};
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::run::{HoldKind, ResumeMode, RunStatus};
use holdpoint_ids::RunId;
use serde_json::json;

use super::world::{Heard, World, child_end, done, owner};
use crate::domain::run::StepPhase;
use crate::domain::{RefusedChildRun, Reply, RunInput};

const ONE: &str = "
  - id: ask
    run: { agent: helper, input: { for: $input.customer } }
  - tool: log
    args: { message: \"$ask.output\", by: \"$ask.run\" }
";

const ALL: &str = "
  - id: ask
    run:
      all:
        - { agent: helper, input: { n: 1 } }
        - { agent: writer, input: { n: 2 } }
        - helper
  - tool: log
    args: { message: \"$ask\" }
";

const FIRST: &str = "
  - id: ask
    run: { first: [helper, writer, { agent: helper }], timeout: 1h, on_timeout: skip }
  - tool: log
    args: { message: \"$ask.agent\" }
";

/// The child runs of the step `ask`, in the order of the plan.
fn children(world: &World) -> Vec<RunId> {
    let runs = world.step("ask").child_runs.as_ref().unwrap();
    runs.runs.iter().map(|run| run.run).collect()
}

fn end(world: &mut World, child: RunId, status: RunStatus) -> ChildRunEndReply {
    let hold = world.children[&child].hold;
    let end = child_end(child, hold, status);
    match world.give(RunInput::ChildRunEnded(Box::new(end))) {
        Heard::Decided(Reply::ChildRunEnd(reply)) | Heard::Unchanged(Reply::ChildRunEnd(reply)) => {
            reply
        }
        other => panic!("{other:?}"),
    }
}

fn refuse(world: &mut World, place: u32, rev: u64) -> Heard {
    let hold = world.step("ask").child_runs.as_ref().unwrap().hold;
    world.give(RunInput::ChildRunRefused(Box::new(RefusedChildRun {
        hold,
        place,
        rev,
        code: "agent_paused".to_owned(),
        message: "`helper` was paused by owner".to_owned(),
    })))
}

/// The newest desired state of a child: `open`, `frozen` or `cancelled`.
fn newest_state(world: &World, child: RunId) -> String {
    let state = json!(world.children[&child].state);
    state.as_object().unwrap().keys().next().unwrap().clone()
}

fn failure(world: &World) -> String {
    world.view().failure.unwrap().code
}

#[test]
fn a_step_starts_a_run_and_its_output_is_the_result() {
    let mut world = World::started(ONE);
    let [child] = children(&world)[..] else {
        panic!()
    };
    let desired = &world.children[&child];
    assert_eq!(desired.agent.as_str(), "helper");
    let ChildRunState::Open { start, .. } = &desired.state else {
        panic!("{desired:?}");
    };
    assert_eq!(start.input, json!({ "for": "c-7" }));
    assert_eq!(start.by, owner());
    assert_eq!(json!(start.ancestors), json!(["outreach"]));
    assert_eq!(start.contact.as_ref().unwrap().as_str(), "ada");
    let view = world.view();
    assert_eq!(view.status, RunStatus::Waiting);
    assert_eq!(view.waiting_on[0].kind, HoldKind::ChildRun);
    assert_eq!(
        view.message,
        "ask: waiting for its runs, at most 90 days more."
    );
    assert_eq!(
        end(&mut world, child, RunStatus::Completed),
        ChildRunEndReply::Applied
    );
    let args = &world.handed[0].args;
    assert_eq!(*args, json!({ "message": { "of": child }, "by": child }));
    assert_eq!(
        end(&mut world, child, RunStatus::Failed),
        ChildRunEndReply::Ignored
    );
    world.report("step-02", done(json!({})));
    assert_eq!(
        end(&mut world, child, RunStatus::Failed),
        ChildRunEndReply::Ignored
    );
    assert_eq!(world.status(), RunStatus::Completed);
}

/// The id follows from the hold, so that a repeated start is the same run.
#[test]
fn the_ids_of_children_are_derived() {
    let (one, two) = (World::started(ALL), World::started(ALL));
    assert_eq!(children(&one), children(&two));
    let mut ids = children(&one);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[test]
fn all_runs_give_their_results_in_order() {
    let mut world = World::started(ALL);
    let ids = children(&world);
    for place in [2, 0] {
        end(&mut world, ids[place], RunStatus::Completed);
        assert!(matches!(world.phase("ask"), StepPhase::Waiting(_)));
    }
    end(&mut world, ids[1], RunStatus::Completed);
    let result = &world.values["ask"];
    let outputs: Vec<_> = (0..3)
        .map(|place| result[place]["output"]["of"].clone())
        .collect();
    assert_eq!(json!(outputs), json!(ids));
    assert_eq!(result[1]["agent"], "writer");
    assert_eq!(result[1]["status"], "completed");
    assert_eq!(result[1]["summary"], "That is all.");
    assert_eq!(world.handed[0].args["message"], **result);
}

#[test]
fn one_failed_run_fails_all_and_cancels_the_others() {
    for (status, code) in [
        (RunStatus::Failed, "child_failed"),
        (RunStatus::Cancelled, "child_cancelled"),
    ] {
        let mut world = World::started(ALL);
        let ids = children(&world);
        end(&mut world, ids[0], RunStatus::Completed);
        end(&mut world, ids[1], status);
        assert_eq!(failure(&world), code);
        let all: Vec<_> = ids.iter().map(|id| newest_state(&world, *id)).collect();
        // The ends of two are known, so only one gets another state.
        assert_eq!(all, ["open", "open", "cancelled"]);
    }
}

/// The owners do what a failed run could not. The other runs of the step are cancelled.
#[test]
fn the_owners_get_a_step_whose_run_failed() {
    let mut world = World::started(&ALL.replace("    run:", "    on_error: handoff\n    run:"));
    let runs = children(&world);
    end(&mut world, runs[0], RunStatus::Failed);
    assert_eq!(world.status(), RunStatus::Waiting);
    for other in &runs[1..] {
        assert_eq!(newest_state(&world, *other), "cancelled");
    }
    let hold = world.run().people().next().unwrap().1.id;
    let notes = json!({ "notes": "By hand.", "disposition": "return_to_agent" });
    world.close_as(hold, HoldOutcome::Completed, notes);
    assert_eq!(
        world.handed.last().unwrap().args["message"]["notes"],
        "By hand."
    );
}

#[test]
fn an_error_may_be_passed() {
    let mut world = World::started(&ALL.replace("    run:", "    on_error: continue\n    run:"));
    let ids = children(&world);
    end(&mut world, ids[0], RunStatus::Failed);
    assert_eq!(world.handed[0].args, json!({ "message": null }));
    assert_eq!(newest_state(&world, ids[1]), "cancelled");
}

#[test]
fn the_first_run_that_completes_wins() {
    let mut world = World::started(FIRST);
    let ids = children(&world);
    end(&mut world, ids[0], RunStatus::Failed);
    assert!(matches!(world.phase("ask"), StepPhase::Waiting(_)));
    end(&mut world, ids[1], RunStatus::Completed);
    assert_eq!(world.handed[0].args, json!({ "message": "writer" }));
    assert_eq!(newest_state(&world, ids[2]), "cancelled");
    // The cancelled run ends, too. The parent records its end, and the step keeps its result.
    assert_eq!(
        end(&mut world, ids[2], RunStatus::Cancelled),
        ChildRunEndReply::Applied
    );
    assert_eq!(
        end(&mut world, ids[2], RunStatus::Cancelled),
        ChildRunEndReply::Ignored
    );
}

#[test]
fn first_fails_only_when_no_run_is_left() {
    let mut world = World::started(FIRST);
    for id in children(&world) {
        end(&mut world, id, RunStatus::Cancelled);
    }
    assert_eq!(failure(&world), "child_cancelled");
    let message = world.view().failure.unwrap().message;
    assert_eq!(
        message,
        "ask: none of its 3 runs completed; the last one: That is all."
    );
}

#[test]
fn runs_that_do_not_end_in_time_are_cancelled() {
    let mut world = World::started(FIRST);
    world.fire_next();
    assert!(matches!(world.phase("ask"), StepPhase::Skipped { .. }));
    let ids = children(&world);
    assert!(
        ids.iter()
            .all(|id| newest_state(&world, *id) == "cancelled")
    );
    let mut world = World::started(ONE);
    world.fire_next();
    assert_eq!(failure(&world), "child_timeout");
}

#[test]
fn a_cancel_and_a_failure_pass_down() {
    let mut world = World::started(ALL);
    world.cancel();
    for id in children(&world) {
        let ChildRunState::Cancelled { reason } = &world.children[&id].state else {
            panic!();
        };
        assert!(reason.ends_with("was cancelled"), "{reason}");
    }
    let beside = format!(
        "{ALL}  - id: side\n    needs: []\n    tool: log\n    retry: none\n    args: {{ message: x }}\n"
    );
    let mut world = World::started(&beside);
    world.report("side", super::world::broken());
    assert_eq!(world.status(), RunStatus::Failed);
    assert!(
        children(&world)
            .iter()
            .all(|id| newest_state(&world, *id) == "cancelled")
    );
}

#[test]
fn a_pause_and_a_resume_pass_down() {
    let mut world = World::started(ALL);
    let ids = children(&world);
    end(&mut world, ids[0], RunStatus::Completed);
    world.pass(TimeDelta::hours(1));
    world.pause();
    let all = |world: &World| {
        ids.iter()
            .map(|id| newest_state(world, *id))
            .collect::<Vec<_>>()
    };
    assert_eq!(all(&world), ["open", "frozen", "frozen"]);
    let ChildRunState::Frozen { start, by } = &world.children[&ids[1]].state else {
        panic!();
    };
    assert_eq!(
        (start.input.clone(), by.as_str()),
        (json!({ "n": 2 }), "owner")
    );
    // An end counts during the pause.
    end(&mut world, ids[1], RunStatus::Completed);
    world.resume(ResumeMode::KeepDeadline);
    let ChildRunState::Open { mode, .. } = &world.children[&ids[2]].state else {
        panic!();
    };
    assert_eq!(*mode, ResumeMode::KeepDeadline);
    end(&mut world, ids[2], RunStatus::Completed);
    assert_eq!(world.handed.len(), 1);
}

/// The step completes during the pause, and the next one starts on resume.
#[test]
fn the_last_end_during_a_pause_takes_effect_on_resume() {
    let mut world = World::started(ONE);
    let [child] = children(&world)[..] else {
        panic!()
    };
    world.pause();
    end(&mut world, child, RunStatus::Completed);
    assert!(world.handed.is_empty());
    world.resume(ResumeMode::Continue);
    assert_eq!(world.handed.len(), 1);
}

#[test]
fn a_refused_start_fails_the_step_with_its_code() {
    let mut world = World::started(ONE);
    let rev = world.run().version;
    assert!(matches!(refuse(&mut world, 7, rev), Heard::Unchanged(_)));
    refuse(&mut world, 0, rev);
    assert_eq!(failure(&world), "agent_paused");
    assert!(matches!(refuse(&mut world, 0, rev), Heard::Unchanged(_)));
    let mut world = World::started(FIRST);
    refuse(&mut world, 0, rev);
    assert!(matches!(world.phase("ask"), StepPhase::Waiting(_)));
}

/// A newer desired state is on its way, and has an answer of its own.
#[test]
fn the_refusal_of_an_older_desired_state_changes_nothing() {
    let mut world = World::started(ONE);
    let rev = world.run().version;
    world.pause();
    assert!(matches!(refuse(&mut world, 0, rev), Heard::Unchanged(_)));
    let rev = world.run().version;
    refuse(&mut world, 0, rev);
    assert_eq!(failure(&world), "agent_paused");
}

#[test]
fn a_retry_starts_new_runs() {
    let mut world = World::started(ONE);
    let [child] = children(&world)[..] else {
        panic!()
    };
    end(&mut world, child, RunStatus::Failed);
    assert_eq!(world.status(), RunStatus::Failed);
    let by = owner();
    world.give(RunInput::Retry { by, from: None });
    let [again] = children(&world)[..] else {
        panic!()
    };
    assert_ne!(child, again);
    assert_eq!(
        end(&mut world, child, RunStatus::Completed),
        ChildRunEndReply::Ignored
    );
    assert_eq!(
        end(&mut world, again, RunStatus::Completed),
        ChildRunEndReply::Applied
    );
}

#[test]
fn what_children_use_counts_in_the_budget() {
    let plan = format!(
        "agent: outreach\nlimits: {{ budget: {{ steps: 5, cost: 2, to: \"@role.ops\" }} }}\nsteps:{ALL}"
    );
    let plan = crate::domain::plan::Plan::compile(&plan).unwrap();
    let mut world = World::of_plan(plan);
    world.start();
    let ids = children(&world);
    let ChildRunState::Open { start, .. } = &world.children[&ids[0]].state else {
        panic!();
    };
    let left = start.budget.as_ref().unwrap();
    assert_eq!((left.steps, left.cost), (Some(5), Some(2.0)));
    assert_eq!(left.to, ["@role.ops"]);
    for id in &ids {
        end(&mut world, *id, RunStatus::Completed);
    }
    let spent = world.view().spent.unwrap();
    assert_eq!((spent.steps, spent.cost), (6, 1.5));
    // The next call of a tool waits for a person.
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    assert!(world.handed.is_empty());
}

#[test]
fn outputs_that_are_too_large_together_fail_the_step() {
    let mut world = World::started(ALL);
    let large = json!("x".repeat(90 * 1024));
    for id in children(&world) {
        let hold = world.children[&id].hold;
        let mut end = child_end(id, hold, RunStatus::Completed);
        end.output = large.clone();
        world.give(RunInput::ChildRunEnded(Box::new(end)));
    }
    assert_eq!(failure(&world), "result_too_large");
}

/// Once they are too large, no further end is awaited and no output is loaded.
#[test]
fn outputs_that_are_too_large_cancel_the_open_runs() {
    let mut world = World::started(ALL);
    let ids = children(&world);
    for id in &ids[..2] {
        let hold = world.children[id].hold;
        let mut end = child_end(*id, hold, RunStatus::Completed);
        end.output = json!("x".repeat(150 * 1024));
        world.give(RunInput::ChildRunEnded(Box::new(end)));
    }
    assert_eq!(failure(&world), "result_too_large");
    assert_eq!(newest_state(&world, ids[2]), "cancelled");
}

/// The kernel decides many inputs before it stores their rows.
#[test]
fn a_pause_in_the_batch_of_the_start_keeps_the_inputs() {
    let mut world = World::of(ONE);
    world.begin_batch();
    world.start();
    let [child] = children(&world)[..] else {
        panic!()
    };
    world.pause();
    let ChildRunState::Frozen { start, .. } = &world.children[&child].state else {
        panic!("{:?}", world.children[&child]);
    };
    assert_eq!(start.input, json!({ "for": "c-7" }));
}

/// An end of a run that is not known, or that names another child, changes nothing.
#[test]
fn strange_ends_are_ignored() {
    let mut world = World::started(ALL);
    let ids = children(&world);
    let hold = world.children[&ids[0]].hold;
    for (child, number) in [(super::world::run_id(), hold.number), (ids[0], 77)] {
        let other = holdpoint_ids::HoldId { number, ..hold };
        let end = child_end(child, other, RunStatus::Completed);
        let heard = world.give(RunInput::ChildRunEnded(Box::new(end)));
        let ignored = Heard::Unchanged(Reply::ChildRunEnd(ChildRunEndReply::Ignored));
        assert_eq!(format!("{heard:?}"), format!("{ignored:?}"));
    }
}
