//! One sample of every message. Keys of free objects are in alphabetical order, so that they are
//! written alike whether or not serde_json keeps the order.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::{HoldId, RunId};
use serde_json::{Map, Value, json};

use super::{Entry, command, query};
use crate::agent::{AgentView, PlannedStepView};
use crate::contact::{Activity, ActivityKind, ContactView};
use crate::executor;
use crate::executor::{
    AddActivity, AppliedAgent, ApplyAgent, CancelRun, DeleteContact, GetAgent, GetContact,
    GetHistory, GetRun, HistoryPage, ListActivities, ListAgents, ListContacts, ListRuns,
    PatchContact, PauseRun, PauseWaiting, PlanAgent, PlannedAgent, PutContact, ResumeRun, StartRun,
    TakeOverRun, TimerFired, TimerReply, TimersFired,
};
use crate::handoff::RequestTimersFired;
use crate::history::{EventType, HistoryItem};
use crate::message::Reply;
use crate::problem::Problem;
use crate::run::{
    ActionResult, ChangedRun, Clocks, Failure, FailureClass, HoldKind, LeaseAction, LeaseEvent,
    Page, PauseScope, PausedBy, Question, ResumeMode, RunStatus, RunView, StepStatus, StepView,
    WaitingOn,
};
use crate::scheduler::{SetTimer, SetTimerReply, SetTimers};
use crate::steps::{Grant, ResultReply, StartStep, StartSteps, StepResult, StepResults};

const TEXT: &str = "agent: outreach\nsteps:\n  - wait: 5 days\n";

pub(super) fn at(time: &str) -> DateTime<Utc> {
    format!("2026-03-{time}Z").parse().unwrap()
}

pub(super) fn run_id() -> RunId {
    "run_01920000000070008000000000000001".parse().unwrap()
}

pub(super) fn hold_id() -> HoldId {
    HoldId {
        run: run_id(),
        number: 1,
    }
}

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else {
        panic!("a sample that is no object");
    };
    map
}

fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([("campaign".to_owned(), "spring".to_owned())])
}

fn planned_step() -> PlannedStepView {
    PlannedStepView {
        id: "step-01".to_owned(),
        kind: "wait".to_owned(),
        action: "Wait 5 days".to_owned(),
        needs: Vec::new(),
        when: None,
        tool: None,
        args: None,
        duration_ms: Some(432_000_000),
    }
}

fn agent() -> AgentView {
    AgentView {
        agent: "outreach".parse().unwrap(),
        version: 3,
        status: "active".to_owned(),
        description: Some("Writes to new customers".to_owned()),
        steps: vec![planned_step()],
        warnings: Vec::new(),
        updated_at: at("01T08:00:00"),
    }
}

fn contact() -> ContactView {
    ContactView {
        id: "c-ada".parse().unwrap(),
        fields: object(json!({ "email": "ada@lindqvist.example", "replied": false })),
    }
}

fn action_result() -> ActionResult {
    ActionResult {
        success: true,
        description: "Email \"Introduction\" sent to ada@lindqvist.example".to_owned(),
        error: None,
        data: json!({ "message_id": "m-1" }),
        duration_ms: 41,
    }
}

fn step() -> StepView {
    StepView {
        id: "step-01".to_owned(),
        kind: "tool".to_owned(),
        status: StepStatus::Completed,
        tool: Some("send_email".parse().unwrap()),
        action: "Call send_email".to_owned(),
        request: Some(json!({ "to": "ada@lindqvist.example" })),
        response: Some(action_result()),
        error_code: None,
        raw_error: None,
        dispatch: 1,
        attempts: 1,
        claimed_by: Some("builtin-7f3a".parse().unwrap()),
        claimed_at: Some(at("02T09:00:00.010")),
        inline: false,
        handoff_history: vec![LeaseEvent {
            action: LeaseAction::Claimed,
            node: "builtin-7f3a".parse().unwrap(),
            at: at("02T09:00:00.010"),
            dispatch: 1,
        }],
        started_at: Some(at("02T09:00:00")),
        ended_at: Some(at("02T09:00:00.060")),
    }
}

