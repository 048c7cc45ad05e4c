//! Samples of what people and nodes say and are asked, of scopes and of tools.

use std::collections::BTreeMap;

use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use super::samples::{at, hold_id, page, run_id};
use super::{Entry, acme, command, message, query};
use crate::executor::{
    self, ChangedScope, DeleteAgent, DeleteTool, ListClaims, ListNodes, ListTools, PauseNew,
    PauseScope, PauseWaiting, PutTool, ResumeScope,
};
use crate::handoff::{
    self, ActOnRequest, AskAgain, DecideRequest, DecideRequests, Decided, DecidedOne, Decision,
    DisableUser, Effect, GetRequest, GetUser, LateAnswer, ListOrder, ListRequests, ListUserChanges,
    ListUsers, OpenHold, PutUser, RequestAction, RequestHistoryEntry, RequestNudge, RequestStatus,
    RequestView, UserChange, UserView, Votes, WithdrawHold,
};
use crate::hold::{
    Assign, HoldOutcome, HoldSpec, OnTimeout, Policy, Priority, Rung, RungAct, Task,
};
use crate::link::Link;
use crate::message::Reply;
use crate::notification::{EventRecorded, RecordRequestEvents, RequestEvent, RequestEventKind};
use crate::run::{HoldKind, PausedBy, ResumeMode};
use crate::steps::{
    ClaimView, Deregister, Heartbeat, HeartbeatReply, NodeStatus, NodeView, StepRef,
};
use crate::subject;
use crate::tool::{HttpCall, Risk, ToolSpec, ToolView};

pub(super) fn scopes_and_tools() -> Vec<Entry> {
    let agent = || Some("outreach".parse().unwrap());
    let changed = |status: &str| ChangedScope {
        agent: agent(),
        status: status.to_owned(),
        paused_by: (status == "paused").then(|| PausedBy {
            scope: crate::run::PauseScope::Agent,
            by: "ada".to_owned(),
            at: at("04T09:00:00"),
            in_flight: Vec::new(),
        }),
        changed: true,
    };
    let tool = ToolSpec {
        name: "crm.find".parse().unwrap(),
        version: Some("2".to_owned()),
        risk: Risk::Low,
        idempotent: true,
        args_schema: Some(json!({ "type": "object" })),
        result_schema: None,
        http: HttpCall {
            method: "POST".to_owned(),
            url: "https://crm.example/find".to_owned(),
            headers: BTreeMap::from([("x-team".to_owned(), "sales".to_owned())]),
        },
    };
    let view = ToolView {
        tool: tool.clone(),
        revision: 1,
        changed: true,
    };
    let pause = PauseScope {
        agent: agent(),
        waiting: PauseWaiting::Hold,
        new: PauseNew::Refuse,
    };
    let resume = ResumeScope {
        agent: agent(),
        mode: ResumeMode::Continue,
    };
    let delete = DeleteAgent {
        agent: "outreach".parse().unwrap(),
    };
    let tools = ListTools {
        limit: 100,
        cursor: None,
    };
    vec![
        command("ada", pause, changed("paused")),
        command("ada", resume, changed("active")),
        command("ada", delete, changed("deleted")),
        command("ada", PutTool { tool: tool.clone() }, view.clone()),
        command("ada", DeleteTool { name: tool.name }, ()),
        query(&tools, page(view)),
    ]
}

pub(super) fn nodes() -> Vec<Entry> {
    let node = || "my-worker-7f3a".parse().unwrap();
    let claimed = StepRef {
        workspace: acme(),
        run: run_id(),
        step: "step-01".to_owned(),
        dispatch: 1,
    };
    let heartbeat = Heartbeat {
        node: node(),
        tools: vec!["crm.find".parse().unwrap()],
        working: vec![claimed.clone()],
        queue_depth: 0,
        lease_ms: 30_000,
    };
    let answer = HeartbeatReply {
        stop: vec![claimed],
        again_ms: 10_000,
    };
    let view = NodeView {
        node: node(),
        status: NodeStatus::Up,
        last_seen: at("02T09:00:05"),
        tools: vec!["crm.find".parse().unwrap()],
        queue_depth: 0,
        claimed_tasks: vec![format!("{}/step-01", run_id())],
    };
    let claim = ClaimView {
        run: run_id(),
        step: "step-01".to_owned(),
        node: node(),
        dispatch: 1,
        claimed_at: at("02T09:00:00"),
        heartbeat_at: at("02T09:00:05"),
        progress_at: None,
        claim_timeout: 30_000,
    };
    let ask = message(
        executor::SERVICE,
        "heartbeat_now",
        subject::node(&node()),
        &(),
    );
    vec![
        command("service:worker", heartbeat, answer),
        command("service:worker", Deregister { node: node() }, ()),
        query(&ListNodes {}, page(view)),
        query(&ListClaims { limit: 100 }, page(claim)),
        ask,
    ]
}

