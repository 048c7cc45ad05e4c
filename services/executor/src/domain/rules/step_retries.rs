//! When a tool that failed is called again, and what is kept of its failed attempts.

use std::time::Duration;

use chrono::{DateTime, Utc};
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::instant;
use holdpoint_contracts::run::{ActionResult, FailedAttempt};
use holdpoint_contracts::steps::TIMEOUT_CODE;
use holdpoint_ids::{NodeName, RunId};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::domain::decision::Undecided;
use crate::domain::model::plan::{PlannedStep, Retry};
use crate::domain::model::run::{
    AtWorker, Backoff, Dispatched, Hold, MissingTool, Step, StepGrant, StepPhase, Timer,
};
use crate::domain::model::time::{after, millis_between};
use crate::domain::need::Need;
use crate::domain::rules::fail_step::fail_step;
use crate::domain::rules::open_hold::next_hold_id;
use crate::domain::rules::uncertain_steps::{Doubt, ask_about_step};
use crate::domain::transition::{RowData, RunTransition, ToolError};

/// Failed attempts whose response a step keeps, the newest.
const FAILED_ATTEMPTS_MAX: usize = 10;

/// A backoff is shortened by up to this share, so that steps that fail together are not repeated together.
const JITTER_PERCENT: u64 = 25;

/// Failures that do not say whether the tool had its effect: no end in time, a broken connection, or no reply of a mail
/// server. A call that must not be made twice becomes uncertain, whatever its `retry` says.
const DOUBTFUL_CODES: [&str; 4] = [
    TIMEOUT_CODE,
    "http_failed",
    // An earlier worker has one code for each mail that was not sent, or may have been sent.
    "mail_not_sent",
    "mail_unconfirmed",
];

/// Failures that every attempt would repeat. They are retried only if the author names them.
const FINAL_CODES: [&str; 13] = [
    "cannot_ask",
    "invalid_args",
    // The tool has succeeded, and only its data is wrong.
    "invalid_result",
    "mail_not_composed",
    "no_contact",
    "redirect_refused",
    "request_too_large",
    "response_too_large",
    "result_not_allowed",
    "result_too_large",
    "sandbox_too_large",
    "target_refused",
    "too_many_redirects",
];

/// Failures of a tool that may have had its effect: its result is not taken, a redirect followed it, or its sandbox is
/// too large.
const HAPPENED_CODES: [&str; 6] = [
    "invalid_result",
    "response_too_large",
    "result_not_allowed",
    "result_too_large",
    "sandbox_too_large",
    "too_many_redirects",
];

/// A failed call of a tool.
pub(crate) struct FailedCall<'c> {
    pub(crate) node: &'c NodeName,
    pub(crate) code: &'c str,
    pub(crate) error: ToolError,
    /// False: its worker was silent for too long.
    pub(crate) is_reported: bool,
}

/// Handles a failed call: the tool is called again after a backoff, or people are asked whether it happened, or
/// its step fails.
pub(crate) fn end_attempt(
    transition: &mut RunTransition<'_>,
    index: usize,
    failed: FailedCall<'_>,
) -> Result<(), Undecided> {
    let kept = record_failure(transition, index, &failed)?;
    let FailedCall {
        node,
        code,
        mut error,
        is_reported: _,
    } = failed;
    let grant = non_idempotent_grant(transition, index, node);
    if let Some(grant) = grant.clone().filter(|_| DOUBTFUL_CODES.contains(&code)) {
        let step = transition.step(index);
        // A question that is open stays.
        if step.is_some_and(|step| step.phase.try_as_uncertain_ref().is_none()) {
            let is_timeout = code == TIMEOUT_CODE;
            let doubt = if is_timeout {
                Doubt::TimedOut
            } else {
                Doubt::Unconfirmed
            };
            ask_about_step(transition, index, grant, doubt);
        }
        let data = RowData {
            failed_attempts: kept,
            ..RowData::default()
        };
        transition.row(index, data);
        return Ok(());
    }
    if let Some(next) = next_attempt(transition, index, code)? {
        start_backoff(transition, index, &next, kept);
        return Ok(());
    }
    let shown = error.response.error.clone().unwrap_or_default();
    error.failed_attempts = kept;
    if let Some(step) = transition.step_mut(index)
        && let Some(grant) = grant.filter(|_| HAPPENED_CODES.contains(&code))
    {
        step.interrupted = Some(Box::new(grant));
    }
    fail_step(transition, index, code, &shown, Some(error));
    Ok(())
}

