//! `run show`: one run on one screen.

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::run::{PausedBy, RunView, StepView, WaitingOn};

use super::super::{Session, instant};
use crate::exit::Outcome;
use crate::output;
use crate::table::{Rows, one_line};

pub(super) async fn show(session: &Session, run: &str) -> anyhow::Result<Outcome> {
    let answer = session.client.run(run).await?;
    if session.json {
        output::line(&answer.text)?;
        return Ok(Outcome::Ok);
    }
    // Time left is by Holdpoint's clock, which may be a test clock; without it, only due times.
    let now = session
        .client
        .clock()
        .await
        .ok()
        .map(|clock| clock.value.now);
    output::line(&facts(&answer.value, now))?;
    if !answer.value.steps.is_empty() {
        output::line(&format!("\n{}", steps(&answer.value.steps, now)))?;
    }
    Ok(Outcome::Ok)
}

/// Everything but the steps, a line each.
pub(super) fn facts(run: &RunView, now: Option<DateTime<Utc>>) -> String {
    let mut facts = vec![
        ("run", run.id.to_string()),
        ("agent", format!("{} (version {})", run.agent, run.version)),
        ("status", run.status.to_string()),
        ("message", run.message.clone()),
    ];
    facts.extend(
        run.contact
            .iter()
            .map(|contact| ("contact", contact.to_string())),
    );
    facts.extend(
        run.labels
            .iter()
            .map(|(name, value)| ("label", format!("{name}={value}"))),
    );
    facts.push(("created", instant(run.created_at)));
    facts.extend(run.ended_at.map(|at| ("ended", instant(at))));
    facts.extend(
        run.waiting_on
            .iter()
            .map(|hold| ("waits for", waits(hold, now))),
    );
    facts.extend(run.paused_by.iter().map(|pause| ("paused", paused(pause))));
    if let Some(result) = &run.result {
        let summary = result.get("summary").and_then(|summary| summary.as_str());
        facts.push((
            "result",
            summary.map_or_else(|| result.to_string(), str::to_owned),
        ));
    }
    if let Some(failure) = &run.failure {
        let class = serde_json::to_value(failure.class).unwrap_or_default();
        let class = class.as_str().unwrap_or_default();
        facts.push((
            "failure",
            format!("{} ({}, {class})", failure.message, failure.code),
        ));
    }
    let lines: Vec<_> = facts
        .iter()
        .map(|(name, value)| format!("{name:<10} {}", one_line(value)))
        .collect();
    lines.join("\n")
}

fn waits(hold: &WaitingOn, now: Option<DateTime<Utc>>) -> String {
    let left = match (hold.until, hold.remaining_ms) {
        (Some(until), _) => {
            let left = now.map(|now| format!("{} left, ", describe(positive(until - now))));
            format!("{}until {}", left.unwrap_or_default(), instant(until))
        }
        (None, Some(ms)) => {
            let left = describe(std::time::Duration::from_millis(ms));
            format!("{left} left when the clock was stopped")
        }
        (None, None) => "without a limit".to_owned(),
    };
    // A hold on the run as a whole, such as a take-over, belongs to no step.
    let step = match hold.step.as_str() {
        "" => String::new(),
        step => format!(" ({step})"),
    };
    format!("{}{step}, {left}; then: {}", hold.kind, hold.then)
}

fn paused(pause: &PausedBy) -> String {
    let mut text = format!("by {} at {}", pause.by, instant(pause.at));
    if !pause.in_flight.is_empty() {
        text.push_str(&format!("; still at work: {}", pause.in_flight.join(", ")));
    }
    text
}

fn steps(steps: &[StepView], now: Option<DateTime<Utc>>) -> String {
    let mut rows = Rows::new(&[
        "STEP", "STATUS", "ACTION", "ATTEMPTS", "STARTED", "TOOK", "ERROR",
    ]);
    for step in steps {
        let took = step
            .started_at
            .zip(step.ended_at.or(now))
            .map(|(from, to)| to - from);
        rows.push([
            step.id.clone(),
            step.status.to_string(),
            step.action.clone(),
            step.attempts.to_string(),
            step.started_at.map(instant).unwrap_or_default(),
            took.map(|took| describe(positive(took)))
                .unwrap_or_default(),
            step.error_code.clone().unwrap_or_default(),
        ]);
    }
    rows.render()
}

/// Clocks differ a little; less than nothing is nothing.
fn positive(delta: TimeDelta) -> std::time::Duration {
    delta.to_std().unwrap_or_default()
}
