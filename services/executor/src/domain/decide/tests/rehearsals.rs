//! #18: a real run over the same answers takes the same steps as its rehearsal.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::executor::ChildRunState;
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec, HoldState, OnTimeout};
use holdpoint_contracts::rehearsal::{Outgoing, RehearsalContact, RehearsedRun};
use holdpoint_contracts::run::{HoldKind, RunStatus};
use holdpoint_contracts::steps::{Grant, StepDispatch};
use holdpoint_ids::HoldId;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::histories::plans::a_plan;
use super::world::{World, acme, broken, child_end, done, owner, run_id};
use crate::domain::RunInput;
use crate::domain::plan::{Action, Plan, PlannedStep};
use crate::domain::rehearsal::audience::ActiveUsers;
use crate::domain::rehearsal::policies::Policies;
use crate::domain::rehearsal::rehearse_as;
use crate::domain::rehearsal::script::Script;
use crate::domain::rehearsal::setup::{RehearsalSetup, WorkspaceFacts};
use crate::domain::run::Signal;

/// What people, tools and contacts do in one case.
#[derive(Debug, Clone)]
struct Manners {
    /// The first call of each step fails.
    fails_once: bool,
    people: People,
    /// By the hours since the start.
    changes: BTreeMap<u32, ScriptedChange>,
}

/// What comes from outside of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScriptedChange {
    Reply(bool),
    Signal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum People {
    Agree,
    Reject,
    Silent,
}

impl Manners {
    /// A script names only signals for which the plan waits.
    fn without_unknown_signals(mut self, plan: &Plan) -> Self {
        let waits = |step: &PlannedStep| matches!(step.action, Action::WaitFor(_));
        let has_waits = plan.steps.iter().any(waits);
        self.changes
            .retain(|_, change| has_waits || *change != ScriptedChange::Signal);
        self
    }

    fn script(&self) -> Value {
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
        let (mut contacts, mut signals) = (Vec::new(), Vec::new());
        for (hours, change) in &self.changes {
            let after = format!("{hours}h");
            match change {
                ScriptedChange::Reply(replied) => {
                    contacts.push(json!({ "after": after, "set": { "replied": replied } }));
                }
                ScriptedChange::Signal => {
                    signals.push(json!({ "after": after, "signal": "go", "data": { "n": hours } }));
                }
            }
        }
        json!({
            "tools": tools, "people": people, "contacts": contacts, "signals": signals,
            "input": { "go": true, "customer": "c-7" },
        })
    }
}

/// What a run does. Times count in milliseconds since its start.
#[derive(Debug, PartialEq)]
struct Course {
    calls: Vec<(i64, String, String, Value)>,
    /// In the order of their text: requests of one instant have no order.
    requests: Vec<AskedRequest>,
    status: RunStatus,
    code: Option<String>,
}

/// A request when it is opened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct AskedRequest {
    at: i64,
    step: Option<String>,
    kind: String,
    to: Vec<String>,
    question: String,
    deadline: Option<i64>,
}

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

fn rehearsed(plan: &Plan, manners: &Manners) -> RehearsedRun {
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
    let since = |at: DateTime<Utc>| (at - world.now).num_milliseconds();
    let (mut calls, mut requests) = (Vec::new(), Vec::new());
    for event in &run.timeline {
        let at = since(event.at);
        match &event.outgoing {
            Some(Outgoing::Call { tool, args }) => {
                let step = event.step.clone().unwrap();
                calls.push((at, step, tool.clone(), args.clone()));
            }
            Some(Outgoing::Request {
                request,
                to,
                question,
                deadline,
            }) => requests.push(AskedRequest {
                at,
                step: event.step.clone(),
                kind: request.to_string(),
                to: to.clone(),
                question: question.clone(),
                deadline: deadline.map(since),
            }),
            Some(Outgoing::Escalation { .. } | Outgoing::ChildRun { .. }) | None => {}
        }
    }
    requests.sort();
    Course {
        calls,
        requests,
        status: run.status,
        code: run.code.clone(),
    }
}