/// Its worker has not stopped a tool that has run for too long.
pub(crate) fn end_overdue_attempt(
    transition: &mut RunTransition<'_>,
    index: usize,
    lost: &StepGrant,
) -> Result<(), Undecided> {
    let limit = Duration::from_millis(lost.handed.timeout_ms.unwrap_or_default());
    let limit = describe(limit);
    let text = format!("no end within {limit}, and its worker did not stop it");
    let response = ActionResult {
        success: false,
        description: text.clone(),
        error: Some(text.clone()),
        data: Value::Null,
        duration_ms: millis_between(lost.since, transition.now),
    };
    let error = ToolError {
        raw: text,
        response,
        failed_attempts: Vec::new(),
    };
    let failed = FailedCall {
        node: &lost.node,
        code: TIMEOUT_CODE,
        error,
        is_reported: false,
    };
    end_attempt(transition, index, failed)
}

/// The grant of a step that must not be done twice; none: doing it twice does no harm.
fn non_idempotent_grant(
    transition: &RunTransition<'_>,
    index: usize,
    node: &NodeName,
) -> Option<StepGrant> {
    let grant = match transition.step(index)?.phase.at_worker()? {
        // No row shows that it was granted, and its worker reports it all the same.
        AtWorker::Queued(handed) => StepGrant {
            handed: Dispatched {
                missing_tool: MissingTool::NotAsked,
                ..handed.clone()
            },
            node: node.clone(),
            delivery: 0,
            since: handed.at,
        },
        AtWorker::Granted(grant) => grant.clone(),
        AtWorker::Uncertain(asked) => asked.working.clone(),
    };
    (!grant.handed.idempotent).then_some(grant)
}

/// Records a failed attempt. Returns the kept attempts, oldest first.
fn record_failure(
    transition: &mut RunTransition<'_>,
    index: usize,
    failed: &FailedCall<'_>,
) -> Result<Vec<FailedAttempt>, Undecided> {
    let mut kept = load_failed_attempts(transition, index)?;
    let at = transition.now;
    if let Some(step) = transition.step_mut(index) {
        step.failures.add(step.dispatch, failed.is_reported);
        kept.push(FailedAttempt {
            attempt: step.attempts,
            dispatch: step.dispatch,
            at,
            error_code: failed.code.to_owned(),
            response: failed.error.response.clone(),
        });
    }
    let surplus = kept.len().saturating_sub(FAILED_ATTEMPTS_MAX);
    kept.drain(..surplus);
    Ok(kept)
}

/// The failed attempts before this one are in the row of the step. A first failure loads nothing.
fn load_failed_attempts(
    transition: &RunTransition<'_>,
    index: usize,
) -> Result<Vec<FailedAttempt>, Undecided> {
    let Some(step) = transition.step(index) else {
        return Ok(Vec::new());
    };
    let Some(need) = failed_attempts_need(transition.run.id, step) else {
        return Ok(Vec::new());
    };
    let kept = transition.load_value(need)?;
    let kept = kept.and_then(|kept| serde_json::from_value((*kept).clone()).ok());
    Ok(kept.unwrap_or_default())
}

/// What another failure of a step needs; none: it is its first attempt.
pub(crate) fn failed_attempts_need(run: RunId, step: &Step) -> Option<Need> {
    // A retry of the run sets its count to zero, and its row keeps the attempts before.
    let may_have_failed = step.attempts > 1;
    may_have_failed.then(|| Need::FailedAttempts(run, step.id.clone()))
}

