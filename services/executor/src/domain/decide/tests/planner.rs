//! Words 3: a tool makes the steps of a run, people approve them, and then they are done.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::TimeDelta;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec, HoldState};
use holdpoint_contracts::run::{RunStatus, StepStatus};
use holdpoint_contracts::steps::StepDispatch;
use holdpoint_contracts::tool::Risk;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::tools::{operator_tool, spec as refund_tool};
use super::world::{Heard, World, broken, done, owner};
use crate::domain::plan::Plan;
use crate::domain::run::{Choice, StepPhase};
use crate::domain::{PlanFact, RunInput, StepReport};

const AGENT: &str = "
agent: outreach
instructions: Win the customer back.
planner: { tool: plans.make, tools: [send_email, log, payments.refund] }
";

fn started(agent: &str) -> World {
    let mut world = World::of_plan(Plan::compile(agent).unwrap());
    world.start();
    world
}

/// Refunds have a high risk.
fn started_with_refunds(agent: &str) -> World {
    let mut world = World::of_plan(Plan::compile(agent).unwrap());
    world.tools.push(operator_tool(refund_tool(Risk::High)));
    world.start();
    world
}

/// The planner has made these steps.
fn planned(agent: &str, steps: &Value) -> World {
    let mut world = started(agent);
    world.report("plan", done(json!({ "steps": steps })));
    world
}

fn two_steps() -> Value {
    json!([
        { "wait": "2 days" },
        { "tool": "log", "args": { "message": "{{ contact.email }} {{ $step-01 == null }}" } },
    ])
}

fn hold_of_plan(world: &World) -> HoldSpec {
    let hold = world.step("start-plan").approval.as_ref().unwrap().hold;
    match &world.holds[&hold].1 {
        HoldState::Open { spec, .. } => (**spec).clone(),
        other => panic!("{other:?}"),
    }
}

fn close(world: &mut World, outcome: HoldOutcome, data: Value) {
    let hold = world.step("start-plan").approval.as_ref().unwrap().hold;
    world.close_as(hold, outcome, data);
}

fn approve(world: &mut World) {
    close(world, HoldOutcome::Approved, json!("fine"));
}

fn approve_edited(world: &mut World, edited: &Value) {
    let data = json!({ "comment": null, "edited_args": edited });
    close(world, HoldOutcome::Approved, data);
}

fn ids(world: &World) -> Vec<&str> {
    let steps = world.run().steps.iter();
    steps.map(|step| step.id.as_str()).collect()
}

#[test]
fn people_approve_a_plan_before_its_first_step() {
    let mut world = started(AGENT);
    let asked = world.handed.last().unwrap().clone();
    assert_eq!(asked.tool.as_str(), "plans.make");
    assert_eq!(asked.timeout_ms, Some(60_000));
    assert_eq!(asked.args["instructions"], "Win the customer back.");
    assert_eq!(asked.args["contact"]["id"], "ada");
    assert_eq!(
        asked.args["tools"],
        json!(["send_email", "log", "payments.refund"])
    );

    world.report("plan", done(json!({ "steps": two_steps() })));
    let made = world.event(EventType::RunPlanGenerated);
    assert_eq!(made.message, "plan made a plan of 2 steps.");
    assert_eq!(
        made.data["steps"][0],
        json!({ "id": "step-01", "text": "Wait 2 days" })
    );
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
    assert_eq!(ids(&world), ["plan", "start-plan"]);
    let spec = hold_of_plan(&world);
    assert_eq!(
        spec.question,
        "Agent outreach wants to start a plan of 2 steps for ada (start-plan)."
    );
    assert_eq!(spec.title.as_deref(), Some("Approve a plan for ada"));
    assert_eq!(spec.items[0].args, json!({ "steps": two_steps() }));
    assert_eq!(spec.context["plan"][0], "step-01: Wait 2 days");
    let schema = spec.items[0].args_schema.as_ref().unwrap();
    assert_eq!(schema["properties"]["steps"]["maxItems"], 1_000);

    approve(&mut world);
    assert_eq!(ids(&world), ["plan", "start-plan", "step-01", "step-02"]);
    assert_eq!(world.step("step-01").phase.status(), StepStatus::Waiting);
    world.pass(TimeDelta::days(2));
    world.fire_next();
    let sent = world.handed.last().unwrap();
    assert_eq!(
        (sent.step.as_str(), &sent.args["message"]),
        ("step-02", &json!("ada@x.example false"))
    );
    world.report("step-02", done(json!({})));
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(
        world.event(EventType::RunCompleted).message,
        "4 steps done."
    );
}

