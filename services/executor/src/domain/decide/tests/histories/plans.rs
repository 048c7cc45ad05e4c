//! Plans of every shape: tools, waits and people, one after the other or side by side.

use holdpoint_calendar::WorkingDays;
use holdpoint_contracts::hold::{Assign, OnTimeout, Priority};
use proptest::prelude::*;
use serde_json::json;

use crate::domain::plan::limits::{Budget, Concurrency};
use crate::domain::plan::person_steps::{ApprovalRule, Ask, Handoff};
use crate::domain::plan::run_steps::{AgentRun, RunStep, RunsUntil};
use crate::domain::plan::signal_steps::{Finish, FinishStatus, OnWaitTimeout, WaitFor};
use crate::domain::plan::wait_until::{DAYS, Until, WaitUntil};
use crate::domain::plan::{
    Action, ForEach, Inputs, Limits, OnError, OnPause, Plan, PlannedStep, Retry,
};

fn on_people() -> impl Strategy<Value = Action> {
    let ends = [
        OnTimeout::Fail,
        OnTimeout::Skip,
        OnTimeout::Default,
        OnTimeout::Escalate,
    ];
    let ask = (0_usize..4).prop_map(move |end| {
        Action::Ask(Box::new(Ask {
            policies: Vec::new(),
            to: json!(["@user.owner"]),
            question: "Tell {{ contact.email }}?".to_owned(),
            options: Vec::new(),
            schema: None,
            link: None,
            time_by_policy: false,
            timeout_ms: 300_000,
            on_timeout: ends[end],
            priority: Priority::Normal,
            assign: Assign::Anyone,
            default: (ends[end] == OnTimeout::Default).then(|| json!("no")),
        }))
    });
    let handoff = (any::<bool>(), any::<bool>()).prop_map(|(ends, continues)| {
        Action::Handoff(Box::new(Handoff {
            policies: Vec::new(),
            to: json!([]),
            message: None,
            priority: Priority::Low,
            assign: Assign::Anyone,
            time_by_policy: false,
            timeout_ms: if ends { 86_400_000 } else { 0 },
            on_timeout: match continues {
                true => OnTimeout::Continue,
                false => OnTimeout::Skip,
            },
            warm_lead: None,
        }))
    });
    prop_oneof![ask, handoff]
}

/// Values of `for_each`: short lists, and a text, which fails the step.
fn items() -> impl Strategy<Value = Option<ForEach>> {
    let list = prop_oneof![
        1 => Just(json!("$input.customer")),
        9 => (0_u64..6).prop_map(|count| json!((0..count).collect::<Vec<_>>())),
    ];
    let for_each = (list, 1_u32..4).prop_map(|(items, parallel)| ForEach { items, parallel });
    prop_oneof![2 => Just(None), 1 => for_each.prop_map(Some)]
}

/// One run, the first of some, or all.
fn runs() -> impl Strategy<Value = Action> {
    (1_usize..4, 0_u8..6).prop_map(|(count, how)| {
        let until = match how % 3 {
            0 => RunsUntil::Ended,
            1 => RunsUntil::First,
            _ => RunsUntil::All,
        };
        let count = if until == RunsUntil::Ended { 1 } else { count };
        let run = AgentRun {
            agent: "helper".parse().unwrap(),
            input: json!("$input.customer"),
        };
        Action::Run(Box::new(RunStep {
            until,
            runs: vec![run; count],
            timeout_ms: 86_400_000,
            on_timeout: match how < 3 {
                true => OnWaitTimeout::Skip,
                false => OnWaitTimeout::Fail,
            },
        }))
    })
}

type AStep = (Action, Option<String>, u8, bool, Option<ForEach>);

