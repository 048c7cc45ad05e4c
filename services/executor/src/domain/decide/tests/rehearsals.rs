//! #18: a real run over the same answers takes the same steps as its rehearsal.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use holdpoint_contracts::executor::ChildRunState;
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec, HoldState, OnTimeout};
use holdpoint_contracts::rehearsal::{Outgoing, RehearsalContact, RehearsedRun};
use holdpoint_contracts::run::{HoldKind, RunStatus};
use holdpoint_contracts::steps::{Grant, StepDispatch};
use holdpoint_ids::HoldId;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::histories::plans::a_plan;
use super::world::{World, acme, broken, child_end, done, run_id};
use crate::domain::RunInput;
use crate::domain::plan::Plan;
use crate::domain::rehearsal::audience::ActiveUsers;
use crate::domain::rehearsal::policies::Policies;
use crate::domain::rehearsal::rehearse_as;
use crate::domain::rehearsal::script::Script;
use crate::domain::rehearsal::setup::{RehearsalSetup, WorkspaceFacts};

/// What people and tools do in one case.
#[derive(Debug, Clone, Copy)]
struct Manners {
    /// The first call of each step fails.
    fails_once: bool,
    people: People,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum People {
    Agree,
    Reject,
    Silent,
}

impl Manners {
    fn script(self) -> Value {
        let mut tools = Vec::new();
        if self.fails_once {
            tools.push(json!({ "times": 1, "fail": "It did not work.", "code": "http_status" }));
        }
        tools.push(json!({ "result": { "n": 1 } }));
        let people = match self.people {
            People::Agree => json!([]),
            People::Reject => json!([{ "kind": "approval", "do": "reject" }]),
            People::Silent => json!([{ "do": "nothing" }]),
        };
        json!({ "tools": tools, "people": people, "input": { "go": true, "customer": "c-7" } })
    }
}

/// The calls with their instants, the number of requests to people, and the status at the end.
type Course = (
    Vec<(i64, String, String, Value)>,
    usize,
    RunStatus,
    Option<String>,
);

/// The user whom the plans name is active.
fn facts() -> WorkspaceFacts {
    let owner = ("owner".parse().unwrap(), vec!["owner".parse().unwrap()]);
    WorkspaceFacts {
        workspace: acme(),
        tools: Vec::new(),
        users: ActiveUsers::new([owner]),
        policies: Policies::default(),
    }
}

fn rehearsed(plan: &Plan, manners: Manners) -> RehearsedRun {
    let script = Script::parse(&manners.script().to_string(), plan).unwrap();
    let start_at = World::of_plan(plan.clone()).now;
    let setup = RehearsalSetup::new(facts(), plan.clone(), script, start_at).unwrap();
    let fields = json!({ "email": "ada@x.example", "replied": false });
    let contact = RehearsalContact {
        id: "ada".parse().unwrap(),
        fields: fields.as_object().unwrap().clone(),
    };
    let rehearse = || rehearse_as(run_id(), &setup, &contact, &|| true);
    let run = rehearse().unwrap().unwrap();
    assert_eq!(rehearse().unwrap().unwrap(), run);
    run
}

fn course_of_rehearsal(run: &RehearsedRun, world: &World) -> Course {
    let calls = run
        .timeline
        .iter()
        .filter_map(|event| match &event.outgoing {
            Some(Outgoing::Call { tool, args }) => {
                let after = (event.at - world.now).num_milliseconds();
                Some((
                    after,
                    event.step.clone().unwrap(),
                    tool.clone(),
                    args.clone(),
                ))
            }
            Some(
                Outgoing::Request { .. } | Outgoing::Escalation { .. } | Outgoing::ChildRun { .. },
            )
            | None => None,
        });
    let requests = run.outgoing();
    let requests = requests.filter(|it| matches!(it, Outgoing::Request { .. }));
    (
        calls.collect(),
        requests.count(),
        run.status,
        run.code.clone(),
    )
}

/// Drives a run through the world of the tests, which keeps effects by itself.
struct Drive {
    world: World,
    manners: Manners,
    calls: BTreeMap<String, u32>,
    called: Vec<(i64, String, String, Value)>,
    seen: usize,
    /// Every hold on people so far: a closed one leaves the world.
    requests: BTreeSet<HoldId>,
}

impl Drive {
    fn course(plan: &Plan, manners: Manners) -> Course {
        let mut drive = Self {
            world: World::of_plan(plan.clone()),
            manners,
            calls: BTreeMap::new(),
            called: Vec::new(),
            seen: 0,
            requests: BTreeSet::new(),
        };
        let start = drive.world.now;
        drive.world.start();
        for _ in 0..2_000 {
            if drive.world.run().is_final() || !drive.step() {
                break;
            }
            if drive.world.now - start > TimeDelta::days(400) {
                break;
            }
        }
        let called = drive.called.into_iter();
        let called =
            called.map(|(at, step, tool, args)| (at - start.timestamp_millis(), step, tool, args));
        drive.requests.extend(drive.world.holds.keys());
        let requests = drive.requests.len();
        let view = drive.world.view();
        (
            called.collect(),
            requests,
            view.status,
            view.failure.map(|it| it.code),
        )
    }

