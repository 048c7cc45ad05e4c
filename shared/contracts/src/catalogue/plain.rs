//! One sample of every message that is neither a command nor a query.

use serde_json::json;

use super::samples::{at, run_id};
use super::{Entry, acme, message};
use crate::dead_letter::DeadLetterRequest;
use crate::history::Nudge;
use crate::message::{Actor, Reply};
use crate::scheduler::{AdvanceClock, AdvancedClock, DueBucket};
use crate::steps::StepDispatch;
use crate::{executor, scheduler, subject};

pub(super) fn messages() -> Vec<Entry> {
    let step_dispatch = StepDispatch {
        answers: std::collections::BTreeMap::new(),
        workspace: acme(),
        run: run_id(),
        agent: "outreach".parse().unwrap(),
        step: "step-01".to_owned(),
        dispatch: 1,
        attempt: 1,
        tool: "crm.find".parse().unwrap(),
        args: json!({ "email": "ada@lindqvist.example" }),
        contact: Some("c-ada".parse().unwrap()),
        idempotent: false,
        claim_timeout_ms: 30_000,
        token: Some("hps_eyJ9.c2ln".to_owned()),
        http: None,
        user: Actor("owner".to_owned()),
        traceparent: "00-01920000000070008000000000000001-0000000100000001-01".to_owned(),
        at: at("02T09:00:00"),
    };
    let nudge = Nudge {
        runs: vec![(run_id(), 3)],
    };
    let bucket = DueBucket {
        shard: 0,
        second: 1_772_874_000,
    };
    let advance = AdvanceClock {
        by_ms: 432_000_000,
        settle_ms: 10_000,
    };
    let advanced: Reply<AdvancedClock> = Reply::Ok(AdvancedClock {
        now: at("07T09:00:00"),
        settled: true,
        unsettled: Vec::new(),
    });
    let queue = subject::steps(&acme(), "crm.find");
    let live = subject::live(&acme(), executor::SERVICE);
    let moved = subject::CLOCK_ADVANCE.to_owned();
    let mut clock = message(scheduler::SERVICE, "advance_clock", moved, &advance);
    clock.answer = Some(super::body(&advanced));
    let letters = subject::dead_letters(&acme(), executor::SERVICE);
    let replay = DeadLetterRequest::Replay { id: 12 };
    let due = subject::timer_due(0);
    let mut buckets = message(scheduler::SERVICE, "due_bucket", due, &bucket);
    buckets
        .subjects
        .push(subject::timer_bucket(0, bucket.second));
    vec![
        message(executor::SERVICE, "step_dispatch", queue, &step_dispatch),
        message(executor::SERVICE, "nudge", live, &nudge),
        message(executor::SERVICE, "dead_letters", letters, &replay),
        buckets,
        clock,
    ]
}
