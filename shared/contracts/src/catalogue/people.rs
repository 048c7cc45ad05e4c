//! Samples of what people and nodes say and are asked, of scopes and of tools.

use std::collections::BTreeMap;

use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use super::samples::{at, hold_id, page, run_id};
use super::{Entry, acme, command, message, query};
use crate::executor::{
    self, ChangedScope, DeleteAgent, DeleteTool, HoldsClosed, ListClaims, ListNodes, ListTools,
    PauseNew, PauseScope, PauseWaiting, PutTool, ResumeScope,
};
use crate::handoff::{
    DecideRequest, Decided, Decision, DisableUser, Effect, GetRequest, GetUser, LateAnswer,
    ListRequests, ListUsers, OpenHold, PutUser, RequestStatus, RequestView, SetHolds, UserFact,
    UserFacts, UserView, WithdrawHold,
};
use crate::hold::{
    ClosedAnswer, HoldClosed, HoldOutcome, HoldSpec, HoldWish, OnTimeout, Want, WishAnswer,
};
use crate::message::Reply;
use crate::run::{HoldKind, PausedBy, ResumeMode};
use crate::steps::{Beat, BeatAnswer, ClaimView, Claimed, Goodbye, NodeStatus, NodeView};
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
    let claimed = Claimed {
        workspace: acme(),
        run: run_id(),
        step: "step-01".to_owned(),
        dispatch: 1,
    };
    let beat = Beat {
        node: node(),
        tools: vec!["crm.find".parse().unwrap()],
        working: vec![claimed.clone()],
        queue_depth: 0,
        lease_ms: 30_000,
    };
    let answer = BeatAnswer {
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
    let ask = message(executor::SERVICE, "beat_now", subject::node(&node()), &());
    vec![
        command("service:worker", beat, answer),
        command("service:worker", Goodbye { node: node() }, ()),
        query(&ListNodes {}, page(view)),
        query(&ListClaims { limit: 100 }, page(claim)),
        ask,
    ]
}

fn spec() -> HoldSpec {
    HoldSpec {
        kind: HoldKind::Input,
        step: Some("step-01".to_owned()),
        agent: Some("outreach".parse().unwrap()),
        question: "Did the refund happen?".to_owned(),
        options: vec!["it_happened".to_owned(), "run_again".to_owned()],
        to: vec!["@role.ops".to_owned()],
        reason: Some("uncertain".to_owned()),
        on_timeout: OnTimeout::Escalate,
        default: None,
        context: json!({ "step": "step-01" }),
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
    }
}

pub(super) fn holds() -> Vec<Entry> {
    let wish = |want: Want| SetHolds {
        owner: executor::SERVICE.to_owned(),
        holds: vec![HoldWish {
            id: hold_id(),
            rev: 4,
            want,
        }],
    };
    let open = Want::Open {
        spec: Box::new(spec()),
        deadline: Some(at("09T09:00:00")),
    };
    let closed = HoldClosed {
        id: hold_id(),
        rev: 2,
        outcome: HoldOutcome::Answered,
        data: json!("it_happened"),
        by: "ada".to_owned(),
        at: at("03T09:00:00"),
    };
    let answers = vec![
        Reply::Ok(WishAnswer::Set),
        Reply::Ok(WishAnswer::Stale),
        Reply::Ok(WishAnswer::Decided),
        Reply::Ok(WishAnswer::TimedOut),
    ];
    let told = vec![
        Reply::Ok(ClosedAnswer::Applied),
        Reply::Ok(ClosedAnswer::OnResume),
        Reply::Ok(ClosedAnswer::RunEnded),
    ];
    vec![
        command("service:executor", wish(open), answers),
        command(
            "service:handoff",
            HoldsClosed {
                closed: vec![closed],
            },
            told,
        ),
    ]
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
    };
    let open_request = || request(RequestStatus::Open);
    vec![
        command("ada", standalone, open_request()),
        command(
            "ada",
            WithdrawHold { id: alone },
            request(RequestStatus::Withdrawn),
        ),
        command("ada", decide, decided),
        query(&GetRequest { id: hold_id() }, open_request()),
        query(&list, page(open_request())),
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
    let facts = UserFacts {
        after: 0,
        limit: 500,
    };
    let fact = UserFact {
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