    /// Whether something happened.
    fn step(&mut self) -> bool {
        self.requests.extend(self.world.holds.keys());
        if let Some(dispatch) = self.world.handed.get(self.seen).cloned() {
            self.seen += 1;
            self.call(&dispatch);
            return true;
        }
        let mut children = self.world.children.values();
        let open = children.find(|child| {
            let is_open = matches!(child.state, ChildRunState::Open { .. });
            is_open && !self.world.ended_children.contains(&child.run)
        });
        if let Some(child) = open.cloned() {
            let fails = self.count(&child.step) == 1 && self.manners.fails_once;
            let status = match fails {
                true => RunStatus::Failed,
                false => RunStatus::Completed,
            };
            // A rehearsed child uses no budget.
            let mut end = child_end(child.run, child.hold, status);
            (end.steps, end.cost) = (0, 0.0);
            self.world.give(RunInput::ChildRunEnded(Box::new(end)));
            return true;
        }
        self.next_due()
    }

    fn call(&mut self, dispatch: &StepDispatch) {
        let grant = self
            .world
            .ask_as("node-a", &dispatch.step, dispatch.dispatch, 1);
        if !matches!(grant, Grant::Go | Grant::GoWithoutLease) {
            return;
        }
        let after = self.world.now.timestamp_millis();
        self.called.push((
            after,
            dispatch.step.clone(),
            dispatch.tool.to_string(),
            dispatch.args.clone(),
        ));
        let fails = self.count(&dispatch.step) == 1 && self.manners.fails_once;
        let result = if fails {
            broken()
        } else {
            done(json!({ "n": 1 }))
        };
        self.world
            .report_as(&dispatch.step, dispatch.dispatch, result);
    }

    fn count(&mut self, step: &str) -> u32 {
        let calls = self.calls.entry(step.to_owned()).or_default();
        *calls += 1;
        *calls
    }

    /// The next timer, answer or deadline.
    fn next_due(&mut self) -> bool {
        let timers = self.world.timers.iter();
        let timers = timers.filter_map(|(hold, (_, due))| Some(((*due)?, 0, *hold)));
        let people = self.world.run().people();
        let people = people.filter_map(|(_, on)| {
            let answer = on.since + TimeDelta::hours(1);
            let ends = on
                .deadline()
                .filter(|_| on.on_timeout != OnTimeout::Escalate);
            let is_silent = self.manners.people == People::Silent;
            let due = ends
                .into_iter()
                .chain((!is_silent).then_some(answer))
                .min()?;
            Some((due, 1, on.id))
        });
        let Some((due, what, hold)) = timers.chain(people).min() else {
            return false;
        };
        self.world.now = self.world.now.max(due);
        if what == 0 {
            self.world.fire_next();
        } else {
            self.close(hold);
        }
        true
    }

    fn close(&mut self, hold: HoldId) {
        let on = self
            .world
            .run()
            .people()
            .find(|(_, on)| on.id == hold)
            .unwrap()
            .1;
        let is_answered = self.manners.people != People::Silent
            && on.since + TimeDelta::hours(1) <= self.world.now;
        let spec = match &self.world.holds[&hold].1 {
            HoldState::Open { spec, .. } => spec.clone(),
            other => panic!("{other:?}"),
        };
        let (outcome, data) = match (is_answered, on.kind) {
            (false, _) => (HoldOutcome::Timeout, Value::Null),
            (true, HoldKind::Approval) if self.manners.people == People::Reject => {
                (HoldOutcome::Rejected, json!(""))
            }
            (true, HoldKind::Approval) => (HoldOutcome::Approved, json!("")),
            (true, HoldKind::Handoff) => (
                HoldOutcome::Completed,
                json!({ "notes": "", "outcome_type": "resolved", "disposition": "return_to_agent" }),
            ),
            (true, _) => (HoldOutcome::Answered, answer(&spec)),
        };
        self.world.close_as(hold, outcome, data);
    }
}

fn answer(spec: &HoldSpec) -> Value {
    if spec.schema.is_some() {
        return json!({ "region": "text" });
    }
    let option = spec.options.first().map(|option| json!(option));
    spec.default.clone().or(option).unwrap_or(json!("Yes"))
}

fn manners() -> impl Strategy<Value = Manners> {
    let people = prop_oneof![
        4 => Just(People::Agree),
        1 => Just(People::Reject),
        1 => Just(People::Silent),
    ];
    (prop::bool::weighted(0.3), people)
        .prop_map(|(fails_once, people)| Manners { fails_once, people })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_run_takes_the_steps_of_its_rehearsal(plan in a_plan(), manners in manners()) {
        let run = rehearsed(&plan, manners);
        let world = World::of_plan(plan.clone());
        prop_assert_eq!(run.events_left, 0);
        let real = Drive::course(&plan, manners);
        prop_assert_eq!(course_of_rehearsal(&run, &world), real);
    }
}
