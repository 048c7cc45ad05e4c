//! Steps with `for_each` (S2-R9).

use chrono::TimeDelta;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{ApprovalItem, HoldOutcome, HoldState};
use holdpoint_contracts::run::{ResumeMode, RunStatus, StepStatus};
use holdpoint_contracts::steps::ResultReply;
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use super::approvals::start_as;
use super::world::{Heard, World, broken, done, owner, start_input};
use crate::domain::RunInput;
use crate::domain::run::StepPhase;

/// Three items, two at a time.
const THREE: &str = "
  - for_each: [a, b, c]
    parallel: 2
    tool: log
    args: { message: $item }
  - tool: log
    args: { message: $step-01 }
";

fn sent_for(world: &World, step: &str) -> Value {
    let sent = world.handed.iter().rev().find(|out| out.step == step);
    sent.unwrap_or_else(|| panic!("{step} was not dispatched"))
        .args["message"]
        .clone()
}

fn queued(world: &World) -> Vec<&str> {
    let steps = world.run().steps.iter();
    let queued = steps.filter(|step| matches!(step.phase, StepPhase::Queued(_)));
    queued.map(|step| step.id.as_str()).collect()
}

fn retry(world: &mut World, from: Option<&str>) -> Heard {
    world.give(RunInput::Retry {
        by: owner(),
        from: from.map(str::to_owned),
    })
}

/// The results gather in the order of the items, whatever order they come in, and never more children are in
/// progress than allowed.
#[test]
fn results_gather_in_the_order_of_the_items() {
    let mut world = World::started(THREE);
    assert_eq!(queued(&world), ["step-01-0", "step-01-1"]);
    assert_eq!(sent_for(&world, "step-01-1"), "b");
    world.report("step-01-1", done(json!({ "was": "b" })));
    assert_eq!(queued(&world), ["step-01-0", "step-01-2"]);
    world.report("step-01-2", done(json!({ "was": "c" })));
    world.report("step-01-0", done(json!({ "was": "a" })));
    let all = json!([{ "was": "a" }, { "was": "b" }, { "was": "c" }]);
    assert_eq!(sent_for(&world, "step-02"), all);
    assert_eq!(world.rows["step-01"].response.as_ref().unwrap().data, all);
    assert_eq!(
        world.run().steps.len(),
        2,
        "children that have ended are not kept"
    );
    world.report("step-02", done(Value::Null));
    assert_eq!(world.status(), RunStatus::Completed);
    let end = world.event(EventType::RunCompleted);
    assert_eq!(end.message, "2 steps done.");
}

/// A repeated or late report of a child that has ended changes nothing.
#[test]
fn a_child_ends_once() {
    let mut world = World::started(THREE);
    world.report("step-01-0", done(Value::Null));
    for dispatch in [0, 1, 2] {
        let again = world.report_as("step-01-0", dispatch, done(json!("other")));
        assert_eq!(again, ResultReply::Known);
    }
    let unknown = RunInput::StepParks {
        step: "step-01-3".to_owned(),
        dispatch: 1,
        duration_ms: 0,
    };
    assert!(matches!(world.give(unknown), Heard::Refused(_)));
}

#[test]
fn no_items_are_a_success() {
    let world = World::started(
        "
  - for_each: []
    tool: log
    args: { message: $item }
  - tool: log
    args: { message: $step-01 }
",
    );
    assert_eq!(sent_for(&world, "step-02"), json!([]));
}

#[test]
fn what_is_not_a_list_of_items_fails_the_step() {
    for (items, code) in [
        ("$input.customer", "items_not_an_array"),
        ("$input", "items_not_an_array"),
        ("$input.go", "items_not_an_array"),
        ("$input.nothing", "unresolved_placeholder"),
    ] {
        let world = World::started(&format!(
            "  - for_each: {items}\n    tool: log\n    args: {{ message: $item }}\n"
        ));
        assert_eq!(world.status(), RunStatus::Failed);
        assert_eq!(world.rows["step-01"].error_code.as_deref(), Some(code));
    }
}

