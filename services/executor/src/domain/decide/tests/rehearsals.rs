//! #18: a real run over the same answers takes the same steps as its rehearsal, with its child runs and standing approvals.

mod family;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_contracts::rehearsal::{Outgoing, RehearsalContact, RehearsedRun};
use holdpoint_contracts::run::RunStatus;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::histories::plans::a_plan;
use super::world::{World, acme, run_id};
use crate::domain::plan::{Action, Plan, PlannedStep};
use crate::domain::rehearsal::audience::ActiveUsers;
use crate::domain::rehearsal::child_plans::ChildPlans;
use crate::domain::rehearsal::policies::Policies;
use crate::domain::rehearsal::rehearse_as;
use crate::domain::rehearsal::script::Script;
use crate::domain::rehearsal::setup::{RehearsalSetup, WorkspaceFacts};
use crate::domain::rehearsal::standing_approvals::StandingApprovals;
use family::Family;

/// The agent whose runs the steps start.
const HELPER: &str = "helper";

/// The tool whose calls a standing approval covers.
const APPROVED_TOOL: &str = "draft";

/// What people, tools and contacts do in one case.
#[derive(Debug, Clone)]
struct Manners {
    /// The first call of each step fails.
    fails_once: bool,
    people: People,
    /// The plan of the agent that steps run. None: the script ends its runs at once.
    helper: Option<Plan>,
    /// Uses of a standing approval of the owner for the calls of one tool.
    approved_in_advance: u32,
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

    fn script(&self, plan: &Plan) -> Value {
        let mut tools = Vec::new();
        let runs = |step: &PlannedStep| matches!(step.action, Action::Run(_));
        let is_scripted = self.helper.is_none() && plan.steps.iter().any(runs);
        let helper = is_scripted.then(|| json!({ "agent": HELPER }));
        // A rule for all calls is not for runs.
        for rule in helper.into_iter().chain([json!({})]) {
            let with = |more: Value| {
                let mut rule = rule.clone();
                rule.as_object_mut()
                    .unwrap()
                    .extend(more.as_object().unwrap().clone());
                rule
            };
            if self.fails_once {
                let fail = json!({ "times": 1, "fail": "It did not work.", "code": "http_status" });
                tools.push(with(fail));
            }
            tools.push(with(json!({ "result": { "n": 1 } })));
        }
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
    requests: Vec<AskedRequest>,
    /// Requests that the standing approval decides.
    approved: u32,
    /// The steps that start runs.
    runs: Vec<(i64, String)>,
    status: RunStatus,
    code: Option<String>,
}

impl Course {
    /// What happens at one instant has no order.
    fn sorted(mut self) -> Self {
        self.calls.sort_by_key(|call| format!("{call:?}"));
        self.requests.sort();
        self.runs.sort();
        self
    }
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
fn facts(plan: &Plan, manners: &Manners) -> WorkspaceFacts {
    let approval = json!({
        "id": "sa_01920000000070008000000000000001", "status": "active", "agent": plan.agent,
        "tool": APPROVED_TOOL, "version": null, "args_schema": { "type": "object" },
        "max_uses": manners.approved_in_advance, "used": 0, "reason": null, "created_by": "owner",
        "created_at": "2026-03-01T09:00:00Z", "expires_at": "2027-12-01T09:00:00Z",
        "revoked_by": null,
    });
    let approval = serde_json::from_value(approval).unwrap();
    let helper = manners.helper.clone();
    let helper = helper.map(|plan| (HELPER.parse().unwrap(), Some(plan)));
    let owner = ("owner".parse().unwrap(), vec!["owner".parse().unwrap()]);
    WorkspaceFacts {
        workspace: acme(),
        tools: Vec::new(),
        users: ActiveUsers::new([owner]),
        policies: Policies::default(),
        standing_approvals: StandingApprovals::new(vec![approval]),
        child_plans: ChildPlans::from_iter(helper),
    }
}

fn rehearsed(plan: &Plan, manners: &Manners) -> RehearsedRun {
    let facts = facts(plan, manners);
    let script = manners.script(plan).to_string();
    let script = Script::parse(&script, plan, &facts.child_plans).unwrap();
    let start_at = World::of_plan(plan.clone()).now;
    let setup = RehearsalSetup::new(facts, plan.clone(), script, start_at).unwrap();
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
    let (mut approved, mut runs) = (0, Vec::new());
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
            Some(Outgoing::ApprovedInAdvance { .. }) => approved += 1,
            Some(Outgoing::ChildRun { .. }) => {
                runs.push((at, event.step.clone().unwrap()));
            }
            Some(Outgoing::Escalation { .. }) | None => {}
        }
    }
    Course {
        calls,
        requests,
        approved,
        runs,
        status: run.status,
        code: run.code.clone(),
    }
    .sorted()
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
    let helper = prop::option::of(a_plan());
    let fails_once = prop::bool::weighted(0.3);
    (fails_once, people, helper, 0_u32..4, changes).prop_map(
        |(fails_once, people, helper, approved_in_advance, changes)| Manners {
            fails_once,
            people,
            helper: helper.map(|plan| Plan {
                agent: HELPER.to_owned(),
                ..plan
            }),
            approved_in_advance,
            changes,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_run_takes_the_steps_of_its_rehearsal(plan in a_plan(), manners in manners()) {
        let manners = manners.without_unknown_signals(&plan);
        let run = rehearsed(&plan, &manners);
        let world = World::of_plan(plan.clone());
        prop_assert_eq!(run.events_left, 0);
        let real = Family::course(&plan, manners);
        prop_assert_eq!(course_of_rehearsal(&run, &world), real);
    }
}
