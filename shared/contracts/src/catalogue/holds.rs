//! Samples of wishes, of closes and of what is done before them; and of policies.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::people::{handoff, spec};
use super::samples::{at, hold_id, page};
use super::{Entry, command, query};
use crate::executor::{self, HoldsClosed, HoldsHandled};
use crate::handoff::{
    ApprovalRules, Calendar, DeletePolicy, EscalationRules, GetPolicy, ListPolicies, PolicyRules,
    PolicyRung, PolicyView, PutPolicy, Repeat, SetHolds, StopOn, Weekday,
};
use crate::hold::{
    ClosedAnswer, Deed, DeedKind, EndedByRung, HandledAnswer, HoldClosed, HoldHandled, HoldOutcome,
    HoldWish, Priority, RungAct, Want, WishAnswer,
};
use crate::message::Reply;

pub(super) fn holds() -> Vec<Entry> {
    let wish = |want: Want| SetHolds {
        owner: executor::SERVICE.to_owned(),
        holds: vec![
            HoldWish {
                id: hold_id(),
                rev: 4,
                want,
            },
            HoldWish {
                id: hold_id(),
                rev: 4,
                want: Want::Open {
                    spec: Box::new(handoff()),
                    deadline: None,
                },
            },
        ],
    };
    let open = Want::Open {
        spec: Box::new(spec()),
        deadline: Some(at("09T09:00:00")),
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
        deeds: Vec::new(),
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
        deeds: vec![
            deed(2, DeedKind::Accepted, &[]),
            deed(4, DeedKind::TakenOver, &[]),
        ],
        ..answered()
    }
}

fn deed(rev: u64, kind: DeedKind, to: &[&str]) -> Deed {
    Deed {
        rev,
        kind,
        by: "ada".to_owned(),
        at: at("02T10:00:00"),
        to: to.iter().map(|&one| one.to_owned()).collect(),
        within_ms: None,
    }
}

fn timed() -> Deed {
    Deed {
        by: "service:handoff".to_owned(),
        within_ms: Some(172_800_000),
        ..deed(1, DeedKind::Timed, &[])
    }
}

fn handled() -> Entry {
    let handled = HoldHandled {
        id: hold_id(),
        rev: 3,
        deeds: vec![
            timed(),
            deed(2, DeedKind::Accepted, &[]),
            deed(3, DeedKind::Reassigned, &["@user.bob"]),
        ],
    };
    let noted = vec![
        Reply::Ok(HandledAnswer::Noted),
        Reply::Ok(HandledAnswer::Stale),
    ];
    let handled = vec![handled];
    command("service:handoff", HoldsHandled { handled }, noted)
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