/// What was edited is compiled again, and runs.
#[test]
fn an_edited_plan_runs() {
    let mut world = planned(AGENT, &two_steps());
    let edited = json!({ "steps": [{ "tool": "log", "args": { "message": "hi" } }] });
    approve_edited(&mut world, &edited);
    assert_eq!(ids(&world), ["plan", "start-plan", "step-01"]);
    assert_eq!(world.handed.last().unwrap().args["message"], "hi");
}

/// Words 3: the plan of the planner is asked about again, with what is wrong in the edited one.
#[test]
fn an_edited_plan_that_is_not_valid_is_asked_again() {
    let mut world = planned(AGENT, &two_steps());
    let first = hold_of_plan(&world);
    let edited = json!({ "steps": [{ "tool": "http_request", "args": {} }] });
    approve_edited(&mut world, &edited);
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
    let again = hold_of_plan(&world);
    assert!(again.asks_again.is_some());
    assert_eq!(again.items[0].args, first.items[0].args);
    let said = "The plan was not started as ada edited it, because the plan is not valid: ";
    assert!(again.question.contains(said), "{}", again.question);
    assert!(
        again.question.contains("http_request"),
        "{}",
        again.question
    );
    approve(&mut world);
    assert_eq!(ids(&world), ["plan", "start-plan", "step-01", "step-02"]);
}

/// A plan that is sent back is made again with the feedback, and asked about again.
#[test]
fn a_plan_is_sent_back() {
    let mut world = planned(AGENT, &two_steps());
    assert_eq!(hold_of_plan(&world).revises.as_deref(), Some("plan"));
    close(
        &mut world,
        HoldOutcome::Revised,
        json!("Wait 3 days.\nNothing else."),
    );
    let again = world.handed.last().unwrap().clone();
    assert_eq!(again.step, "plan");
    let asked = "Wait 3 days.\nNothing else.";
    assert_eq!(
        again.args_with_feedback()["feedback"]["instructions"],
        asked
    );
    world.report("plan", done(json!({ "steps": [] })));
    world.fire_next();
    let again = world.handed.last().unwrap().clone();
    let feedback = &again.args_with_feedback()["feedback"];
    assert_eq!(
        (&feedback["instructions"], &feedback["by"]),
        (&json!(asked), &json!("ada"))
    );
    assert_eq!(
        feedback["errors"],
        "A plan has 1 to 1000 steps; this one has 0."
    );
    assert!(again.idempotency_key().ends_with("/plan~1.1"));
    world.report("plan", done(json!({ "steps": [{ "wait": "3 days" }] })));
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
    approve(&mut world);
    assert_eq!(ids(&world), ["plan", "start-plan", "step-01"]);
}