/// The hardest order: each of 10,000 children fails in the decision that begins it.
#[test]
fn ten_thousand_children_that_fail_at_once_end_in_one_decision() {
    let mut world = World::of(
        "
  - for_each: $input.items
    tool: log
    args: { message: $item.nothing }
    on_error: continue
  - tool: log
    args: { message: $step-01 }
",
    );
    for (count, is_ok) in [(10_000, true), (10_001, false)] {
        let items: Vec<_> = (0..count).collect();
        let mut world = world.clone();
        let mut input = start_input();
        let RunInput::Start { input: given, .. } = &mut input else {
            panic!()
        };
        *given = json!({ "items": items });
        world.give(input);
        let code = world.rows["step-01"].error_code.as_deref();
        assert_eq!(code, (!is_ok).then_some("too_many_items"));
        if is_ok {
            assert_eq!(sent_for(&world, "step-02").as_array().unwrap().len(), count);
            assert_eq!(world.run().steps.len(), 2);
        }
    }
    world.start();
}

/// A limit of items for each step would not bound a run with many of them.
#[test]
fn all_fan_outs_of_a_run_have_a_limit_together() {
    let step = |number: u32| {
        format!(
            "  - id: s{number}\n    for_each: $input.items\n    tool: log\n    args: {{ message: $item }}\n    needs: []\n    on_error: continue\n"
        )
    };
    let steps: String = (1..=6).map(step).collect();
    let mut world = World::of(&steps);
    let mut input = start_input();
    let RunInput::Start { input: given, .. } = &mut input else {
        panic!()
    };
    *given = json!({ "items": (0..10_000).collect::<Vec<_>>() });
    world.give(input);
    let code = |step: &str| world.rows[step].error_code.as_deref();
    assert_eq!((code("s5"), code("s6")), (None, Some("too_many_items")));
}

/// A child that fails fails its step and the run. A retry continues with what has not ended.
#[test]
fn a_retry_continues_with_the_children_that_have_not_ended() {
    let mut world = World::started(&THREE.replace("log", "send_email"));
    world.report("step-01-0", done(json!(0)));
    world.report("step-01-1", broken());
    assert_eq!(world.status(), RunStatus::Failed);
    assert_eq!(world.rows["step-01"].status, StepStatus::Failed);
    assert_eq!(world.rows["step-01-1"].status, StepStatus::Failed);
    assert_eq!(world.rows["step-01-2"].status, StepStatus::Cancelled);
    let sent = world.handed.len();
    assert!(matches!(retry(&mut world, None), Heard::Decided(_)));
    assert_eq!(queued(&world), ["step-01-1", "step-01-2"]);
    assert_eq!(world.handed.len(), sent + 2);
    world.report("step-01-1", done(json!(1)));
    world.report("step-01-2", done(json!(2)));
    assert_eq!(sent_for(&world, "step-02"), json!([0, 1, 2]));
}

