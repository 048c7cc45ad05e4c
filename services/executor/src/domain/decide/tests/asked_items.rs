//! People who are asked for each item (S2-R9): questions and handoffs with `for_each`.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{CloseReply, HoldOutcome, HoldState};
use holdpoint_contracts::run::{ResumeMode, RunStatus, StepStatus};
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use super::world::{World, done, owner};
use crate::domain::RunInput;

/// Three people, two at a time.
const ASK: &str = "
  - id: reviews
    for_each: [ada, eva, bob]
    parallel: 2
    ask: { to: \"@user.{{ item }}\", question: \"Is it fine, {{ item }}?\", options: [\"yes\", \"no\"], timeout: 1h }
  - id: after
    tool: log
    args: { message: $reviews }
";

const HAND: &str = "
  - id: calls
    for_each: [ada, eva]
    handoff: { to: \"@user.{{ item }}\", message: \"Call for {{ item }}\" }
  - id: after
    tool: log
    args: { message: $calls }
";

fn holds(world: &World) -> Vec<(String, HoldId)> {
    let people = world.run().people();
    let of = people.map(|(step, on)| (step.map_or("", |step| &step.id).to_owned(), on.id));
    of.collect()
}

fn hold_of(world: &World, step: &str) -> HoldId {
    let holds = holds(world);
    let found = holds.iter().find(|(of, _)| of == step);
    found
        .unwrap_or_else(|| panic!("{step} has no request: {holds:?}"))
        .1
}

fn asked(world: &World) -> Vec<String> {
    holds(world).into_iter().map(|(step, _)| step).collect()
}

fn answer(world: &mut World, step: &str, answer: &str) -> HoldId {
    let hold = hold_of(world, step);
    let closed = world.close_as(hold, HoldOutcome::Answered, json!(answer));
    assert_eq!(closed, CloseReply::Applied);
    hold
}

fn time_out(world: &mut World, step: &str) {
    world.close_as(hold_of(world, step), HoldOutcome::Timeout, Value::Null);
}

/// What the last step was called with.
fn given(world: &World) -> Value {
    let call = world.handed.iter().find(|out| out.step == "after");
    call.expect("the last step was called").args["message"].clone()
}

fn answers(world: &World) -> Vec<Value> {
    let given = given(world);
    let answers = given.as_array().unwrap().iter();
    answers.map(|one| one["answer"].clone()).collect()
}

/// Each person gets a question about their item, and the answers gather in the order of the items.
#[test]
fn each_person_is_asked_about_their_item() {
    let mut world = World::started(ASK);
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    assert_eq!(asked(&world), ["reviews-0", "reviews-1"]);
    let HoldState::Open { spec, .. } = &world.holds[&hold_of(&world, "reviews-1")].1 else {
        panic!("it is open")
    };
    assert_eq!(spec.to, ["@user.eva"]);
    assert_eq!(spec.question, "Is it fine, eva?");
    assert_eq!(spec.steps_left, Some(1));
    let first = answer(&mut world, "reviews-1", "no");
    assert_eq!(asked(&world), ["reviews-0", "reviews-2"]);
    answer(&mut world, "reviews-2", "yes");
    answer(&mut world, "reviews-0", "yes");
    assert_eq!(answers(&world), ["yes", "no", "yes"]);
    assert_eq!(world.rows["reviews"].status, StepStatus::Completed);
    let again = world.close_as(first, HoldOutcome::Answered, json!("yes"));
    assert_eq!(again, CloseReply::Applied, "twice is once");
    assert_eq!(answers(&world), ["yes", "no", "yes"]);
    world.report("after", done(Value::Null));
    assert_eq!(world.status(), RunStatus::Completed);
}

/// S3-R5: `on_timeout` counts for each person.
#[test]
fn a_person_who_does_not_answer_ends_their_item_only() {
    let skips = ASK.replace("timeout: 1h", "timeout: 1h, on_timeout: skip");
    let defaults = ASK.replace(
        "timeout: 1h",
        "timeout: 1h, on_timeout: default, default: \"no\"",
    );
    let continues = ASK.replace("parallel: 2", "parallel: 2\n    on_error: continue");
    for (steps, second) in [
        (skips, Value::Null),
        (defaults, json!("no")),
        (continues, Value::Null),
    ] {
        let mut world = World::started(&steps);
        time_out(&mut world, "reviews-1");
        answer(&mut world, "reviews-0", "yes");
        answer(&mut world, "reviews-2", "yes");
        assert_eq!(answers(&world), [json!("yes"), second, json!("yes")]);
    }
    let mut world = World::started(ASK);
    time_out(&mut world, "reviews-1");
    let failure = world.view().failure.unwrap();
    assert_eq!(failure.code, "human_timeout");
    assert_eq!(world.rows["reviews"].status, StepStatus::Failed);
    assert_eq!(
        asked(&world),
        Vec::<String>::new(),
        "the others are withdrawn"
    );
    let withdrawn = world
        .holds
        .values()
        .filter(|(_, state)| matches!(state, HoldState::Withdrawn { .. }));
    assert_eq!(withdrawn.count(), 1);
}

/// S0-AC4: an answer during a pause takes effect on resume, and only then the next person is asked.
#[test]
fn a_pause_keeps_the_answers() {
    let mut world = World::started(ASK);
    world.pause();
    let hold = hold_of(&world, "reviews-0");
    let closed = world.close_as(hold, HoldOutcome::Answered, json!("yes"));
    assert_eq!(closed, CloseReply::OnResume);
    assert_eq!(asked(&world), ["reviews-0", "reviews-1"]);
    world.resume(ResumeMode::Continue);
    assert_eq!(asked(&world), ["reviews-1", "reviews-2"]);
}

/// A retry asks only the people who have not answered.
#[test]
fn a_retry_keeps_what_people_have_answered() {
    let mut world = World::started(ASK);
    answer(&mut world, "reviews-0", "yes");
    time_out(&mut world, "reviews-1");
    assert_eq!(world.status(), RunStatus::Failed);
    world.give(RunInput::Retry {
        by: owner(),
        from: None,
    });
    assert_eq!(asked(&world), ["reviews-1", "reviews-2"]);
    answer(&mut world, "reviews-1", "no");
    answer(&mut world, "reviews-2", "no");
    assert_eq!(answers(&world), ["yes", "no", "no"]);
}

/// A retry from an earlier step keeps the answers for the same list only: an answer about one item never counts for
/// another.
#[test]
fn answers_are_kept_for_the_same_list_only() {
    let steps = format!(
        "  - id: find\n    tool: pages.find\n{}",
        ASK.replace("[ada, eva, bob]", "$find.people")
            .trim_start_matches('\n')
    );
    for (list, asked_again) in [
        (json!(["ada", "eva", "bob"]), vec!["reviews-1", "reviews-2"]),
        (json!(["eva", "ada", "bob"]), vec!["reviews-0", "reviews-1"]),
    ] {
        let mut world = World::started(&steps);
        world.report("find", done(json!({ "people": ["ada", "eva", "bob"] })));
        answer(&mut world, "reviews-0", "yes");
        time_out(&mut world, "reviews-1");
        world.give(RunInput::Retry {
            by: owner(),
            from: Some("find".to_owned()),
        });
        world.report("find", done(json!({ "people": list })));
        let mut asked = asked(&world);
        asked.sort_unstable();
        assert_eq!(asked, asked_again, "{list}");
    }
}

/// The state of a run names each answered item, so people are asked about fewer items than a tool.
#[test]
fn people_are_asked_about_few_items() {
    for (count, status) in [
        (1_000, RunStatus::AwaitingInput),
        (1_001, RunStatus::Failed),
    ] {
        let list = vec!["ada"; count].join(", ");
        let mut world = World::of(&ASK.replace("[ada, eva, bob]", "$input.items"));
        let mut input = super::world::start_input();
        let RunInput::Start { input: given, .. } = &mut input else {
            panic!()
        };
        *given = json!({ "items": list.split(", ").collect::<Vec<_>>() });
        world.give(input);
        assert_eq!(world.status(), status, "{count}");
    }
}

/// S0-T2: each person gets the whole context, and their notes gather in the order of the items.
#[test]
fn each_item_is_handed_to_its_person() {
    let mut world = World::started(HAND);
    assert_eq!(asked(&world), ["calls-0", "calls-1"]);
    let HoldState::Open { spec, .. } = &world.holds[&hold_of(&world, "calls-1")].1 else {
        panic!("it is open")
    };
    assert_eq!(spec.to, ["@user.eva"]);
    assert_eq!(spec.task.as_ref().unwrap().description, "Call for eva");
    assert_eq!(spec.context["contact"]["id"], "ada");
    let notes = |text: &str| json!({ "notes": text, "outcome_type": "resolved", "disposition": "return_to_agent" });
    for (step, text) in [("calls-1", "second"), ("calls-0", "first")] {
        let hold = hold_of(&world, step);
        world.close_as(hold, HoldOutcome::Completed, notes(text));
    }
    let given = given(&world);
    assert_eq!(
        (&given[0]["notes"], &given[1]["notes"]),
        (&json!("first"), &json!("second"))
    );
}

/// The person of one item ends the run. The other one is not asked any more.
#[test]
fn a_person_may_end_the_run_at_their_item() {
    let mut world = World::started(HAND);
    let hold = hold_of(&world, "calls-0");
    world.close_as(
        hold,
        HoldOutcome::Completed,
        json!({ "disposition": "finish", "notes": "" }),
    );
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(asked(&world), Vec::<String>::new());
    let open = world
        .holds
        .values()
        .filter(|(_, state)| matches!(state, HoldState::Open { .. }));
    assert_eq!(open.count(), 0);
}

/// A question without an answer goes to the owners, who answer in a handoff.
#[test]
fn the_owners_get_a_question_without_an_answer() {
    let steps = ASK.replace("parallel: 2", "parallel: 2\n    on_error: handoff");
    let mut world = World::started(&steps);
    let then = &world.view().waiting_on[0].then;
    assert!(
        then.ends_with("After the deadline the owners get a handoff of the step."),
        "{then}"
    );
    time_out(&mut world, "reviews-0");
    assert_eq!(world.phase("reviews-0").status(), StepStatus::Waiting);
    let hold = hold_of(&world, "reviews-0");
    let HoldState::Open { spec, .. } = &world.holds[&hold].1 else {
        panic!("it is open")
    };
    assert!(spec.to.is_empty(), "the owners");
    let text = &spec.task.as_ref().unwrap().description;
    assert!(
        text.starts_with("reviews-0 failed: @user.ada did not answer"),
        "{text}"
    );
    world.close_as(
        hold,
        HoldOutcome::Completed,
        json!({ "notes": "Ada is away.", "disposition": "return_to_agent" }),
    );
    answer(&mut world, "reviews-1", "yes");
    answer(&mut world, "reviews-2", "yes");
    assert_eq!(given(&world)[0]["notes"], "Ada is away.");
    assert_eq!(
        world.event(EventType::HandoffOffered).step.as_deref(),
        Some("reviews-0")
    );
}

/// A signal that does not come goes to the owners.
#[test]
fn the_owners_get_a_wait_without_its_signal() {
    let mut world = World::started(
        "  - id: paid\n    wait_for: { signal: payment, timeout: 1 day }\n    on_error: handoff\n  - id: after\n    tool: log\n    args: { message: $paid }\n",
    );
    world.fire_next();
    assert_eq!(world.phase("paid").status(), StepStatus::Waiting);
    let hold = hold_of(&world, "paid");
    world.close_as(
        hold,
        HoldOutcome::Completed,
        json!({ "notes": "He paid cash.", "disposition": "return_to_agent" }),
    );
    assert_eq!(given(&world)["notes"], "He paid cash.");
}