pub(super) fn spec() -> HoldSpec {
    HoldSpec {
        kind: HoldKind::Input,
        step: Some("step-01".to_owned()),
        agent: Some("outreach".parse().unwrap()),
        question: "Did the refund happen?".to_owned(),
        options: vec!["it_happened".to_owned(), "run_again".to_owned()],
        to: vec!["@role.ops".to_owned()],
        reason: Some("uncertain".to_owned()),
        on_timeout: OnTimeout::Escalate,
        context: json!({ "step": "step-01" }),
        ..HoldSpec::asking(HoldKind::Input, "")
    }
}

/// A warm lead, with everything that can be said of a hold.
pub(super) fn handoff() -> HoldSpec {
    HoldSpec {
        step: Some("step-05".to_owned()),
        agent: Some("outreach".parse().unwrap()),
        to: vec!["@role.sales".to_owned()],
        context: json!({ "contact": { "id": "c-1", "name": "Zoe" } }),
        priority: Priority::High,
        title: Some("[Warm Lead] Agent handoff: Zoe".to_owned()),
        task: Some(Task {
            id: hold_id().to_string(),
            title: "Personal outreach to Zoe".to_owned(),
            description: "Zoe answered.".to_owned(),
            tags: vec!["agent-handoff".to_owned(), "warm-lead".to_owned()],
            priority: Priority::High,
        }),
        warm_lead: true,
        assign: Assign::LeastLoaded,
        policy: Policy {
            need: 2,
            not_requester: true,
        },
        requester: Some("ada".to_owned()),
        ladder: vec![Rung {
            after_ms: 3_600_000,
            act: RungAct::Notify,
            to: vec!["@role.ops".to_owned()],
        }],
        policies: vec!["on-call".parse().unwrap()],
        asks_again: Some(hold_id()),
        steps_left: Some(2),
        callback: Some("https://acme.example/done".to_owned()),
        default: Some(json!("yes")),
        schema: Some(json!({ "type": "object" })),
        link: Some(vault()),
        ..HoldSpec::asking(HoldKind::Handoff, "personal outreach")
    }
}

fn vault() -> Link {
    Link {
        url: "https://vault.example/new?for=crm".to_owned(),
        label: Some("Open the vault".to_owned()),
    }
}

fn request(status: RequestStatus) -> RequestView {
    let spec = spec();
    let is_decided = status == RequestStatus::Decided;
    RequestView {
        id: hold_id(),
        kind: spec.kind,
        run: Some(run_id()),
        step: spec.step,
        agent: spec.agent,
        status,
        version: 2,
        to: spec.to,
        question: spec.question,
        options: spec.options,
        reason: spec.reason,
        context: spec.context,
        deadline: Some(at("09T09:00:00")),
        remaining_ms: None,
        on_timeout: spec.on_timeout,
        actions: vec!["respond".to_owned()],
        outcome: is_decided.then_some(HoldOutcome::Answered),
        response: is_decided.then(|| json!("it_happened")),
        decided_by: is_decided.then(|| "ada".to_owned()),
        decided_at: is_decided.then(|| at("03T09:00:00")),
        effect: None,
        escalated_at: None,
        late: vec![LateAnswer {
            by: "bob".to_owned(),
            at: at("03T09:00:01"),
            data: json!("run_again"),
        }],
        created_at: at("02T09:00:00"),
        title: spec.title,
        assignee: Some("ada".to_owned()),
        priority: spec.priority,
        schema: spec.schema,
        link: None,
        task: spec.task,
        warm_lead: spec.warm_lead,
        votes: Some(Votes { have: 1, need: 2 }),
        history: vec![RequestHistoryEntry {
            action: "accepted".to_owned(),
            by: "ada".to_owned(),
            at: at("02T09:30:00"),
            note: None,
        }],
        also: vec!["@user.bob".to_owned()],
        default: Some(json!("it_happened")),
        snoozed_until: Some(at("02T10:00:00")),
        snoozed_by: vec![handoff::Snooze {
            by: "ada".to_owned(),
            until: at("02T10:00:00"),
        }],
        unchanged_since: Some(1),
        asks_again: None,
        steps_left: Some(2),
        callback: None,
        timer_unconfirmed: false,
        asked_by: vec!["cleo".to_owned()],
        redacted: false,
    }
}