fn a_step() -> impl Strategy<Value = AStep> {
    let wait = (1_u64..90).prop_map(|days| Action::Wait {
        duration_ms: days * 86_400_000,
    });
    let until = (0_u32..8).prop_map(|day| {
        let day = DAYS.get(day as usize);
        let until = day.map_or(Until::BusinessDays(3), |(_, day)| Until::Weekday {
            day: *day,
            minutes: 540,
        });
        Action::WaitUntil(Box::new(WaitUntil {
            until,
            time_zone: "Europe/Berlin".to_owned(),
        }))
    });
    let wait_for = any::<bool>().prop_map(|skips| {
        Action::WaitFor(WaitFor {
            signal: "go".to_owned(),
            timeout_ms: 86_400_000,
            on_timeout: match skips {
                true => OnWaitTimeout::Skip,
                false => OnWaitTimeout::Fail,
            },
        })
    });
    let finish = any::<bool>().prop_map(|fails| {
        Action::Finish(Finish {
            summary: "{{ contact.email }}".to_owned(),
            status: match fails {
                true => FinishStatus::Failed,
                false => FinishStatus::Completed,
            },
            output: None,
        })
    });
    let tool = (any::<bool>(), 0_u8..8).prop_map(|(idempotent, kind)| Action::Tool {
        // The result of a tool that is not built in can be sent back.
        tool: if kind % 2 == 0 { "draft" } else { "send_email" }.to_owned(),
        args: match kind {
            // Fails where the first step has no such result, or is not done.
            0 => json!({ "idempotent": idempotent, "what": "$step-01.n" }),
            1 => json!({ "idempotent": idempotent, "to": "{{ contact.email }}" }),
            _ => json!({ "idempotent": idempotent }),
        },
    });
    let when = prop_oneof![
        4 => Just(None),
        1 => Just(Some("contact.replied == false".to_owned())),
        1 => Just(Some("input.go == true".to_owned())),
    ];
    (
        prop_oneof![8 => wait, 3 => until, 6 => wait_for, 6 => runs(), 1 => finish, 15 => tool, 10 => on_people()],
        when,
        any::<u8>(),
        prop::bool::weighted(0.3),
        items(),
    )
}

/// An hour is shorter than most pauses of these histories, so approvals expire in some of them.
fn an_hour() -> ApprovalRule {
    ApprovalRule {
        valid_ms: 3_600_000,
        valid_by_policy: false,
        ..ApprovalRule::default()
    }
}

/// Mostly the run fails with the step.
fn on_error(chance: u8, action: &Action) -> OnError {
    match chance % 8 {
        1 => OnError::Continue,
        2 => OnError::SkipRest,
        3 if !matches!(action.kind(), "wait" | "finish" | "handoff") => OnError::Handoff,
        _ => OnError::Fail,
    }
}

/// Most agents have none.
fn limits() -> impl Strategy<Value = Limits> {
    let budget = prop::option::weighted(0.3, 1_u32..4);
    (budget, prop::bool::weighted(0.2)).prop_map(|(steps, has_places)| Limits {
        budget: steps.map(|steps| Budget {
            steps: Some(steps),
            ..Budget::default()
        }),
        concurrency: has_places.then_some(Concurrency { runs: 1, key: None }),
        ..Limits::default()
    })
}

/// Up to six steps, each after any of those before it.
pub(in super::super) fn a_plan() -> impl Strategy<Value = Plan> {
    let steps = prop::collection::vec(a_step(), 1..=6);
    (steps, prop::bool::weighted(0.2), limits()).prop_map(|(steps, lacks, limits)| Plan {
        inputs: lacks.then(|| Inputs {
            schema: json!({
                "type": "object",
                "properties": { "region": { "type": "string" } },
                "required": ["region"],
            }),
            ask: true,
        }),
        agent: "outreach".to_owned(),
        description: None,
        on_pause: OnPause::Hold,
        limits,
        working_days: WorkingDays::default(),
        planner: None,
        words: Vec::new(),
        steps: steps
            .into_iter()
            .enumerate()
            .map(
                |(index, (action, when, needs, is_gated, for_each))| PlannedStep {
                    id: format!("step-{:02}", index + 1),
                    needs: (0..index).filter(|need| needs & (1 << need) != 0).collect(),
                    when,
                    claim_timeout_ms: None,
                    approval: (is_gated && action.tool().is_some()).then(|| Box::new(an_hour())),
                    timeout_ms: None,
                    on_error: on_error(needs, &action),
                    retry: (needs & 0x40 != 0 && action.tool().is_some()).then_some(Retry {
                        attempts: 2,
                        ..Retry::NONE
                    }),
                    for_each: for_each
                        .filter(|_| matches!(action.kind(), "tool" | "ask" | "handoff"))
                        .map(Box::new),
                    action,
                },
            )
            .collect(),
    })
}
