//! What whoever took a run over by themselves hands back, as the steps that are left read it; and what
//! they are told of a run that is longer than a context.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::run::{RunStatus, StepStatus};
use serde_json::{Value, json};

use super::super::super::world::World;
use super::super::state;
use super::takeover_hold;
use crate::domain::rules::handoff_ends::NOTES_CHARS_MAX;
use holdpoint_contracts::hold::HoldState;

const LEFT: &str = "  - id: first
    wait: 1 hour
  - id: sent
    when: run.intervention.by != \"\"
    tool: log
    args: { message: \"{{ run.intervention.by }}: {{ run.intervention.notes }}\", how: $run.intervention.outcome_type }
";

fn returned(world: &mut World, notes: &str) {
    takeover_hold(world, "bob");
    let own = world.run().takeover_hold.as_ref().unwrap().id;
    let done = json!({
        "notes": notes, "outcome_type": "resolved", "disposition": "return_to_agent",
    });
    world.close_as(own, HoldOutcome::Completed, done);
}

fn request(world: &World, step: &str) -> Value {
    world.rows[step].request.clone().unwrap()
}

/// S0-T3, barge-in: the agent is told what the person did, and a later one counts instead.
#[test]
fn what_an_operator_hands_back_is_read_by_later_steps() {
    let mut world = World::started(LEFT);
    returned(&mut world, "asked her");
    returned(&mut world, "called her");
    assert_eq!(
        world.event(EventType::RunResumed).data["notes"],
        "called her"
    );
    world.fire_next();
    let read = request(&world, "sent");
    assert_eq!(
        read["message"], "ada: called her",
        "by whoever completed it"
    );
    assert_eq!(read["how"], "resolved");
}

/// What names it needs no condition: nobody has taken the run over.
#[test]
fn where_nobody_has_taken_over_there_is_nothing_to_read() {
    let mut world = World::started(LEFT);
    world.fire_next();
    assert_eq!(world.rows["sent"].status, StepStatus::Skipped);
    assert_eq!(world.status(), RunStatus::Completed);
    let steps = LEFT.replace("    when: run.intervention.by != \"\"\n", "");
    let mut world = World::started(&steps);
    world.fire_next();
    assert_eq!(
        request(&world, "sent"),
        json!({ "message": ": ", "how": "none" })
    );
}

/// Bounded: whoever comes from the bus may write as much as an answer is long.
#[test]
fn long_notes_are_cut_for_the_steps() {
    let mut world = World::started(LEFT);
    returned(&mut world, &"é".repeat(NOTES_CHARS_MAX + 7));
    world.fire_next();
    let read = request(&world, "sent");
    let read = read["message"].as_str().unwrap().chars().count();
    assert_eq!(read, "ada: ".len() + NOTES_CHARS_MAX);
}

/// S0-T2: says what it left out, of a plan that is longer than what is looked at.
#[test]
fn steps_that_are_not_looked_at_are_counted() {
    let log = |n: usize| {
        format!("  - id: s{n}\n    tool: log\n    needs: []\n    args: {{ message: x }}\n")
    };
    let steps: String = (0..205).map(log).collect();
    let mut world = World::started(&format!(
        "{steps}  - id: last\n    needs: []\n    wait: 1 hour\n"
    ));
    takeover_hold(&mut world, "bob");
    let own = world.run().takeover_hold.as_ref().unwrap().id;
    let HoldState::Open { spec, .. } = state(&world, own) else {
        panic!("not asked")
    };
    let context = &spec.context;
    assert_eq!(context["omitted"]["steps"], 6, "{}", context["omitted"]);
    let kept = context["actions"].as_array().unwrap().len();
    assert_eq!(context["omitted"]["actions"], 206 - kept);
}
