//! One of each aggregate.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::executor::PauseNew;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::operation::{RunAction, RunFilter};
use holdpoint_contracts::run::Clocks;
use holdpoint_contracts::steps::NodeStatus;
use holdpoint_contracts::tool::{HttpCall, Risk, ToolSpec};
use holdpoint_ids::{HoldId, OperationId, RunId, Workspace};
use serde_json::json;

use crate::domain::model::library::LibraryEntry;
use crate::domain::operation::OperationPhase;
use crate::domain::plan::OnError;
use crate::domain::plan::{OnPause, Plan};
use crate::domain::run::failures::Failures;
use crate::domain::run::tool_questions::Questions;
use crate::domain::run::{Hold, Phase, Signals, Step, StepPhase, Timer};
use crate::domain::scope::EndsWatch;
use crate::domain::scope::{AppliedScopes, Scope, ScopePause, WorkspaceScope};
use crate::domain::{Agent, Aggregate, Contact, Library, Node, Operation, Run, Tool};

pub(super) fn now() -> DateTime<Utc> {
    "2026-03-02T09:00:00.123Z".parse().unwrap()
}

pub(super) fn acme() -> Workspace {
    "acme".parse().unwrap()
}

pub(super) fn plan() -> Plan {
    Plan::compile("agent: outreach\nsteps:\n  - wait: 5 days\n  - tool: log\n    args: { a: 1 }\n")
        .unwrap()
}

pub(super) fn agent() -> Agent {
    Agent {
        workspace: acme(),
        name: "outreach".parse().unwrap(),
        version: 1,
        newest: 1,
        digest: plan().digest(),
        description: Some("Für ’n Test".to_owned()),
        updated_at: now(),
        scope: Scope::default(),
        watch: EndsWatch::default(),
    }
}

pub(super) fn contact(id: &str) -> Contact {
    let fields =
        json!({ "email": "a@x.example", "nul": "a\u{0}b", "deep": { "n": [1, null, 2.5] } });
    Contact {
        workspace: acme(),
        id: id.parse().unwrap(),
        version: 1,
        fields: fields.as_object().unwrap().clone(),
        deleted: false,
        erasure: None,
    }
}

pub(super) fn run() -> Run {
    let id = RunId::fresh();
    let hold = Hold {
        id: HoldId { run: id, number: 1 },
        since: now(),
        length_ms: 86_400_000,
        timer: Timer::Set {
            rev: 1,
            at: now(),
            due: now() + TimeDelta::days(1),
        },
        backoff: None,
        signal: None,
        child_runs: None,
        keeps_due: false,
    };
    Run {
        id,
        workspace: acme(),
        agent: "outreach".parse().unwrap(),
        plan: 1,
        has_generated_plan: false,
        contact: Some("ada".parse().unwrap()),
        labels: BTreeMap::new(),
        started_by: Actor("owner".to_owned()),
        created_at: now(),
        version: 1,
        seq: 2,
        holds: 1,
        phase: Phase::Live,
        steps: vec![Step {
            id: "step-01".to_owned(),
            phase: StepPhase::Waiting(hold),
            dispatch: 0,
            attempts: 0,
            late: vec![3],
            lost: 0,
            answered: Vec::new(),
            questions: Questions::default(),
            approval: None,
            is_high_risk: false,
            redaction: Vec::new(),
            failures: Failures::default(),
            by_person: false,
            is_kept: false,
            interrupted: None,
            feedback: None,
            saved_part: None,
            on_error: OnError::default(),
            fan_out: None,
            child_of: None,
            child_runs: None,
        }],
        pauses: Vec::new(),
        suspension: None,
        blobs: Vec::new(),
        followed: AppliedScopes::default(),
        on_pause: OnPause::Hold,
        watched: true,
        clocks: Clocks::default(),
        missing_inputs_hold: None,
        takeover_hold: None,
        closed: Vec::new(),
        timed_out: Vec::new(),
        incidents: Vec::new(),
        retries: 0,
        signals: Signals::default(),
        limits: None,
        parent: None,
    }
}

pub(super) fn node(name: &str) -> Node {
    Node {
        name: name.parse().unwrap(),
        version: 1,
        status: NodeStatus::Up,
        last_seen: now(),
        changed_at: now(),
        tools: vec!["log".parse().unwrap()],
        queue_depth: 2,
        lease_ms: 30_000,
        forgotten: false,
    }
}

pub(super) fn tool() -> Tool {
    Tool {
        workspace: acme(),
        spec: ToolSpec {
            idempotent: true,
            args_schema: Some(json!({ "type": "object" })),
            http: Some(HttpCall {
                method: "POST".to_owned(),
                url: "https://x.example".to_owned(),
                headers: BTreeMap::new(),
            }),
            ..ToolSpec::new("orders.find".parse().unwrap(), Risk::Low)
        },
        version: 1,
        deleted: false,
        seen: 0,
        changes: Vec::new(),
        offers: Vec::new(),
        unchanged: 0,
        risk_revision: 0,
    }
}

pub(super) fn library() -> Library {
    Library {
        version: 1,
        ..Library::empty(acme())
    }
}

fn library_entry() -> LibraryEntry {
    LibraryEntry {
        value: json!({ "time_zone": "UTC" }),
        updated_at: now(),
        updated_by: Actor("owner".to_owned()),
    }
}

pub(super) fn operation() -> Operation {
    Operation {
        id: OperationId::fresh(),
        workspace: acme(),
        version: 1,
        action: RunAction::Cancel { reason: None },
        filter: RunFilter::default(),
        by: Actor("owner".to_owned()),
        matched: 2,
        created_at: now(),
        taken: 0,
        cursor: None,
        phase: OperationPhase::Running,
    }
}

/// The same aggregates one version on, each marked.
pub(super) fn next(states: &[Aggregate], mark: &str) -> Vec<Aggregate> {
    let states = states.iter().cloned().map(|state| match state {
        Aggregate::Agent(agent) => Aggregate::Agent(Agent {
            version: 2,
            description: Some(mark.to_owned()),
            ..agent
        }),
        Aggregate::Contact(contact) => Aggregate::Contact(Contact {
            version: 2,
            fields: json!({ "by": mark }).as_object().unwrap().clone(),
            ..contact
        }),
        Aggregate::Workspace(scope) => Aggregate::Workspace(WorkspaceScope {
            version: 2,
            scope: Scope {
                epoch: 7,
                paused: Some(ScopePause {
                    by: Actor(mark.to_owned()),
                    at: now(),
                    new: PauseNew::Refuse,
                }),
                ..scope.scope
            },
            ..scope
        }),
        Aggregate::Run(run) => Aggregate::Run(Run {
            version: 2,
            started_by: Actor(mark.to_owned()),
            ..run
        }),
        Aggregate::Node(node) => Aggregate::Node(Node {
            version: 2,
            tools: vec![mark.parse().unwrap()],
            ..node
        }),
        Aggregate::Tool(tool) => Aggregate::Tool(Tool {
            version: 2,
            spec: ToolSpec {
                version: Some(mark.to_owned()),
                ..tool.spec
            },
            ..tool
        }),
        Aggregate::Library(library) => Aggregate::Library(Library {
            version: 2,
            calendars: [(mark.to_owned(), library_entry())].into(),
            ..library
        }),
        Aggregate::Operation(operation) => Aggregate::Operation(Operation {
            version: 2,
            by: Actor(mark.to_owned()),
            ..operation
        }),
        Aggregate::Stateless => Aggregate::Stateless,
    });
    states.collect()
}
