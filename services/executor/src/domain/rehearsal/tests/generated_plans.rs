//! Rehearsals of agents whose steps a planner makes (Words 3, Words 6).

use super::*;

const PLANNED: &str = "
agent: win-back
instructions: Win the customer back.
planner: { tool: plans.make, tools: [log], auto_start: true }
";

/// The steps of the generated plan count, too: a run that ends silently is named, with the steps that it did not reach.
#[test]
fn the_steps_of_a_generated_plan_are_reached_or_not() {
    let script = r#"
tools:
  - { step: plan, contact: bob, result: { steps: [{ finish: "Nothing to do" }] } }
  - { step: plan, result: { steps: [
        { id: greet, tool: log, args: { message: hi } },
        { id: ask, when: "contact.replied == true", ask: { question: Go on? } },
        { id: say, tool: log, args: { message: bye }, needs: [greet] },
    ] } }
"#;
    let setup = setup(PLANNED, script);
    let of = |id: &str| rehearse(&setup, &contact(id), &|| true).unwrap().unwrap();
    let ada = of("ada");
    assert_eq!(ada.status, RunStatus::Completed, "{}", ada.message);
    assert_eq!(ada.steps_reached, ["plan", "start-plan", "greet", "say"]);
    assert_eq!(ada.generated_steps, ["greet", "ask", "say"]);
    assert!(ada.ended_unseen());
    let rehearsal = setup.rehearsal(vec![ada, of("bob"), of("cy")], 3);
    assert_eq!(rehearsal.steps, ["plan", "start-plan"]);
    let summary = rehearsal.summary();
    assert_eq!(summary.unreached_steps, ["ask"], "bob has reached step-01");
    assert_eq!(summary.ended_unseen.len(), 3);
}

/// A plan that people approve is seen by them, and one that they reject leaves its steps unknown.
#[test]
fn a_plan_that_is_approved_is_seen() {
    let agent = PLANNED.replace(", auto_start: true", "");
    let plan = "tools: [{ step: plan, result: { steps: [{ wait: 1 day }] } }]";
    let started = run(&agent, plan);
    assert_eq!(started.steps_reached, ["plan", "start-plan", "step-01"]);
    assert!(!started.ended_unseen());
    let rejected = run(&agent, &format!("{plan}\npeople: [{{ do: reject }}]"));
    assert_eq!(rejected.steps_reached, ["plan", "start-plan"]);
    assert!(rejected.generated_steps.is_empty() && !rejected.ended_unseen());
}
