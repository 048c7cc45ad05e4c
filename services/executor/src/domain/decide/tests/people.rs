//! Steps that ask people: questions and handoffs, and operators who take over.

mod asking;
mod handing;
mod responses;

use chrono::TimeDelta;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{
    Assign, CloseReply, HoldOutcome, HoldSpec, HoldState, OnTimeout, Priority,
};
use holdpoint_contracts::run::{FailureClass, HoldKind, ResumeMode, RunStatus, StepStatus};
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use super::world::{Heard, World, closing};
use crate::domain::RunInput;
use crate::domain::plan::Plan;

const ASK: &str = "  - id: q
    ask: { to: \"@user.owner\", question: \"Tell {{ contact.email }}?\", options: [\"yes\", \"no\"], timeout: 1h }
  - id: after
    when: $q.answer == \"yes\"
    tool: log
    args: { message: \"{{ $q.answer }}\" }
";

fn ask(more: &str) -> World {
    World::started(&ASK.replace(", timeout: 1h", more))
}

pub(super) fn hold(world: &World) -> HoldId {
    world
        .run()
        .people()
        .next()
        .expect("something is asked")
        .1
        .id
}

pub(super) fn state(world: &World, id: HoldId) -> &HoldState {
    &world.holds[&id].1
}

pub(super) fn spec(world: &World) -> &HoldSpec {
    match state(world, hold(world)) {
        HoldState::Open { spec, .. } | HoldState::Frozen { spec, .. } => spec,
        HoldState::Withdrawn { reason, .. } => panic!("gone: {reason}"),
        HoldState::Erased { .. } => panic!("erased"),
    }
}

fn answer(world: &mut World, data: Value) -> CloseReply {
    world.close_as(hold(world), HoldOutcome::Answered, data)
}

fn time_out(world: &mut World) -> CloseReply {
    world.close_as(hold(world), HoldOutcome::Timeout, Value::Null)
}

/// S3-R1, S3-R3, S3-R9: asks, waits, goes on with the answer.
#[test]
fn a_question_is_put_and_its_answer_is_the_result() {
    let mut world = World::started(ASK);
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    let asked = spec(&world).clone();
    assert_eq!(
        (asked.kind, asked.on_timeout),
        (HoldKind::Input, OnTimeout::Fail)
    );
    assert_eq!(
        asked.question, "Tell ada@x.example?",
        "placeholders are filled in"
    );
    assert_eq!(asked.options, ["yes", "no"]);
    assert_eq!(asked.to, ["@user.owner"]);
    let deadline = world.now + TimeDelta::hours(1);
    assert!(
        matches!(state(&world, hold(&world)), HoldState::Open { deadline: Some(due), .. } if *due == deadline)
    );
    let view = world.view();
    assert_eq!(view.questions[0].question, "Tell ada@x.example?");
    assert_eq!(view.waiting_on[0].asked, ["@user.owner"]);
    let event = world.event(EventType::RunAwaitingInput);
    assert_eq!(
        event.data["questions"][0]["schema"]["enum"],
        json!(["yes", "no"])
    );
    world.pass(TimeDelta::minutes(5));
    let id = hold(&world);
    assert_eq!(answer(&mut world, json!("yes")), CloseReply::Applied);
    assert_eq!(world.handed[0].args, json!({ "message": "yes" }));
    assert_eq!(world.view().clocks.human_ms, 300_000);
    assert_eq!(world.event(EventType::InputAnswered).data["by"], "ada");
    let result = &world.rows["q"].response.as_ref().unwrap().data;
    assert_eq!(result["continuation"], "User responded: yes", "S3-R4");
    assert_eq!(result["question_id"], json!(id), "S3-R4");
    let again = world.close_as(id, HoldOutcome::Answered, json!("no"));
    assert_eq!(again, CloseReply::Applied, "twice is once");
}

/// S3-R5
#[test]
fn time_up_fails_skips_or_takes_the_default() {
    let mut world = ask("");
    assert_eq!(spec(&world).kind, HoldKind::Input);
    time_out(&mut world);
    let failure = world.view().failure.unwrap();
    assert_eq!(failure.class, FailureClass::HumanTimeout);
    assert_eq!(failure.code, "human_timeout");
    // Mend C-1: the end replaces what was said when the question was put.
    let response = world.rows["q"].response.as_ref().unwrap();
    assert_eq!((response.success, response.duration_ms), (false, 300_000));
    assert!(response.error.is_some(), "{response:?}");
    assert!(
        failure
            .message
            .contains("@user.owner did not answer within 5 minutes"),
        "S3-R1, the default time: {}",
        failure.message
    );
    let mut world = World::started(
        "  - id: q\n    ask: { question: \"Go on?\", on_timeout: skip }\n  - wait: 1 day\n",
    );
    time_out(&mut world);
    assert_eq!(world.rows["q"].status, StepStatus::Skipped);
    assert!(!world.rows["q"].response.as_ref().unwrap().success, "C-1");
    assert_eq!(world.status(), RunStatus::Waiting);
    let mut world = ask(", on_timeout: default, default: \"yes\"");
    time_out(&mut world);
    assert_eq!(world.handed[0].args, json!({ "message": "yes" }));
    assert_eq!(world.event(EventType::InputAnswered).data["by"], "timeout");
}

/// S0-AC4: frozen by a pause, the answer is kept and takes effect on resume.
#[test]
fn a_paused_question_is_frozen_and_its_answer_kept() {
    let mut world = World::started(ASK);
    let id = hold(&world);
    world.pass(TimeDelta::minutes(20));
    world.pause();
    let left = 40 * 60_000;
    assert!(
        matches!(state(&world, id), HoldState::Frozen { remaining_ms: Some(ms), .. } if *ms == left)
    );
    assert_eq!(
        world.view().message,
        "Paused by owner; input hold has 40 minutes left."
    );
    world.pass(TimeDelta::days(2));
    assert_eq!(answer(&mut world, json!("yes")), CloseReply::OnResume);
    let second = world.close_as(id, HoldOutcome::Answered, json!("no"));
    assert_eq!(second, CloseReply::OnResume, "the first one counts");
    assert!(world.handed.is_empty());
    world.resume(ResumeMode::Continue);
    assert_eq!(world.handed[0].args, json!({ "message": "yes" }));
}

/// Races: a pause keeps no timeout. On resume it is asked until what is left of the time is over, and
/// the owner says again that it is, where it is.
#[test]
fn a_pause_keeps_no_time_out() {
    let mut world = World::started(ASK);
    let id = hold(&world);
    world.pass(TimeDelta::minutes(20));
    world.pause();
    world.pass(TimeDelta::hours(1));
    assert_eq!(time_out(&mut world), CloseReply::OnResume);
    world.resume(ResumeMode::Continue);
    assert_eq!(world.status(), RunStatus::AwaitingInput, "still asked");
    let due = world.now + TimeDelta::minutes(40);
    assert!(matches!(state(&world, id), HoldState::Open { deadline: Some(at), .. } if *at == due));
    world.pass(TimeDelta::minutes(40));
    world.pause();
    assert_eq!(time_out(&mut world), CloseReply::OnResume);
    world.resume(ResumeMode::Continue);
    assert_eq!(world.status(), RunStatus::AwaitingInput, "not kept");
    let due = world.now;
    assert!(matches!(state(&world, id), HoldState::Open { deadline: Some(at), .. } if *at == due));
    assert_eq!(time_out(&mut world), CloseReply::Applied);
    assert_eq!(world.status(), RunStatus::Failed);
}

/// A close that was kept has its turn once: one that nobody can apply is dropped, and the run asks on.
#[test]
fn a_kept_close_that_cannot_be_applied_is_dropped() {
    let mut world = World::started(ASK);
    world.pause();
    let kept = closing(HoldOutcome::Approved, Value::Null, world.now);
    if let Some(on) = world.run.as_mut().unwrap().people_mut().next() {
        on.closing = Some(kept);
    }
    world.resume(ResumeMode::Continue);
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    assert_eq!(answer(&mut world, json!("yes")), CloseReply::Applied);
    assert_eq!(world.handed.len(), 1);
}

/// Races: a timeout that comes again after a pause had undone it changes nothing, however late.
#[test]
fn an_older_time_out_changes_nothing_after_the_clock_went_on() {
    let mut world = World::started(ASK);
    let id = hold(&world);
    world.pass(TimeDelta::minutes(20));
    world.pause();
    world.pass(TimeDelta::minutes(40));
    let older = closing(HoldOutcome::Timeout, Value::Null, world.now);
    world.pass(TimeDelta::minutes(5));
    world.resume(ResumeMode::Continue);
    let again = RunInput::HoldClosed {
        hold: id,
        closing: older,
    };
    assert!(matches!(world.give(again), Heard::Unchanged(_)));
    assert_eq!(world.status(), RunStatus::AwaitingInput, "still asked");
    world.pass(TimeDelta::minutes(40));
    assert_eq!(time_out(&mut world), CloseReply::Applied);
    assert_eq!(world.status(), RunStatus::Failed);
}

/// S0-AC4, races: the owner was away while a pause moved the deadline, and says that time is up
/// before it has heard of the new one.
#[test]
fn a_time_out_of_before_the_deadline_that_is_wanted_changes_nothing() {
    let mut world = ask(", timeout: 100s");
    let id = hold(&world);
    world.pass(TimeDelta::seconds(50));
    world.pause();
    world.pass(TimeDelta::seconds(10));
    world.resume(ResumeMode::Continue);
    let due = world.now + TimeDelta::seconds(50);
    let too_early = closing(
        HoldOutcome::Timeout,
        Value::Null,
        due - TimeDelta::seconds(9),
    );
    world.pass(TimeDelta::seconds(41));
    let sent = world.close_at(id, too_early.clone());
    assert_eq!(sent, CloseReply::OnResume);
    assert_eq!(world.status(), RunStatus::AwaitingInput, "9 s are left");
    world.pass(TimeDelta::seconds(5));
    world.pause();
    let sent = world.close_at(id, too_early);
    assert_eq!(sent, CloseReply::OnResume);
    world.resume(ResumeMode::Continue);
    assert_eq!(world.status(), RunStatus::AwaitingInput, "4 s are left");
    assert_eq!(time_out(&mut world), CloseReply::Applied);
    assert_eq!((world.status(), world.now), (RunStatus::Failed, due));
}

/// An answer to what time has ended is told that it did not count, however the run went on.
#[test]
fn an_answer_after_the_time_out_did_not_count() {
    for (end, status) in [("fail", RunStatus::Failed), ("skip", RunStatus::Completed)] {
        let question = format!("  - ask: {{ question: Go on?, on_timeout: {end} }}\n");
        let mut world = World::started(&question);
        let id = hold(&world);
        assert_eq!(time_out(&mut world), CloseReply::Applied);
        assert_eq!(world.status(), status);
        let late = world.close_as(id, HoldOutcome::Answered, json!("yes"));
        assert_eq!(late, CloseReply::RunEnded);
        let again = world.close_as(id, HoldOutcome::Timeout, Value::Null);
        assert_eq!(again, CloseReply::Applied, "twice is once");
    }
}

/// The end of the run ends the question; a late answer says so.
#[test]
fn a_cancelled_run_asks_nothing() {
    let mut world = World::started(ASK);
    let id = hold(&world);
    world.cancel();
    // Mend C-6: whoever comes too late is told who it was.
    let by_owner = |by: &Option<String>| by.as_deref() == Some("owner");
    assert!(matches!(state(&world, id), HoldState::Withdrawn { by, .. } if by_owner(by)));
    assert!(!world.rows["q"].response.as_ref().unwrap().success, "C-1");
    let late = world.close_as(id, HoldOutcome::Answered, json!("yes"));
    assert_eq!(late, CloseReply::RunEnded);
}

/// S0-R1: the message is exactly the owner's.
#[test]
fn a_person_who_is_not_there_fails_the_step() {
    let message = "Handoff failed: User bob not found or inactive in workspace";
    let mut world = World::started(ASK);
    let data = json!({ "code": "assignee_inactive", "message": message });
    world.close_as(hold(&world), HoldOutcome::Cancelled, data);
    let failure = world.view().failure.unwrap();
    assert_eq!(
        (
            failure.class,
            failure.code.as_str(),
            failure.message.as_str()
        ),
        (FailureClass::Policy, "assignee_inactive", message)
    );
}

#[test]
fn a_placeholder_that_names_nobody_fails_the_step() {
    let world = World::started("  - ask: { to: \"{{ input.customer }}\", question: Go on? }\n");
    assert_eq!(world.view().failure.unwrap().code, "invalid_assignee");
}

/// As many as a plan may name, also where they come from outside.
#[test]
fn more_people_than_a_step_may_name_fail_it() {
    let many = |count: usize| {
        let mut world = World::of("  - ask: { to: $input.people, question: Go on? }\n");
        let mut start = super::world::start_input();
        if let RunInput::Start { input, .. } = &mut start {
            *input = json!({ "people": vec!["@user.ada"; count] });
        }
        world.give(start);
        world
    };
    assert_eq!(many(50).status(), RunStatus::AwaitingInput);
    let failure = many(51).view().failure.unwrap();
    assert_eq!(failure.code, "invalid_assignee");
    assert!(failure.message.contains("at most 50 are allowed"));
}

/// S3-R5: the answer that counts when nobody gives one keeps the rules of any other.
#[test]
fn a_default_that_is_no_answer_fails_the_step_when_it_is_known() {
    for (rule, is_right) in [
        ("options: [c-7, c-8], ", true),
        ("options: [c-8, c-9], ", false),
        ("", true),
        (
            "schema: { type: object, properties: { a: { type: string } } }, ",
            false,
        ),
    ] {
        let world = World::started(&format!(
            "  - ask: {{ question: Who?, {rule}on_timeout: default, default: $input.customer }}\n"
        ));
        let code = world.view().failure.map(|failure| failure.code);
        let expected = (!is_right).then_some("invalid_default");
        assert_eq!(code.as_deref(), expected, "{rule}");
    }
}

const INPUTS: &str = "agent: outreach
inputs:
  type: object
  properties: { customer: { type: string }, region: { type: string, enum: [north, south] } }
  required: [customer, region]
steps:
  - tool: log
    args: { message: $input.region }
";

/// Issue 4: a question says how urgent it is, and who of a role gets it.
#[test]
fn a_question_is_as_urgent_as_its_step_says() {
    let world = ask(", priority: high, assign: least_loaded");
    let asked = spec(&world);
    assert_eq!(asked.priority, Priority::High);
    assert_eq!(asked.assign, Assign::LeastLoaded);
}

fn lacking(text: &str) -> World {
    World::of_plan(Plan::compile(text).unwrap())
}

/// S2-R12
#[test]
fn missing_inputs_are_asked_for_before_the_first_step() {
    let mut world = lacking(INPUTS);
    world.start();
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    assert!(world.handed.is_empty());
    let schema = spec(&world).schema.clone().unwrap();
    assert_eq!(schema["required"], json!(["region"]));
    assert_eq!(world.view().questions[0].schema, Some(schema));
    let id = hold(&world);
    assert_eq!(
        answer(&mut world, json!({ "region": "north" })),
        CloseReply::Applied
    );
    assert_eq!(world.handed[0].args, json!({ "message": "north" }));
    let again = world.close_as(id, HoldOutcome::Answered, json!({ "region": "north" }));
    assert_eq!(again, CloseReply::Applied, "twice is once");
}

/// S2-R12: what is given at the start is checked as what is asked for later.
#[test]
fn inputs_that_the_form_does_not_take_are_refused_at_the_start() {
    let given = |input: Value| {
        let mut world = lacking(INPUTS);
        let mut start = super::world::start_input();
        if let RunInput::Start { input: it, .. } = &mut start {
            *it = input;
        }
        world.give(start)
    };
    for (wrong, pointer) in [
        (
            json!({ "customer": "c", "region": "west" }),
            "/input/region",
        ),
        (json!({ "customer": 7 }), "/input/customer"),
        (json!("hello"), "/input"),
    ] {
        let Heard::Refused(refusal) = given(wrong) else {
            panic!("it was accepted")
        };
        let problem = refusal.problem();
        assert_eq!((problem.status, &*problem.code), (422, "invalid_input"));
        assert_eq!(problem.errors[0].pointer.as_deref(), Some(pointer));
    }
    for right in [
        json!({ "customer": "c", "region": "north", "note": [1] }),
        json!({ "customer": null }),
        Value::Null,
    ] {
        assert!(matches!(given(right), Heard::Decided(_)));
    }
}

/// S2-R12: also while paused.
#[test]
fn missing_inputs_can_be_answered_in_the_inbox() {
    let mut world = lacking(INPUTS);
    world.start();
    world.pause();
    assert_eq!(
        answer(&mut world, json!({ "region": "south" })),
        CloseReply::OnResume
    );
    world.resume(ResumeMode::Continue);
    assert_eq!(world.handed[0].args, json!({ "message": "south" }));
}

/// S2-R16
#[test]
fn a_run_that_may_not_ask_is_refused() {
    let mut world = lacking(&INPUTS.replace("steps:", "ask_missing_inputs: false\nsteps:"));
    let Heard::Refused(refusal) = world.give(super::world::start_input()) else {
        panic!("it was accepted")
    };
    let problem = refusal.problem();
    assert_eq!(
        (problem.status, problem.code.as_str()),
        (422, "missing_input")
    );
    assert!(problem.detail.contains("region"));
    assert!(world.run.is_none());
}