/// A run that waits, with everything that a run can show while it lives.
fn run() -> RunView {
    RunView {
        id: run_id(),
        agent: "outreach".parse().unwrap(),
        version: 3,
        status: RunStatus::Waiting,
        resume_at: Some(at("07T09:00:00")),
        message: "Agent paused. Will resume in 5 days.".to_owned(),
        contact: Some("c-ada".parse().unwrap()),
        labels: labels(),
        questions: Vec::new(),
        taken_over_by: None,
        taken_over_at: None,
        waiting_on: vec![WaitingOn {
            asked: Vec::new(),
            id: hold_id(),
            kind: HoldKind::Timer,
            step: "step-02".to_owned(),
            since: at("02T09:00:00.060"),
            until: Some(at("07T09:00:00")),
            remaining_ms: None,
            then: "goes on".to_owned(),
        }],
        paused_by: Vec::new(),
        input: None,
        steps: vec![step()],
        result: None,
        failure: None,
        clocks: Clocks {
            active_ms: 41,
            queued_ms: 9,
            human_ms: 0,
        },
        created_at: at("02T09:00:00"),
        ended_at: None,
    }
}

fn changed(run: RunView) -> ChangedRun {
    ChangedRun { run, changed: true }
}

fn paused() -> RunView {
    let mut run = run();
    run.resume_at = None;
    run.message = "Paused by owner; timer hold has 3 days left.".to_owned();
    for waiting in &mut run.waiting_on {
        waiting.until = None;
        waiting.remaining_ms = Some(259_200_000);
    }
    run.paused_by = vec![PausedBy {
        scope: PauseScope::Run,
        by: "owner".to_owned(),
        at: at("04T09:00:00"),
        in_flight: vec!["step-01".to_owned()],
    }];
    run
}

fn taken() -> RunView {
    RunView {
        questions: vec![Question {
            id: hold_id(),
            question: "Tell the customer?".to_owned(),
            schema: Some(json!({ "type": "string", "enum": ["yes", "no"] })),
        }],
        taken_over_by: Some("ada".to_owned()),
        taken_over_at: Some(at("02T10:00:00")),
        ..run()
    }
}

fn activity() -> Activity {
    Activity {
        kind: ActivityKind::Call,
        subject: None,
        text: "Wants to know more.".to_owned(),
        at: at("02T10:00:00"),
    }
}

fn cancelled() -> RunView {
    let message = "Cancelled by owner: no longer needed".to_owned();
    RunView {
        status: RunStatus::Cancelled,
        resume_at: None,
        message: message.clone(),
        waiting_on: Vec::new(),
        failure: Some(Failure {
            class: FailureClass::Cancelled,
            code: "cancelled".to_owned(),
            message,
        }),
        ended_at: Some(at("04T09:00:00")),
        ..run()
    }
}

fn history_item() -> HistoryItem {
    HistoryItem {
        seq: 3,
        kind: EventType::StepSucceeded,
        at: at("02T09:00:00.060"),
        run: run_id(),
        step: Some("step-01".to_owned()),
        message: action_result().description,
        data: json!({ "duration_ms": 41, "node": "builtin-7f3a" }),
    }
}

fn not_found() -> Problem {
    Problem::not_found(format!("there is no run `{}` in this workspace", run_id()))
}

pub(super) fn agents_and_contacts() -> Vec<Entry> {
    let id = || "c-ada".parse().unwrap();
    vec![
        command(
            "owner",
            ApplyAgent {
                agent: "outreach".parse().unwrap(),
                text: TEXT.to_owned(),
            },
            AppliedAgent {
                agent: agent(),
                changed: true,
            },
        ),
        command(
            "owner",
            PutContact {
                contact: id(),
                fields: contact().fields,
            },
            contact(),
        ),
        command(
            "service:worker",
            PatchContact {
                contact: id(),
                patch: object(json!({ "note": null, "replied": false })),
            },
            contact(),
        ),
        command("owner", DeleteContact { contact: id() }, ()),
    ]
}

pub(super) fn runs() -> Vec<Entry> {
    vec![
        command(
            "owner",
            StartRun {
                run: run_id(),
                agent: "outreach".parse().unwrap(),
                input: json!({ "customer": "c-7" }),
                contact: Some("c-ada".parse().unwrap()),
                labels: labels(),
            },
            run(),
        ),
        command(
            "owner",
            PauseRun {
                run: run_id(),
                waiting: PauseWaiting::Hold,
            },
            changed(paused()),
        ),
        command(
            "owner",
            ResumeRun {
                run: run_id(),
                mode: ResumeMode::KeepDeadline,
            },
            changed(run()),
        ),
        command("ada", TakeOverRun { run: run_id() }, changed(taken())),
        command(
            "owner",
            AddActivity {
                contact: "ada".parse().unwrap(),
                id: "call-1".to_owned(),
                activity: activity(),
                patch: Map::from_iter([("sentiment".to_owned(), json!("positive"))]),
            },
            contact(),
        ),
        command(
            "owner",
            CancelRun {
                run: run_id(),
                reason: Some("no longer needed".to_owned()),
            },
            changed(cancelled()),
        ),
    ]
}