pub(super) fn requests() -> Vec<Entry> {
    let decide = DecideRequest {
        id: hold_id(),
        decision: Decision::Respond {
            answer: json!("it_happened"),
        },
        version: Some(2),
    };
    let decided = Decided {
        recorded: true,
        effect: Effect::Applied,
        request: request(RequestStatus::Decided),
    };
    let alone = HoldId {
        run: run_id(),
        number: 0,
    };
    let standalone = OpenHold {
        id: alone,
        spec: HoldSpec {
            kind: HoldKind::Approval,
            step: None,
            agent: None,
            question: "Deploy 4.2?".to_owned(),
            options: Vec::new(),
            reason: None,
            context: Value::Null,
            ..spec()
        },
        timeout_ms: 3_600_000,
    };
    let list = ListRequests {
        limit: 100,
        cursor: None,
        status: Some(RequestStatus::Open),
        kind: Some(HoldKind::Input),
        run: Some(run_id()),
        assignee: Some("ada".parse().unwrap()),
        priority: Some(Priority::High),
        snoozed: Some(false),
        snoozed_by: Some("ada".parse().unwrap()),
        order: ListOrder::Urgency,
        cards: true,
    };
    let open_request = || request(RequestStatus::Open);
    let again = AskAgain {
        id: alone,
        again: hold_id(),
        to: Some(vec!["@role.ops".to_owned()]),
        timeout_ms: Some(3_600_000),
    };
    let led = RequestView {
        options: Link::answers(),
        link: Some(vault()),
        ..open_request()
    };
    vec![
        command("ada", standalone, open_request()),
        command(
            "ada",
            WithdrawHold {
                id: alone,
                version: Some(2),
            },
            request(RequestStatus::Withdrawn),
        ),
        command("ada", again, open_request()),
        command("ada", decide, decided),
        query(&GetRequest { id: hold_id() }, led),
        query(&list, page(open_request())),
    ]
}

/// What a person does with a request, and who is told of it.
pub(super) fn handling() -> Vec<Entry> {
    let act = ActOnRequest {
        id: hold_id(),
        action: RequestAction::Reassign {
            to: "@user.bob".to_owned(),
        },
        version: None,
    };
    let fact = RequestEvent {
        id: hold_id(),
        rev: 2,
        kind: RequestEventKind::Opened,
        by: None,
        at: at("02T09:00:00"),
        to: vec!["@role.sales".to_owned()],
        request: Box::new(request(RequestStatus::Offered)),
    };
    let note = RecordRequestEvents { facts: vec![fact] };
    let noted = vec![
        Reply::Ok(EventRecorded::Stored),
        Reply::Ok(EventRecorded::Known),
    ];
    let together = DecideRequests {
        versions: BTreeMap::from([(hold_id(), 2)]),
        ids: vec![hold_id()],
        decision: Decision::Approve { comment: None },
    };
    let effect = Effect::Pending;
    let votes = Some(Votes { have: 1, need: 2 });
    let one = vec![Reply::Ok(DecidedOne { effect, votes })];
    let nudge = RequestNudge {
        requests: BTreeMap::from([(hold_id(), 2)]),
    };
    let live = subject::live(&acme(), handoff::SERVICE);
    vec![
        command("ada", together, one),
        message(handoff::SERVICE, "request_nudge", live, &nudge),
        command("ada", act, request(RequestStatus::Reassigned)),
        command("service:handoff", note, noted),
    ]
}

pub(super) fn users() -> Vec<Entry> {
    let name = || "salesRep".parse().unwrap();
    let view = |active: bool| UserView {
        name: name(),
        email: Some("rep@acme.example".to_owned()),
        roles: vec!["member".parse().unwrap()],
        active,
        version: 1,
    };
    let put = PutUser {
        name: name(),
        email: Some("rep@acme.example".to_owned()),
        roles: vec!["member".parse().unwrap()],
    };
    let list = ListUsers {
        limit: 100,
        cursor: None,
    };
    let facts = ListUserChanges {
        after: 0,
        limit: 500,
    };
    let fact = UserChange {
        seq: 1,
        workspace: acme(),
        user: view(true),
    };
    vec![
        command("owner", put, view(true)),
        command("owner", DisableUser { name: name() }, view(false)),
        query(&GetUser { name: name() }, view(true)),
        query(&list, page(view(true))),
        query(&facts, vec![fact]),
    ]
}
