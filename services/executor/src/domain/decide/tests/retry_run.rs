//! An operator continues a failed run (S2-R15).

use chrono::TimeDelta;
use holdpoint_contracts::executor::{PauseNew, PauseWaiting};
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::run::{PauseScope, RunStatus, StepStatus};
use holdpoint_contracts::steps::ResultReply;
use serde_json::{Value, json};

use super::world::{Heard, World, broken, done, owner};
use crate::domain::run::{Choice, RETRIES_MAX};
use crate::domain::{Refusal, Reply, RunInput, ScopeInput, StepReport};

const PAID: &str = "  - id: find
    tool: find_order
    args: { order: 7, idempotent: true }
  - id: go
    ask: { question: Refund it? }
  - id: rest
    wait: 1 day
  - id: pay
    tool: send_email
    args: { to: x@x.example, order: $find.n, answer: $go.answer }
  - id: note
    tool: log
    args: { message: done }
";

impl World {
    pub(super) fn retry(&mut self, from: Option<&str>) -> Heard {
        let from = from.map(str::to_owned);
        self.give(RunInput::Retry { by: owner(), from })
    }

    fn answer_open(&mut self, answer: &str) {
        let hold = self.run().people().next().expect("a question").1.id;
        self.close_as(hold, HoldOutcome::Answered, json!(answer));
    }

    fn statuses(&self) -> Vec<StepStatus> {
        let steps = self.run().steps.iter();
        steps.map(|step| step.phase.status()).collect()
    }
}

/// A run whose fourth step has failed.
fn failed() -> World {
    let mut world = World::started(PAID);
    world.report("find", done(json!({ "n": 1 })));
    world.answer_open("yes");
    world.fire_next();
    world.report("pay", broken());
    assert_eq!(world.status(), RunStatus::Failed);
    world
}

fn is_decided(heard: &Heard) -> bool {
    matches!(heard, Heard::Decided(Reply::Changed(changed)) if changed.changed)
}