pub(super) fn time() -> Vec<Entry> {
    let timer = SetTimer {
        id: hold_id().to_string(),
        rev: 2,
        due: Some(at("07T09:00:00")),
    };
    let fired = TimerFired {
        id: hold_id().to_string(),
        rev: 2,
        due: at("07T09:00:00"),
    };
    let heartbeat = |timer: TimerFired| RequestTimersFired { fired: vec![timer] };
    vec![
        command(
            "service:scheduler",
            heartbeat(fired.clone()),
            vec![Reply::Ok(TimerReply::Applied)],
        ),
        command(
            "service:scheduler",
            TimersFired { fired: vec![fired] },
            vec![
                Reply::Ok(TimerReply::Applied),
                Reply::Ok(TimerReply::Stale),
                Reply::Problem(not_found()),
            ],
        ),
        command(
            "service:executor",
            SetTimers {
                owner: executor::SERVICE.to_owned(),
                timers: vec![timer],
            },
            vec![
                Reply::Ok(SetTimerReply::Set),
                Reply::Ok(SetTimerReply::Stale),
            ],
        ),
    ]
}

pub(super) fn work() -> Vec<Entry> {
    let (run, step) = (run_id(), "step-01".to_owned());
    let start = StartStep {
        run,
        step: step.clone(),
        dispatch: 1,
        delivery: 1,
        without_lease: false,
    };
    let light = StartStep {
        without_lease: true,
        ..start.clone()
    };
    let failed = ActionResult {
        success: false,
        description: "The server answered 500".to_owned(),
        error: Some("The server answered 500".to_owned()),
        data: Value::Null,
        duration_ms: 87,
    };
    let result = |result: ActionResult, error_code: Option<&str>| StepResult {
        run,
        step: step.clone(),
        dispatch: 1,
        result,
        error_code: error_code.map(str::to_owned),
        parks: false,
    };
    vec![
        command(
            "service:worker",
            StartSteps {
                node: "my-worker-7f3a".parse().unwrap(),
                steps: vec![start, light],
            },
            vec![
                Reply::Ok(Grant::Go),
                Reply::Ok(Grant::GoWithoutLease),
                Reply::Ok(Grant::Drop),
                Reply::Ok(Grant::Uncertain),
                Reply::Problem(Problem::unavailable(
                    "the service's database is away or busy; try again",
                )),
            ],
        ),
        command(
            "service:worker",
            StepResults {
                node: "my-worker-7f3a".parse().unwrap(),
                results: vec![
                    result(failed, Some("http_status")),
                    result(action_result(), None),
                ],
            },
            vec![
                Reply::Ok(ResultReply::Applied),
                Reply::Ok(ResultReply::Known),
                Reply::Ok(ResultReply::Late),
                Reply::Problem(not_found()),
            ],
        ),
    ]
}

pub(super) fn page<T>(item: T) -> Page<T> {
    Page {
        items: vec![item],
        next_cursor: Some("c3RlcC0wMQ".to_owned()),
    }
}

pub(super) fn queries() -> Vec<Entry> {
    let cursor = || Some("c3RlcC0wMA".to_owned());
    let plan = PlanAgent {
        text: TEXT.to_owned(),
    };
    let planned = PlannedAgent {
        agent: "outreach".parse().unwrap(),
        steps: vec![planned_step()],
        warnings: Vec::new(),
    };
    let agents = ListAgents {
        limit: 100,
        cursor: cursor(),
    };
    let contacts = ListContacts {
        limit: 100,
        cursor: cursor(),
        email: Some("ada@lindqvist.example".to_owned()),
    };
    let activities = ListActivities {
        contact: "c-ada".parse().unwrap(),
        limit: 100,
    };
    let runs = ListRuns {
        limit: 100,
        cursor: cursor(),
        status: Some(RunStatus::Waiting),
        agent: Some("outreach".parse().unwrap()),
        label: Some("campaign=spring".to_owned()),
        created_after: Some(at("01T00:00:00")),
        hold: None,
    };
    let history = GetHistory {
        run: run_id(),
        after: 2,
        limit: 500,
    };
    let history_page = HistoryPage {
        items: vec![history_item()],
        last_seq: 3,
        run_final: false,
    };
    let (agent_name, id) = ("outreach".parse().unwrap(), "c-ada".parse().unwrap());
    vec![
        query(&plan, planned),
        query(&GetAgent { agent: agent_name }, agent()),
        query(&agents, page(agent())),
        query(&GetContact { contact: id }, contact()),
        query(&contacts, page(contact())),
        query(&activities, page(activity())),
        query(&GetRun::of(run_id()), run()),
        query(&runs, page(run())),
        query(&history, history_page),
    ]
}
