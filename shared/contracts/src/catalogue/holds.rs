//! Samples of desired states, of closes and of what is done before them; and of policies.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::people::{handoff, spec};
use super::samples::{at, hold_id, page};
use super::{Entry, command, query};
use crate::executor::{self, HandoffsUpdated, HoldsClosed};
use crate::handoff::{
    ApprovalRules, Calendar, DeletePolicy, EscalationRules, GetPolicy, ListPolicies, PolicyRules,
    PolicyRung, PolicyView, PutPolicy, Repeat, SetHolds, StopOn, Weekday,
};
use crate::hold::{
    CloseReply, DesiredHold, EndedByRung, HandoffEvent, HandoffEventKind, HandoffUpdate,
    HandoffUpdateReply, HoldClosed, HoldOutcome, HoldState, Priority, RungAct, SetHoldReply,
};
use crate::message::Reply;

pub(super) fn holds() -> Vec<Entry> {
    let desired_state = |state: HoldState| SetHolds {
        owner: executor::SERVICE.to_owned(),
        holds: vec![
            DesiredHold {
                id: hold_id(),
                rev: 4,
                state,
            },
            DesiredHold {
                id: hold_id(),
                rev: 4,
                state: HoldState::Open {
                    spec: Box::new(handoff()),
                    deadline: None,
                },
            },
        ],
    };
    let open = HoldState::Open {
        spec: Box::new(spec()),
        deadline: Some(at("09T09:00:00")),
    };
    let answers = vec![
        Reply::Ok(SetHoldReply::Set),
        Reply::Ok(SetHoldReply::Stale),
        Reply::Ok(SetHoldReply::Decided),
        Reply::Ok(SetHoldReply::TimedOut),
    ];
    let told = vec![
        Reply::Ok(CloseReply::Applied),
        Reply::Ok(CloseReply::OnResume),
        Reply::Ok(CloseReply::RunEnded),
    ];
    vec![
        command("service:executor", desired_state(open), answers),
        command(
            "service:handoff",
            HoldsClosed {
                closed: vec![answered(), completed(), ended()],
            },
            told,
        ),
        handled(),
    ]
}

fn answered() -> HoldClosed {
    HoldClosed {
        id: hold_id(),
        rev: 2,
        outcome: HoldOutcome::Answered,
        data: json!("it_happened"),
        by: "ada".to_owned(),
        at: at("03T09:00:00"),
        handoff_events: Vec::new(),
        by_rung: None,
    }
}

/// A rung ended it before its time.
fn ended() -> HoldClosed {
    HoldClosed {
        outcome: HoldOutcome::Timeout,
        rev: 4,
        data: Value::Null,
        by: "service:scheduler".to_owned(),
        by_rung: Some(EndedByRung {
            after_ms: 3_600_000,
            deadline: Some(at("09T09:00:00")),
        }),
        ..answered()
    }
}

/// A handoff's end, with what was not confirmed before it.
fn completed() -> HoldClosed {
    HoldClosed {
        outcome: HoldOutcome::Completed,
        rev: 5,
        data: json!({ "notes": "called", "disposition": "finish" }),
        handoff_events: vec![
            handoff_event(2, HandoffEventKind::Accepted, &[]),
            handoff_event(4, HandoffEventKind::TakenOver, &[]),
        ],
        ..answered()
    }
}

fn handoff_event(rev: u64, kind: HandoffEventKind, to: &[&str]) -> HandoffEvent {
    HandoffEvent {
        rev,
        kind,
        by: "ada".to_owned(),
        at: at("02T10:00:00"),
        to: to.iter().map(|&one| one.to_owned()).collect(),
        within_ms: None,
    }
}

fn timed() -> HandoffEvent {
    HandoffEvent {
        by: "service:handoff".to_owned(),
        within_ms: Some(172_800_000),
        ..handoff_event(1, HandoffEventKind::Timed, &[])
    }
}

fn handled() -> Entry {
    let handled = HandoffUpdate {
        id: hold_id(),
        rev: 3,
        handoff_events: vec![
            timed(),
            handoff_event(2, HandoffEventKind::Accepted, &[]),
            handoff_event(3, HandoffEventKind::Reassigned, &["@user.bob"]),
        ],
    };
    let noted = vec![
        Reply::Ok(HandoffUpdateReply::EventRecorded),
        Reply::Ok(HandoffUpdateReply::Stale),
    ];
    let handled = vec![handled];
    command("service:handoff", HandoffsUpdated { handled }, noted)
}

/// Who approves, and who is told when nobody acts, by name.
pub(super) fn policies() -> Vec<Entry> {
    let view = |name: &str, rules: &PolicyRules| PolicyView {
        name: name.parse().unwrap(),
        rules: rules.clone(),
        version: 1,
        built_in: false,
        by_priority: BTreeMap::new(),
    };
    let approval = PolicyRules::Approval(ApprovalRules {
        from: vec!["@role.manager".to_owned()],
        need: 2,
        not_requester: true,
        decide_within: Some(172_800_000),
        valid_for: None,
    });
    let rung = PolicyRung {
        after: 1_800_000,
        act: RungAct::Notify,
        to: vec!["@role.ops".to_owned()],
        repeat: Some(Repeat {
            every: 3_600_000,
            times: 2,
        }),
    };
    let escalation = PolicyRules::Escalation(EscalationRules {
        rungs: vec![rung.clone()],
        stop_on: vec![StopOn::Accept],
        calendar: Some(Calendar {
            time_zone: "Europe/Berlin".to_owned(),
            days: vec![Weekday::Mon, Weekday::Fri],
            from: "09:00".to_owned(),
            to: "17:30".to_owned(),
            holidays: vec!["2026-12-25".parse().unwrap()],
        }),
        acknowledged_for: Some(3_600_000),
    });
    let put = |name: &str, rules: &PolicyRules| PutPolicy {
        name: name.parse().unwrap(),
        rules: rules.clone(),
    };
    let built_in = PolicyView {
        version: 0,
        built_in: true,
        by_priority: BTreeMap::from([(Priority::High, vec![rung])]),
        ..view("default-approval", &escalation)
    };
    let (managers, on_call) = ("two-managers", "on-call");
    let name = || managers.parse().unwrap();
    vec![
        command("ada", put(on_call, &escalation), view(on_call, &escalation)),
        command(
            "ada",
            DeletePolicy { name: name() },
            view(managers, &approval),
        ),
        query(&GetPolicy { name: name() }, view(managers, &approval)),
        query(&ListPolicies {}, page(built_in)),
    ]
}