fn refused(heard: Heard) -> Refusal {
    match heard {
        Heard::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

/// API `POST /runs/{run}/retry`: the failed step is called again with the same key, and nothing else is.
#[test]
fn a_failed_step_runs_again_and_completed_results_are_kept() {
    let mut world = failed();
    let (calls, key) = (
        world.handed.len(),
        world.handed.last().unwrap().idempotency_key(),
    );
    let old = world.dispatch("pay");
    assert!(is_decided(&world.retry(None)));
    assert_eq!(world.status(), RunStatus::Running);
    assert_eq!(world.handed.len(), calls + 1);
    let call = world.handed.last().unwrap();
    assert_eq!((call.step.as_str(), call.attempt), ("pay", 2));
    assert_eq!(call.idempotency_key(), key);
    assert_eq!(
        (&call.args["order"], &call.args["answer"]),
        (&json!(1), &json!("yes"))
    );
    let row = &world.rows["pay"];
    assert_eq!(
        (row.status, &row.response, &row.error_code),
        (StepStatus::Queued, &None, &None)
    );
    assert_eq!(row.ended_at, None);
    // What the worker of the failed call still says is only evidence.
    assert_ne!(
        world.report_as("pay", old, done(Value::Null)),
        ResultReply::Applied
    );
    world.report("pay", done(Value::Null));
    world.report("note", done(Value::Null));
    assert_eq!(world.status(), RunStatus::Completed);
    let message = &world.event(EventType::RunRetried).message;
    assert_eq!(message, "Retried by owner from pay.");
}

/// The steps after the named one run again in their order. People are not asked twice.
#[test]
fn from_an_earlier_step_what_depends_on_it_runs_again() {
    let mut world = failed();
    assert!(is_decided(&world.retry(Some("find"))));
    use StepStatus::{Completed, Planned, Queued};
    assert_eq!(
        world.statuses(),
        [Queued, Completed, Planned, Planned, Planned]
    );
    world.report("find", done(json!({ "n": 2 })));
    assert_eq!(world.run().people().count(), 0, "the answer is kept");
    assert_eq!(world.phase("go").status(), Completed);
    assert_eq!(world.rows["go"].status, Completed);
    assert!(
        world.rows["go"]
            .response
            .as_ref()
            .is_some_and(|it| it.success)
    );
    assert_eq!(world.status(), RunStatus::Waiting);
    world.fire_next();
    let call = world.handed.last().unwrap();
    assert_eq!(
        (&call.args["order"], &call.args["answer"]),
        (&json!(2), &json!("yes"))
    );
}

/// Kept answers cost no round of loading, however many follow each other.
#[test]
fn a_chain_of_kept_answers_goes_on_with_its_first_result() {
    let mut steps = "  - id: find\n    tool: find_order\n    args: { order: 7 }\n".to_owned();
    for number in 0..8 {
        steps += &format!("  - id: ask{number}\n    ask: {{ question: Ok? }}\n");
    }
    steps += "  - id: pay\n    tool: send_email\n    args: { to: x, order: $find.n, ok: $ask7.answer }\n";
    let mut world = World::started(&steps);
    world.report("find", done(json!({ "n": 1 })));
    for _ in 0..8 {
        world.answer_open("yes");
    }
    world.report("pay", broken());
    world.retry(Some("find"));
    assert_eq!(
        world.phase("pay").status(),
        StepStatus::Planned,
        "its needs run again"
    );
    world.report("find", done(json!({ "n": 2 })));
    assert_eq!(world.handed.last().unwrap().step, "pay");
}

/// What people did by hand is not given back to the tool. Only its own name does that.
#[test]
fn work_by_hand_is_kept() {
    let steps = "  - id: find
    tool: find_order
    args: { order: 7 }
  - id: pay
    tool: send_email
    args: { to: x, order: $find.n }
    on_error: handoff
  - id: note
    tool: log
    args: { message: done }
    retry: none
";
    let mut world = World::started(steps);
    world.report("find", done(json!({ "n": 1 })));
    world.report("pay", broken());
    let hold = world.run().people().next().expect("a handoff").1.id;
    let by_hand = json!({ "disposition": "return_to_agent", "notes": "Paid by hand." });
    world.close_as(hold, HoldOutcome::Completed, by_hand);
    world.report("note", broken());
    assert_eq!(world.status(), RunStatus::Failed);
    world.retry(Some("find"));
    world.report("find", done(json!({ "n": 2 })));
    assert_eq!(world.handed.last().unwrap().step, "note");
    world.report("note", broken());
    world.retry(Some("pay"));
    assert_eq!(world.handed.last().unwrap().step, "pay");
}

/// A kept answer survives a second failure before its turn.
#[test]
fn an_answer_is_kept_through_two_retries() {
    let mut world = failed();
    world.retry(Some("find"));
    for _ in 0..3 {
        world.report("find", broken());
        world.fire_next();
    }
    assert_eq!(world.status(), RunStatus::Failed);
    assert!(is_decided(&world.retry(None)));
    world.report("find", done(json!({ "n": 3 })));
    assert_eq!(world.phase("go").status(), StepStatus::Completed);
    let response = world.rows["go"].response.as_ref();
    assert!(response.is_some_and(|it| it.success), "{response:?}");
}

/// The answer that a timeout gave is not a person's.
#[test]
fn a_question_that_timed_out_is_asked_again() {
    let steps = "  - id: find
    tool: find_order
    args: { order: 7 }
  - id: go
    ask: { question: Refund it?, timeout: 1h, on_timeout: default, default: yes }
  - id: note
    tool: log
    args: { message: done }
    retry: none
";
    let mut world = World::started(steps);
    world.report("find", done(Value::Null));
    let hold = world.run().people().next().expect("a question").1.id;
    world.pass(TimeDelta::hours(1));
    world.close_as(hold, HoldOutcome::Timeout, Value::Null);
    world.report("note", broken());
    assert_eq!(world.status(), RunStatus::Failed);
    world.retry(Some("find"));
    world.report("find", done(Value::Null));
    assert_eq!(world.status(), RunStatus::AwaitingInput);
}

#[test]
fn a_run_is_retried_a_limited_number_of_times() {
    let mut world =
        World::started("  - id: pay\n    tool: send_email\n    args: { to: x }\n    retry: none\n");
    for _ in 0..RETRIES_MAX {
        world.report("pay", broken());
        assert!(is_decided(&world.retry(None)));
    }
    world.report("pay", broken());
    let refusal = refused(world.retry(None));
    assert!(matches!(refusal, Refusal::TooManyRetries(_)), "{refusal}");
    assert_eq!(world.status(), RunStatus::Failed);
}

/// A retry that names a question asks it again.
#[test]
fn a_named_question_is_asked_again() {
    let mut world = failed();
    world.retry(Some("go"));
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    world.answer_open("no");
    world.fire_next();
    assert_eq!(world.handed.last().unwrap().args["answer"], "no");
}

#[test]
fn only_a_failed_run_can_be_retried_and_only_from_a_step_that_it_has_reached() {
    let mut world = failed();
    let unknown = refused(world.retry(Some("pya")));
    assert!(matches!(unknown, Refusal::StepNotFound(..)), "{unknown}");
    let early = refused(world.retry(Some("note")));
    assert_eq!(
        early.to_string(),
        "note cannot start before pay, which has not completed; retry from pay or from a step before it"
    );
    world.retry(None);
    assert!(
        matches!(world.retry(None), Heard::Unchanged(_)),
        "it is live"
    );
    world.cancel();
    let over = refused(world.retry(None)).to_string();
    assert!(
        over.ends_with("is cancelled; only a failed run can be retried"),
        "{over}"
    );
}

/// S0-AC9: the runs of a deleted agent stay as they are.
#[test]
fn a_run_of_a_deleted_agent_is_not_retried() {
    let mut world = failed();
    world.command(PauseScope::Agent, ScopeInput::Delete { by: owner() });
    let refusal = refused(world.retry(None));
    assert!(matches!(refusal, Refusal::AgentNotFound(_)), "{refusal}");
    assert_eq!(world.status(), RunStatus::Failed);
}

/// S2-R15: a call that may have had its effect is not made again without a person's word.
#[test]
fn a_call_without_a_report_is_asked_about_before_it_is_made_again() {
    let mut world = World::started(
        "  - id: pay\n    needs: []\n    tool: send_email\n    args: { to: x }
  - id: find\n    needs: []\n    tool: find_order\n    args: { order: 7 }\n    retry: none\n",
    );
    world.ask("node-a", "pay");
    world.report("find", broken());
    assert_eq!(world.status(), RunStatus::Failed);
    assert_eq!(world.phase("pay").status(), StepStatus::Cancelled);
    let calls = world.handed.len();
    world.retry(None);
    let message = &world.event(EventType::RunRetried).message;
    assert_eq!(message, "Retried by owner from find.", "the failed step");
    assert_eq!(world.phase("pay").status(), StepStatus::Uncertain);
    assert_eq!(
        world.handed.len(),
        calls + 1,
        "only the failed step is called"
    );
    world.report("find", done(Value::Null));

    // After `give_up`, the next retry asks again.
    world.answer("pay", Choice::GiveUp);
    assert_eq!(world.status(), RunStatus::Failed);
    world.retry(None);
    assert_eq!(world.phase("pay").status(), StepStatus::Uncertain);
    world.answer("pay", Choice::RunAgain);
    assert_eq!(world.handed.last().unwrap().step, "pay");
    world.ask("node-a", "pay");
    world.report("pay", done(Value::Null));
    assert_eq!(world.status(), RunStatus::Completed);
}

/// A tool that has succeeded is not called again because its result was not taken.
#[test]
fn a_call_whose_result_was_not_taken_is_asked_about() {
    let mut world = World::started("  - id: pay\n    tool: send_email\n    args: { to: x }\n");
    world.ask("node-a", "pay");
    let input = RunInput::StepResult(StepReport {
        cost: None,
        node: "node-a".parse().unwrap(),
        step: "pay".to_owned(),
        dispatch: world.dispatch("pay"),
        error_code: Some("result_too_large".to_owned()),
        result: broken(),
    });
    world.give(input);
    assert_eq!(world.status(), RunStatus::Failed);
    let calls = world.handed.len();
    world.retry(None);
    assert_eq!(world.phase("pay").status(), StepStatus::Uncertain);
    assert_eq!(world.handed.len(), calls);
}

/// S0-AC4: what is paused starts nothing, whatever is retried.
#[test]
fn a_retried_run_of_a_paused_agent_is_paused() {
    let pause = |new| ScopeInput::Pause {
        by: owner(),
        waiting: PauseWaiting::Hold,
        new,
    };
    let mut world = failed();
    world.command(PauseScope::Agent, pause(PauseNew::Accept));
    let calls = world.handed.len();
    assert!(is_decided(&world.retry(None)));
    assert_eq!((world.run().pauses.len(), world.handed.len()), (1, calls));
    let resume = ScopeInput::Resume {
        by: owner(),
        mode: holdpoint_contracts::run::ResumeMode::Continue,
    };
    world.command(PauseScope::Agent, resume);
    world.give(RunInput::ApplyScopes);
    assert_eq!(world.handed.len(), calls + 1);

    let mut world = failed();
    world.command(PauseScope::Agent, pause(PauseNew::Refuse));
    let refusal = refused(world.retry(None));
    assert!(matches!(refusal, Refusal::AgentPaused { .. }), "{refusal}");
}

/// S2-R3: a retry of the run is not covered by the approval before.
#[test]
fn an_approval_is_asked_for_again() {
    let mut world = World::started(
        "  - id: pay\n    tool: send_email\n    args: { to: x }\n    approval: { valid_for: 1h }\n",
    );
    let approve = |world: &mut World| {
        let hold = world.run().people().next().expect("a request").1.id;
        world.close_as(hold, HoldOutcome::Approved, json!(null));
    };
    approve(&mut world);
    world.ask("node-a", "pay");
    world.report("pay", broken());
    assert_eq!(world.status(), RunStatus::Failed);
    let calls = world.handed.len();
    world.retry(None);
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
    assert_eq!(world.handed.len(), calls);
    approve(&mut world);
    assert_eq!(world.handed.len(), calls + 1);
}

/// S2-R12: inputs that were not given in time are asked for again.
#[test]
fn missing_inputs_are_asked_for_again() {
    let text = "agent: outreach
inputs: { type: object, properties: { customer: { type: string }, region: { type: string } }, required: [customer, region] }
steps:
  - tool: log
    args: { message: $input.customer }
";
    let plan = crate::domain::model::plan::Plan::compile(text).unwrap();
    let mut world = World::of_plan(plan);
    world.start();
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    let hold = world.run().people().next().unwrap().1.id;
    world.close_as(hold, HoldOutcome::Timeout, Value::Null);
    assert_eq!(world.status(), RunStatus::Failed);
    assert!(is_decided(&world.retry(None)));
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    assert!(world.handed.is_empty());
}

/// S2-R15: the failures before the retry stay in the row, and do not count towards the attempts.
#[test]
fn earlier_failures_stay_on_record_and_do_not_count() {
    let mut world = World::started("  - id: note\n    tool: log\n    args: { message: hi }\n");
    for _ in 0..2 {
        for attempt in 1..=3 {
            world.report("note", broken());
            if attempt < 3 {
                world.fire_next();
            }
        }
        assert_eq!(world.status(), RunStatus::Failed);
        world.pass(TimeDelta::hours(1));
        world.retry(None);
    }
    let attempts = world.rows["note"].failed_attempts.iter();
    let attempts: Vec<_> = attempts.map(|it| it.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4, 5, 6]);
}

/// S0-T4: people who watch the run are notified of each end.
#[test]
fn each_end_is_reported() {
    let mut world = World::started("  - id: pay\n    tool: send_email\n    args: { to: x }\n");
    world.give(RunInput::Watch);
    world.report("pay", broken());
    world.pass(TimeDelta::hours(1));
    world.retry(None);
    world.report("pay", done(Value::Null));
    let ends: Vec<_> = world.ended.iter().map(|end| end.status).collect();
    assert_eq!(ends, [RunStatus::Failed, RunStatus::Completed]);
}
