//! `run show`.

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::run::{
    ApprovalState, ApprovalView, FailedAttempt, PausedBy, RunStatus, RunView, StepView, WaitingOn,
};

use super::super::{Session, api_text, cells, instant, short_args};
use crate::exit::ExitKind;
use crate::table::{Rows, fact_lines};

/// Newest failed attempts of a step that are shown; `--json` has all of them.
const ATTEMPTS_SHOWN: usize = 3;

pub(super) async fn show(session: &Session, run: &str) -> anyhow::Result<ExitKind> {
    let body = session.client.run(run).await?;
    // The time left depends on Holdpoint's clock, which may be a test clock. Without it only
    // deadlines are shown.
    let clock = if session.json {
        None
    } else {
        session.client.clock().await.ok()
    };
    let now = clock.map(|clock| clock.value.now);
    session.show(&body, |run| {
        let mut text = facts(run, now);
        if !run.steps.is_empty() {
            text.push_str(&format!("\n\n{}", steps(&run.steps, now)));
        }
        text
    })
}

/// All facts except the steps, one per line.
pub(super) fn facts(run: &RunView, now: Option<DateTime<Utc>>) -> String {
    let mut facts = vec![
        ("run", run.id.to_string()),
        ("agent", format!("{} (version {})", run.agent, run.version)),
        ("status", run.status.to_string()),
        ("message", run.message.clone()),
    ];
    let contact = run.contact.iter();
    facts.extend(contact.map(|contact| ("contact", contact.to_string())));
    let parent = run.parent.iter();
    facts.extend(parent.map(|parent| ("parent", format!("{} ({})", parent.run, parent.step))));
    let labels = run.labels.iter();
    facts.extend(labels.map(|(name, value)| ("label", format!("{name}={value}"))));
    facts.push(("created", instant(run.created_at)));
    facts.extend(run.ended_at.map(|at| ("ended", instant(at))));
    let holds = run.waiting_on.iter();
    facts.extend(holds.map(|hold| ("waits for", hold_text(hold, now))));
    for step in &run.steps {
        let approval = step.approval_state.as_ref();
        let text = approval.and_then(|approval| approval_text(&step.id, approval));
        facts.extend(text.map(|text| ("approval", text)));
        facts.extend(step.child_runs.iter().map(|child| {
            let status = child.status.map_or("not started", RunStatus::as_str);
            let text = format!("{} of {}: {} {status}", child.run, step.id, child.agent);
            ("child", text)
        }));
        let early = step.early_call.as_ref();
        let early = early.map(|_| format!("{} may be approved before it is reached", step.id));
        facts.extend(early.map(|text| ("approval", text)));
        let edited = approval.and(step.request.as_ref());
        let edited = edited.filter(|_| approval.is_some_and(|one| one.original_args.is_some()));
        facts.extend(edited.map(|args| ("edited", format!("{} to {}", step.id, short_args(args)))));
        let failed = step.failed_attempts.iter().rev().take(ATTEMPTS_SHOWN).rev();
        facts.extend(failed.map(|attempt| ("attempt", attempt_text(&step.id, attempt))));
    }
    let pauses = run.paused_by.iter();
    facts.extend(pauses.map(|pause| ("paused", pause_text(pause))));
    if let (Some(at), Some(reason)) = (run.paused_at, &run.pause_reason) {
        facts.push(("suspended", format!("at {}: {reason}", instant(at))));
    }
    if let Some(result) = &run.result {
        let summary = result.get("summary").and_then(|summary| summary.as_str());
        let summary = summary.map_or_else(|| result.to_string(), str::to_owned);
        facts.push(("result", summary));
    }
    if let Some(failure) = &run.failure {
        let class = api_text(&failure.class);
        let text = format!("{} ({}, {class})", failure.message, failure.code);
        facts.push(("failure", text));
    }
    fact_lines(&facts)
}

fn hold_text(hold: &WaitingOn, now: Option<DateTime<Utc>>) -> String {
    let left = match (hold.until, hold.remaining_ms) {
        (Some(until), _) => {
            let left = now.map(|now| format!("{} left, ", describe(positive(until - now))));
            format!("{}until {}", left.unwrap_or_default(), instant(until))
        }
        (None, Some(ms)) => {
            let left = describe(std::time::Duration::from_millis(ms));
            format!("{left} left when it was paused")
        }
        (None, None) => "without a deadline".to_owned(),
    };
    // A hold on the run as a whole, such as a take-over, belongs to no step.
    let step = match hold.step.as_str() {
        "" => String::new(),
        step => format!(" ({step})"),
    };
    format!("{}{step}, {left}; then: {}", hold.kind, hold.then)
}

/// Why an attempt of a tool failed.
fn attempt_text(step: &str, failed: &FailedAttempt) -> String {
    let (number, at) = (failed.attempt, instant(failed.at));
    let (why, code) = (&failed.response.description, &failed.error_code);
    format!("{number} of {step} failed at {at}: {why} ({code})")
}

/// Who decided about a gated step. While it waits, the line of its hold says so.
fn approval_text(step: &str, approval: &ApprovalView) -> Option<String> {
    let word = match approval.state {
        ApprovalState::Requested => return None,
        ApprovalState::Approved => "approved",
        ApprovalState::Rejected => "rejected",
        ApprovalState::Revised => "sent back",
    };
    let by = approval.by.as_deref().unwrap_or("a user");
    let mut text = format!("{step} {word} by {by}");
    if let Some(at) = approval.at {
        text.push_str(&format!(" at {}", instant(at)));
    }
    if approval.original_args.is_some() {
        text.push_str(", edited");
    }
    if let Some(comment) = &approval.comment {
        text.push_str(&format!(": {comment}"));
    }
    Some(text)
}

fn pause_text(pause: &PausedBy) -> String {
    let mut text = format!("by {} at {}", pause.by, instant(pause.at));
    if !pause.in_flight.is_empty() {
        text.push_str(&format!("; still running: {}", pause.in_flight.join(", ")));
    }
    text
}

fn steps(steps: &[StepView], now: Option<DateTime<Utc>>) -> String {
    let mut rows = Rows::new(&[
        "STEP", "STATUS", "ACTION", "ATTEMPTS", "STARTED", "TOOK", "ERROR",
    ]);
    for step in steps {
        let ended_at = step.ended_at.or(now);
        let took = step.started_at.zip(ended_at).map(|(from, to)| to - from);
        let started_at = step.started_at.map(instant);
        let took = took.map(positive).map(describe);
        let (status, attempts) = (step.status, step.attempts);
        rows.push(cells![
            step.id,
            status,
            step.action,
            attempts,
            started_at,
            took,
            step.error_code
        ]);
    }
    rows.render()
}

/// Clocks differ slightly, so a difference may be negative.
fn positive(delta: TimeDelta) -> std::time::Duration {
    delta.to_std().unwrap_or_default()
}