/// A retry in which all that is left fails at once still has the results of before.
#[test]
fn a_retry_that_ends_the_step_at_once_keeps_its_results() {
    let mut world = World::started(
        "
  - for_each: [a, b, c]
    parallel: 1
    on_error: continue
    tool: send_email
    args: { to: \"{{ contact.email }}\" }
  - needs: []
    tool: send_email
    retry: none
  - needs: [step-01]
    tool: log
    args: { message: $step-01 }
",
    );
    world.report("step-01-0", done(json!("first")));
    world.report("step-02", broken());
    assert_eq!(world.status(), RunStatus::Failed);
    world.contact = Some(json!({ "id": "ada" }));
    retry(&mut world, None);
    assert_eq!(sent_for(&world, "step-03"), json!(["first", null, null]));
}

/// A retry from the step itself begins all children anew. No report of an earlier dispatch counts for them.
#[test]
fn a_retry_from_the_step_begins_all_children_anew() {
    let mut world = World::started(&THREE.replace("log", "send_email"));
    world.report("step-01-0", done(json!(0)));
    world.report("step-01-1", broken());
    assert!(matches!(
        retry(&mut world, Some("step-01-1")),
        Heard::Refused(_)
    ));
    retry(&mut world, Some("step-01"));
    assert_eq!(queued(&world), ["step-01-1", "step-01-0"]);
    assert_eq!(world.dispatch("step-01-0"), 2);
    assert_eq!(world.rows["step-01-0"].response, None);
    let late = world.report_as("step-01-0", 1, done(json!("old")));
    assert_eq!(late, ResultReply::Late);
    for (step, result) in [("step-01-0", 10), ("step-01-1", 11), ("step-01-2", 12)] {
        world.report(step, done(json!(result)));
    }
    assert_eq!(sent_for(&world, "step-02"), json!([10, 11, 12]));
}

/// `on_error` of the step is that of each child.
#[test]
fn a_failed_child_may_let_the_others_go_on() {
    let steps = THREE.replace(
        "parallel: 2",
        "parallel: 2\n    on_error: continue\n    retry: none",
    );
    let mut world = World::started(&steps);
    world.report("step-01-0", broken());
    world.report("step-01-1", done(json!(1)));
    world.report("step-01-2", done(json!(2)));
    assert_eq!(sent_for(&world, "step-02"), json!([null, 1, 2]));

    let mut world = World::started(&steps.replace("continue", "skip_rest"));
    world.report("step-01-0", broken());
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(world.rows["step-01-1"].status, StepStatus::Skipped);
    assert_eq!(world.rows["step-01"].status, StepStatus::Skipped);

    let mut world = World::started(&steps.replace("continue", "handoff"));
    world.report("step-01-0", broken());
    let hold = world.run().people().next().unwrap().1.id;
    let by_hand = json!({ "notes": "by hand", "disposition": "return_to_agent" });
    world.close_as(hold, HoldOutcome::Completed, by_hand);
    world.report("step-01-1", done(json!(1)));
    world.report("step-01-2", done(json!(2)));
    let results = sent_for(&world, "step-02");
    assert_eq!(results[0]["notes"], "by hand");
    assert_eq!(results[2], 2);
}

/// Each child of a gated step asks for itself, and a rejected one is null.
#[test]
fn each_child_needs_its_own_approval() {
    let mut world = World::started(&THREE.replace(
        "parallel: 2",
        "parallel: 2\n    approval: { from: \"@user.ada\" }",
    ));
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
    assert!(world.handed.is_empty());
    let open: Vec<_> = world.run().people().map(|(_, on)| on.id).collect();
    assert_eq!(open.len(), 2);
    world.close_as(open[0], HoldOutcome::Rejected, json!("not this one"));
    world.close_as(open[1], HoldOutcome::Approved, Value::Null);
    assert_eq!(queued(&world), ["step-01-1"]);
    world.report("step-01-1", done(json!(1)));
    let third = world.run().people().next().unwrap().1.id;
    world.close_as(third, HoldOutcome::Approved, Value::Null);
    world.report("step-01-2", done(json!(2)));
    assert_eq!(sent_for(&world, "step-02"), json!([null, 1, 2]));
}

/// A pause stops all children, a resume starts them again, and a cancel ends them.
#[test]
fn a_pause_and_a_cancel_reach_every_child() {
    let mut world = World::started(THREE);
    world.pause();
    world.report("step-01-0", done(json!(0)));
    assert_eq!(world.handed.len(), 2, "nothing begins while paused");
    world.resume(ResumeMode::Continue);
    assert_eq!(queued(&world), ["step-01-1", "step-01-2"]);
    world.cancel();
    for step in ["step-01", "step-01-1", "step-01-2"] {
        assert_eq!(world.rows[step].status, StepStatus::Cancelled, "{step}");
    }
    assert_eq!(world.rows["step-01-0"].status, StepStatus::Completed);
}

/// The results of all children must fit one result, but only if a step uses them.
#[test]
fn results_that_are_too_large_fail_the_step_if_another_uses_them() {
    let large = json!("x".repeat(100_000));
    let report = |world: &mut World| {
        for step in ["step-01-0", "step-01-1", "step-01-2"] {
            world.report(step, done(large.clone()));
        }
    };
    let mut world = World::started(THREE);
    report(&mut world);
    assert_eq!(world.status(), RunStatus::Failed);
    let code = world.rows["step-01"].error_code.as_deref();
    assert_eq!(code, Some("result_too_large"));
    let mut world = World::started(&THREE.replace("$step-01", "done"));
    report(&mut world);
    let data = &world.rows["step-01"].response.as_ref().unwrap().data;
    assert_eq!(data, &json!({ "omitted": true, "bytes": 300_010 }));
    assert_eq!(queued(&world), ["step-02"]);
}

/// A worker is lost: the child is taken over, or people are asked about it alone.
#[test]
fn a_lost_child_is_dispatched_again_or_asked_about() {
    let mut world = World::started(THREE);
    world.ask("node-a", "step-01-0");
    world.lose("step-01-0");
    assert_eq!(world.dispatch("step-01-0"), 2);
    let mut world = World::started(&THREE.replace("log", "send_email"));
    world.ask("node-a", "step-01-0");
    world.lose("step-01-0");
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    assert!(matches!(world.phase("step-01-1"), StepPhase::Queued(_)));
}

/// A fan-out that a retry has given up does not continue with old items when the step before it fails once more.
#[test]
fn a_fan_out_that_was_given_up_begins_with_fresh_items() {
    let mut world = World::started(
        "
  - id: list
    tool: log
    args: { message: hi }
    retry: none
  - id: each
    for_each: $list
    tool: log
    args: { message: $item }
  - id: last
    tool: log
    args: { message: $each }
    retry: none
",
    );
    world.report("list", done(json!(["old"])));
    world.report("each-0", done(json!("done")));
    world.report("last", broken());
    retry(&mut world, Some("list"));
    world.report("list", broken());
    assert_eq!(world.status(), RunStatus::Failed);
    retry(&mut world, None);
    assert_eq!(queued(&world), ["list"]);
    world.report("list", done(json!(["new"])));
    assert_eq!(sent_for(&world, "each-0"), "new");
}

/// While the source of a revision runs again, no child begins without its result.
#[test]
fn children_wait_for_a_source_that_is_revised() {
    let mut world = World::started(
        "
  - id: draft
    tool: llm.write
    args: { about: x }
  - id: mail
    needs: [draft]
    for_each: [a, b]
    parallel: 1
    tool: log
    args: { message: $draft.text }
  - id: publish
    needs: [draft]
    tool: web.publish
    args: { text: $draft.text }
    approval: {}
",
    );
    world.report("draft", done(json!({ "text": "first" })));
    let hold = world.step("publish").approval.as_ref().unwrap().hold;
    world.close_as(hold, HoldOutcome::Revised, json!("shorter"));
    world.report("mail-0", done(Value::Null));
    assert_eq!(queued(&world), ["draft"]);
    world.report("draft", done(json!({ "text": "second" })));
    assert_eq!(sent_for(&world, "mail-1"), "second");
}

/// The open requests of gated calls, in their order.
fn asked_calls(world: &World) -> Vec<(HoldId, ApprovalItem)> {
    let open = world
        .holds
        .iter()
        .filter_map(|(id, (_, state))| match state {
            HoldState::Open { spec, .. } => Some((*id, spec.items.first()?.clone())),
            HoldState::Frozen { .. } | HoldState::Withdrawn { .. } | HoldState::Erased { .. } => {
                None
            }
        });
    open.collect()
}

/// Gate: gated calls name their step. People are notified of the first open one; a call that is asked again notifies
/// them again.
#[test]
fn gated_calls_share_a_notification() {
    let mut world = World::started(
        "
  - id: pay
    for_each: [a, b, c]
    parallel: 2
    tool: send_email
    args: { to: $item }
    approval: { valid_for: 1h }
",
    );
    let asked = asked_calls(&world);
    let parents = asked.iter().map(|(_, item)| item.parent.as_deref());
    assert!(parents.eq([Some("pay"), Some("pay")]));
    let [(first, one), (second, other)] = asked.as_slice() else {
        panic!("{asked:?}");
    };
    assert_eq!(
        (one.notified_with, other.notified_with),
        (None, Some(*first))
    );
    world.close_as(*first, HoldOutcome::Rejected, json!("no"));
    let calls = asked_calls(&world);
    let third = calls.iter().find(|(_, item)| item.id == "pay-2").unwrap();
    // The notification of the second one was that of the first, which has ended.
    assert_eq!(third.1.notified_with, None);
    // It expires before a worker starts it.
    world.close_as(*second, HoldOutcome::Approved, json!(null));
    world.pass(TimeDelta::hours(2));
    start_as(&mut world, "pay-1", false);
    let calls = asked_calls(&world);
    let again = calls.iter().rev().find(|(_, item)| item.id == "pay-1");
    assert_eq!(again.unwrap().1.notified_with, None);
}