/// A step hides nothing from its approver: neither an argument, nor the text of a template.
#[test]
fn people_see_all_that_a_plan_does() {
    let agent = AGENT.replace("planner:", "templates: { Offer: Have a month. }\nplanner:");
    let steps = json!([
        { "tool": "send_email", "args": { "to": "mallory@x.example", "template": "Offer" } },
        { "needs": [], "timeout": "1m", "tool": "log", "args": { "long": "x".repeat(900), "message": "secret" } },
        { "needs": ["step-01"], "when": "contact.replied", "tool": "log", "args": { "message": "bye" }, "claim_timeout": "60s" },
    ]);
    let world = planned(&agent, &steps);
    let context = &hold_of_plan(&world).context["plan"];
    for (line, parts) in [
        (0, &["mallory@x.example", "Have a month."][..]),
        (1, &["at once", "secret"]),
        (2, &["after step-01", "if contact.replied", "bye"]),
    ] {
        let text = context[line].as_str().unwrap();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn a_rejected_plan_does_nothing() {
    let mut world = planned(AGENT, &two_steps());
    close(&mut world, HoldOutcome::Rejected, json!("no"));
    assert_eq!(ids(&world), ["plan", "start-plan"]);
    assert_eq!(world.handed.len(), 1);
    assert_eq!(world.status(), RunStatus::Completed);
}

/// The planner is told what was wrong. After three plans the run fails.
#[test]
fn three_plans_that_are_not_valid_fail_the_run() {
    let mut world = started(AGENT);
    for attempt in 1..=3 {
        assert_eq!(world.step("plan").attempts, attempt);
        world.report(
            "plan",
            done(json!({ "steps": [{ "tool": "payments.pay" }] })),
        );
        if attempt < 3 {
            assert_eq!(
                world.event(EventType::StepAttemptFailed).data["code"],
                "invalid_plan"
            );
            world.fire_next();
            let feedback = &world.handed.last().unwrap().args_with_feedback()["feedback"];
            let said = feedback["errors"].as_str().unwrap();
            assert!(
                said.starts_with("step-01: A plan may not call `payments.pay`"),
                "{said}"
            );
            assert_eq!(feedback["refused"], attempt);
        }
    }
    let keys: BTreeSet<_> = world
        .handed
        .iter()
        .map(StepDispatch::idempotency_key)
        .collect();
    assert_eq!(
        keys.len(),
        3,
        "a planner must not return its earlier plan: {keys:?}"
    );
    assert_eq!(world.status(), RunStatus::Failed);
    assert_eq!(
        world.rows["plan"].error_code.as_deref(),
        Some("invalid_plan")
    );
    assert!(!world.events().contains(&EventType::RunPlanGenerated));
}

/// A worker of any tool may report the code of a plan that is not valid. It speaks for itself.
#[test]
fn a_worker_does_not_speak_for_the_planner() {
    let mut world = World::started("  - { id: plan, tool: crm.find, retry: { attempts: 2 } }\n");
    world.give(RunInput::StepResult(StepReport {
        cost: None,
        node: "node-a".parse().unwrap(),
        step: "plan".to_owned(),
        dispatch: world.dispatch("plan"),
        error_code: Some("invalid_plan".to_owned()),
        result: broken(),
    }));
    world.fire_next();
    let again = world.handed.last().unwrap();
    assert_eq!((again.attempt, &again.feedback), (2, &None));
}

/// People have approved a plan with the mails of their version of the agent.
#[test]
fn a_run_that_has_a_plan_is_not_moved_to_other_templates() {
    let mut world = planned(AGENT, &two_steps());
    let next = AGENT.replace("planner:", "templates: { Offer: Hi! }\nplanner:");
    let next = Plan::compile(&next).unwrap();
    world.next_plan = Some(Arc::new(PlanFact::new(next)));
    let moved = world.give(RunInput::Migrate {
        by: owner(),
        version: None,
    });
    let Heard::Refused(refusal) = moved else {
        panic!("{moved:?}")
    };
    assert_eq!(refusal.problem().code, "plan_differs");
}

/// A person says that the call of the planner happened, and the run has no plan. It fails before people are asked.
#[test]
fn a_result_of_a_person_is_checked_before_people_are_asked() {
    let mut world = started(AGENT);
    world.ask("node-a", "plan");
    world.lose("plan");
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    world.answer("plan", Choice::ItHappened);
    assert_eq!(world.status(), RunStatus::Failed);
    assert_eq!(
        world.rows["start-plan"].error_code.as_deref(),
        Some("unresolved_placeholder")
    );
    assert!(!world.events().contains(&EventType::RunAwaitingApproval));
}

/// `auto_start` asks nothing about the plan, and a risky call of it is asked about all the same.
#[test]
fn a_plan_that_starts_at_once_lowers_no_risk() {
    let agent = AGENT.replace("tools:", "auto_start: true, tools:");
    let mut world = started_with_refunds(&agent);
    let refund = json!([{ "id": "refund", "tool": "payments.refund", "args": { "order": "o-1" } }]);
    world.report("plan", done(json!({ "steps": refund })));
    assert_eq!(ids(&world), ["plan", "start-plan", "refund"]);
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
    assert_eq!(
        world.step("refund").phase.status(),
        StepStatus::WaitingConfirm
    );
    assert_eq!(world.handed.len(), 1, "only the planner was called");
}

/// Each call of a fan-out in a plan has its own gate.
#[test]
fn a_plan_may_have_a_fan_out() {
    let mut world = started_with_refunds(AGENT);
    let pay = json!([
        { "id": "pay", "for_each": ["o-1", "o-2"], "parallel": 2, "tool": "payments.refund", "args": { "order": "$item" } },
        { "tool": "log", "args": { "message": "$pay" } },
    ]);
    world.report("plan", done(json!({ "steps": pay })));
    approve(&mut world);
    let open = ids(&world);
    assert_eq!(
        open,
        ["plan", "start-plan", "pay", "step-02", "pay-0", "pay-1"]
    );
    assert_eq!(world.handed.len(), 1);
    for child in ["pay-0", "pay-1"] {
        let hold = world.step(child).approval.as_ref().unwrap().hold;
        world.close_as(hold, HoldOutcome::Approved, json!("fine"));
        world.report(child, done(json!({ "paid": child })));
    }
    let sent = world.handed.last().unwrap();
    assert_eq!(
        sent.args["message"],
        json!([{ "paid": "pay-0" }, { "paid": "pay-1" }])
    );
}

#[test]
fn a_run_without_a_contact_has_a_plan() {
    let mut world = World::of_plan(Plan::compile(AGENT).unwrap());
    let mut start = super::world::start_input();
    let RunInput::Start { contact, .. } = &mut start else {
        panic!()
    };
    *contact = None;
    world.give(start);
    assert_eq!(world.handed.last().unwrap().args["contact"], Value::Null);
}

/// A run with a plan of its own is not moved to another version, and continues after a failure.
#[test]
fn a_plan_of_a_run_stays() {
    let mut world = planned(
        AGENT,
        &json!([{ "tool": "log", "args": { "message": "$contact.nothing" } }]),
    );
    approve(&mut world);
    assert_eq!(world.status(), RunStatus::Failed);
    for from in ["plan", "start-plan"] {
        let from = Some(from.to_owned());
        let mut world = world.clone();
        let retried = world.give(RunInput::Retry { by: owner(), from });
        let Heard::Refused(refusal) = retried else {
            panic!("{retried:?}")
        };
        assert_eq!(refusal.problem().code, "plan_started");
    }
    world.contact = Some(json!({ "id": "ada", "email": "ada@x.example", "nothing": "something" }));
    let retried = world.give(RunInput::Retry {
        by: owner(),
        from: None,
    });
    assert!(matches!(retried, Heard::Decided(_)), "{retried:?}");
    assert!(matches!(world.phase("step-01"), StepPhase::Queued(_)));
    assert_eq!(world.handed.last().unwrap().args["message"], "something");
    let moved = world.give(RunInput::Migrate {
        by: owner(),
        version: None,
    });
    let Heard::Refused(refusal) = moved else {
        panic!("{moved:?}")
    };
    assert_eq!(refusal.problem().code, "plan_differs");
}

proptest! {
    /// Whatever a planner returns, nothing but the planner is called before the approval.
    #[test]
    fn any_result_of_a_planner_is_harmless(text in "[\\[\\]{}\":,a-z0-9 $-]{0,60}", deep in 0..40_usize) {
        let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        let nested = (0..deep).fold(value, |inner, _| json!([inner]));
        for data in [nested.clone(), json!({ "steps": nested }), json!({ "steps": [nested] })] {
            let mut world = started(AGENT);
            world.report("plan", done(data));
            prop_assert_eq!(world.handed.len(), 1);
            prop_assert_eq!(ids(&world), ["plan", "start-plan"]);
        }
    }
}