/// The attempt that follows a recorded failure; none: the step fails.
fn next_attempt(
    transition: &RunTransition<'_>,
    index: usize,
    code: &str,
) -> Result<Option<NextAttempt>, Undecided> {
    let plan = transition.plan()?;
    let (Some(step), Some(planned)) = (transition.step(index), transition.planned(&plan, index))
    else {
        return Ok(None);
    };
    let retry = retry_of(planned, step);
    let failures = step.failures.count;
    if failures >= retry.attempts || !is_retried(&retry, code) {
        return Ok(None);
    }
    let length_ms = retry.backoff_after(failures);
    let length_ms = length_ms - jitter(transition.run.id, &step.id, failures, length_ms);
    Ok(Some(NextAttempt {
        backoff: Backoff {
            attempt: failures + 1,
            attempts: retry.attempts,
        },
        length_ms,
    }))
}

/// The next attempt of a step, and the time before it.
struct NextAttempt {
    backoff: Backoff,
    length_ms: u64,
}

/// Only its author lets a tool be called again that may do harm twice.
fn retry_of(planned: &PlannedStep, step: &Step) -> Retry {
    if let Some(retry) = &planned.retry {
        return retry.clone();
    }
    let handed = step.phase.at_worker().map(AtWorker::dispatched);
    match handed.filter(|handed| handed.idempotent) {
        Some(handed) => handed
            .retry
            .as_deref()
            .unwrap_or(&Retry::IDEMPOTENT)
            .clone(),
        None => Retry::NONE,
    }
}

fn is_retried(retry: &Retry, code: &str) -> bool {
    if retry.on.is_empty() {
        !FINAL_CODES.contains(&code)
    } else {
        retry.on.iter().any(|one| one == code)
    }
}

/// The same for every replay of a decision.
fn jitter(run: RunId, step: &str, failures: u32, length_ms: u64) -> u64 {
    let hash = Sha256::digest(format!("{run}/{step}/{failures}"));
    let number = hash.iter().take(8);
    let number = number.fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
    let most = length_ms.saturating_mul(JITTER_PERCENT) / 100;
    number.checked_rem(most.saturating_add(1)).unwrap_or(0)
}

/// Opens a timer hold that ends with the next attempt. Its timer is the waker; a pause keeps it from being set.
fn start_backoff(
    transition: &mut RunTransition<'_>,
    index: usize,
    next: &NextAttempt,
    kept: Vec<FailedAttempt>,
) {
    let (now, rev) = (transition.now, transition.run.version);
    let id = next_hold_id(&mut transition.run);
    let due = after(now, next.length_ms);
    let moves = transition.run.pauses.is_empty() && transition.run.taken().is_none();
    let timer = if moves {
        Timer::Set { rev, at: now, due }
    } else {
        Timer::Frozen {
            remaining_ms: next.length_ms,
            due,
        }
    };
    let phase = StepPhase::Waiting(Hold {
        id,
        since: now,
        length_ms: next.length_ms,
        timer,
        backoff: Some(next.backoff),
        signal: None,
        child_runs: None,
        keeps_due: false,
    });
    let code = kept.last().map(|failed| failed.error_code.clone());
    let said = kept.last().and_then(|failed| failed.response.error.clone());
    let data = RowData {
        failed_attempts: kept,
        ..RowData::default()
    };
    if let Some(step) = transition.step_mut(index) {
        // Its tool has ended and waits for no answer.
        step.questions.open = None;
    }
    let Some(step) = transition.set_phase(index, phase, data) else {
        return;
    };
    if moves {
        transition.timer(id, Some(due));
    }
    let attempts = next.backoff.attempts;
    let message = format!(
        "Attempt {} of {attempts} failed: {}",
        next.backoff.attempt - 1,
        said.unwrap_or_default()
    );
    transition.event(
        EventType::StepAttemptFailed,
        Some(&step),
        message,
        attempt_data(next, code.as_deref(), due),
    );
}

fn attempt_data(next: &NextAttempt, code: Option<&str>, due: DateTime<Utc>) -> Value {
    json!({
        "code": code,
        "attempt": next.backoff.attempt - 1,
        "attempts": next.backoff.attempts,
        "retry_at": instant::write(due),
    })
}