/// Drives a run through the world of the tests, which keeps effects by itself.
struct Drive {
    world: World,
    start: DateTime<Utc>,
    manners: Manners,
    calls: BTreeMap<String, u32>,
    called: Vec<(i64, String, String, Value)>,
    seen: usize,
    /// Every hold on people so far: a closed one leaves the world.
    requests: BTreeMap<HoldId, AskedRequest>,
}

impl Drive {
    fn course(plan: &Plan, manners: Manners) -> Course {
        let world = World::of_plan(plan.clone());
        let mut drive = Self {
            start: world.now,
            world,
            manners,
            calls: BTreeMap::new(),
            called: Vec::new(),
            seen: 0,
            requests: BTreeMap::new(),
        };
        drive.world.start();
        for _ in 0..2_000 {
            drive.record_requests();
            if drive.world.run().is_final() || !drive.step() {
                break;
            }
            if drive.world.now - drive.start > TimeDelta::days(400) {
                break;
            }
        }
        let mut requests: Vec<_> = drive.requests.into_values().collect();
        requests.sort();
        let view = drive.world.view();
        Course {
            calls: drive.called,
            requests,
            status: view.status,
            code: view.failure.map(|it| it.code),
        }
    }

    fn since_start(&self, at: DateTime<Utc>) -> i64 {
        (at - self.start).num_milliseconds()
    }

    fn record_requests(&mut self) {
        let at = self.since_start(self.world.now);
        for (hold, (_, state)) in &self.world.holds {
            let HoldState::Open { spec, deadline } = state else {
                continue;
            };
            // The world has an approver with a name.
            let question = spec
                .question
                .replace("approval of ada", "approval of rehearsal");
            let asked = AskedRequest {
                at,
                step: spec.step.clone(),
                kind: spec.kind.to_string(),
                to: spec.to.clone(),
                question,
                deadline: deadline.map(|deadline| self.since_start(deadline)),
            };
            self.requests.entry(*hold).or_insert(asked);
        }
    }

    /// Whether something happened.
    fn step(&mut self) -> bool {
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
        let after = self.since_start(self.world.now);
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

    /// The next change, timer, answer or deadline.
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
        let next = timers.chain(people).min();
        if self.change_before(next.map(|(due, ..)| due)) {
            return true;
        }
        let Some((due, what, hold)) = next else {
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

    /// Applies the next change unless something is due before it.
    fn change_before(&mut self, due: Option<DateTime<Utc>>) -> bool {
        let Some(entry) = self.manners.changes.first_entry() else {
            return false;
        };
        let at = self.start + TimeDelta::hours((*entry.key()).into());
        if due.is_some_and(|due| due < at) {
            return false;
        }
        let (hours, change) = entry.remove_entry();
        self.world.now = self.world.now.max(at);
        match change {
            ScriptedChange::Reply(replied) => {
                self.world.contact.as_mut().unwrap()["replied"] = json!(replied);
                // Only a reply reaches the runs of a contact.
                if replied {
                    self.world.give(RunInput::ContactReplied);
                }
            }
            ScriptedChange::Signal => {
                let signal = Signal {
                    name: "go".to_owned(),
                    data: json!({ "n": hours }),
                    key: None,
                };
                let by = owner();
                self.world.give(RunInput::Signal { by, signal });
            }
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
    let change = prop_oneof![
        2 => any::<bool>().prop_map(ScriptedChange::Reply),
        2 => Just(ScriptedChange::Signal),
    ];
    // Many waits end after whole days, so that changes at the same instant occur.
    let hours = prop_oneof![(0_u32..400), (0_u32..60).prop_map(|days| days * 24)];
    let changes = prop::collection::btree_map(hours, change, 0..5);
    (prop::bool::weighted(0.3), people, changes).prop_map(|(fails_once, people, changes)| Manners {
        fails_once,
        people,
        changes,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_run_takes_the_steps_of_its_rehearsal(plan in a_plan(), manners in manners()) {
        let manners = manners.without_unknown_signals(&plan);
        let run = rehearsed(&plan, &manners);
        let world = World::of_plan(plan.clone());
        prop_assert_eq!(run.events_left, 0);
        let real = Drive::course(&plan, manners);
        prop_assert_eq!(course_of_rehearsal(&run, &world), real);
    }
}
