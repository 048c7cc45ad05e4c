//! Inputs that tests give.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::{ChildRunEnd, PauseWaiting, ScheduledStart};
use holdpoint_contracts::hold::{HandoffEvent, HandoffEventKind, HoldOutcome};
use holdpoint_contracts::run::RunStatus;
use holdpoint_contracts::scheduler::WhenPaused;
use holdpoint_ids::{HoldId, RunId};
use serde_json::{Value, json};

use super::{owner, run_id};
use crate::domain::RunInput;
use crate::domain::run::person_hold::HoldClosure;

/// How `ada` closes a hold.
pub(in super::super) fn closing(
    outcome: HoldOutcome,
    data: Value,
    at: DateTime<Utc>,
) -> HoldClosure {
    HoldClosure {
        outcome,
        data,
        by: "ada".to_owned(),
        at,
        handoff_events: Vec::new(),
        by_rung: None,
        approval: None,
    }
}

/// How a child run ends.
pub(in super::super) fn child_end(child: RunId, hold: HoldId, status: RunStatus) -> ChildRunEnd {
    let is_completed = status == RunStatus::Completed;
    ChildRunEnd {
        id: hold,
        child,
        rev: 3,
        status,
        code: (!is_completed).then(|| "http_status".to_owned()),
        message: "That is all.".to_owned(),
        output: if is_completed {
            json!({ "of": child })
        } else {
            Value::Null
        },
        steps: 2,
        cost: 0.5,
        at: DateTime::UNIX_EPOCH,
    }
}

/// What `ada` does with a handoff that stands.
pub(in super::super) fn handoff_event(
    rev: u64,
    kind: HandoffEventKind,
    at: DateTime<Utc>,
) -> HandoffEvent {
    let to = match kind {
        HandoffEventKind::Reassigned => vec!["@user.bob".to_owned()],
        HandoffEventKind::Accepted | HandoffEventKind::TakenOver | HandoffEventKind::Timed => {
            Vec::new()
        }
    };
    HandoffEvent {
        rev,
        kind,
        by: "ada".to_owned(),
        at,
        to,
        within_ms: None,
    }
}

pub(in super::super) fn start_input() -> RunInput {
    RunInput::Start {
        agent: "outreach".parse().unwrap(),
        input: json!({ "go": true, "customer": "c-7" }),
        contact: Some("ada".parse().unwrap()),
        labels: BTreeMap::new(),
        by: owner(),
    }
}

/// The start of a fire of the schedule `daily`.
pub(in super::super) fn scheduled_start() -> RunInput {
    RunInput::StartScheduled(Box::new(ScheduledStart {
        run: run_id(),
        schedule: "daily".parse().unwrap(),
        agent: "outreach".parse().unwrap(),
        input: json!({ "go": true }),
        fired_at: DateTime::UNIX_EPOCH,
        when_paused: WhenPaused::Skip,
        unless_open: None,
    }))
}

pub(in super::super) fn pause_input() -> RunInput {
    RunInput::Pause {
        by: owner(),
        waiting: PauseWaiting::Hold,
    }
}
