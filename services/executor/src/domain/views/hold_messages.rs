//! Sentences about holds: what they wait for, how they end, and what follows.

use std::time::Duration;

use holdpoint_contracts::asking::AskMode;
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::hold::OnTimeout;
use holdpoint_contracts::run::HoldKind;

use crate::domain::model::plan::OnError;
use crate::domain::model::plan::person_steps::whom;
use crate::domain::model::plan::signal_steps::{OnWaitTimeout, signal_text};
use crate::domain::model::run::{Backoff, Hold, PersonHold, Run, Step};

/// Units of the remaining time, in milliseconds.
const SECOND_MS: u64 = 1_000;

const MINUTE_MS: u64 = 60_000;

const DAY_MS: u64 = 86_400_000;

/// The remaining time of a wait, rounded up: to minutes from one day on, else to seconds. A wait of five days
/// shows as five days right after it began (S0-AC1).
pub(crate) fn time_left(ms: u64) -> Duration {
    let unit_ms = if ms >= DAY_MS { MINUTE_MS } else { SECOND_MS };
    Duration::from_millis(ms.div_ceil(unit_ms).saturating_mul(unit_ms))
}

/// Why a passed deadline changed something.
pub(crate) fn timeout_message(on: &PersonHold) -> String {
    let length = on
        .length_ms
        .map(|ms| format!(" within {}", describe(Duration::from_millis(ms))))
        .unwrap_or_default();
    let who = whom(&on.to);
    match on.kind {
        HoldKind::Handoff => format!("{who} did not complete the handoff{length}"),
        HoldKind::Approval => format!("{who} did not decide{length}: {}", on.asks),
        HoldKind::Input | HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun => {
            format!("{who} did not answer{length}: {}", on.asks)
        }
    }
}

/// Nothing of the run has begun. Its turn comes after some time, if the rate of its agent delays it.
pub(crate) fn accepted_message(run: &Run, turn: Option<Duration>) -> String {
    let agent = &run.agent;
    match (turn, run.places().filter(|_| run.lacks_place())) {
        (Some(left), _) => {
            let left = describe(left);
            format!("Queued: the rate of {agent} lets it start in {left}.")
        }
        (None, Some(runs)) => {
            format!("Queued: at most {runs} such runs of {agent} are in progress.")
        }
        (None, None) => "Accepted.".to_owned(),
    }
}

/// What a step does until its time is over.
pub(crate) fn timer_message(step: &str, hold: &Hold, left: Duration) -> String {
    let left = describe(left);
    if hold.child_runs.is_some() {
        return format!("{step}: waiting for its runs, at most {left} more.");
    }
    match (&hold.signal, hold.backoff) {
        (Some(signal), _) => {
            let what = signal_text(&signal.name);
            format!("{step}: waiting for {what}, at most {left} more.")
        }
        (None, Some(Backoff { attempt, attempts })) => {
            format!("Trying {step} again in {left} (attempt {attempt} of {attempts}).")
        }
        (None, None) => format!("Agent paused. Will resume in {left}."),
    }
}

/// What follows when a timer ends.
pub(crate) fn timer_outcome_message(hold: &Hold) -> String {
    if let Some(on_timeout) = hold.child_runs {
        let then = match on_timeout {
            OnWaitTimeout::Fail => "After the deadline the step fails.",
            OnWaitTimeout::Skip => "After the deadline the step is skipped.",
        };
        return format!("After its runs the remaining steps run. {then}");
    }
    let awaited = hold.signal.as_deref();
    match (awaited.map(|signal| signal.on_timeout), hold.backoff) {
        (Some(OnWaitTimeout::Fail), _) => {
            "After the signal the remaining steps run. After the deadline the step fails."
                .to_owned()
        }
        (Some(OnWaitTimeout::Skip), _) => {
            "After the signal the remaining steps run. After the deadline the step is skipped."
                .to_owned()
        }
        (None, Some(Backoff { attempt, attempts })) => {
            format!("The tool is called again: attempt {attempt} of {attempts}.")
        }
        (None, None) => "The remaining steps run.".to_owned(),
    }
}

pub(crate) fn hold_message(step: Option<&Step>, on: &PersonHold) -> String {
    let who = whom(&on.to);
    if let Some(taken) = &on.taken {
        return format!("{} has taken over.", taken.by);
    }
    let what = step
        .map(|step| format!("{}: ", step.id))
        .unwrap_or_default();
    match on.kind {
        HoldKind::Handoff => format!("{what}handed off to {who}."),
        HoldKind::Approval => format!("{what}waiting for the approval of {who}."),
        HoldKind::Input | HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun => {
            format!("{what}waiting for an answer of {who}: {}", on.asks)
        }
    }
}

/// What follows if the deadline fails the step.
fn late_failure(step: Option<&Step>, on: &PersonHold) -> &'static str {
    match step.map_or(OnError::Fail, |step| step.on_error) {
        OnError::Continue => "After the deadline the step fails, and the remaining steps run.",
        OnError::SkipRest => {
            "After the deadline the step fails, and the remaining steps are skipped."
        }
        OnError::Handoff if on.kind != HoldKind::Handoff => {
            "After the deadline the owners get a handoff of the step."
        }
        OnError::Fail | OnError::Handoff => "After the deadline the run fails.",
    }
}

/// What follows from an answer, and from the deadline.
pub(crate) fn hold_outcome_message(step: Option<&Step>, on: &PersonHold) -> String {
    if on.closing.is_some() {
        return "It has been decided, and takes effect when the run moves.".to_owned();
    }
    if on.taken.is_some() {
        return "The agent goes on, or the run ends, as the person says.".to_owned();
    }
    let asks = step.and_then(Step::open_question).map(|open| open.mode);
    let decided = match on.kind {
        HoldKind::Handoff => "Once it is completed the agent goes on, or the run ends.",
        HoldKind::Input if asks == Some(AskMode::Block) => "Once it is answered the tool goes on.",
        HoldKind::Input if asks == Some(AskMode::Park) => {
            "Once it is answered the tool is called again, with the answer."
        }
        HoldKind::Input if step.and_then(Step::missing_tool).is_some() => {
            "The step keeps waiting or fails, as it is answered."
        }
        HoldKind::Approval => {
            "Once it is approved the step runs. If it is rejected the step is skipped."
        }
        HoldKind::Input | HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun => {
            "Once it is answered the remaining steps run."
        }
    };
    let late = match (on.length_ms, on.on_timeout) {
        (None, _) => "It has no deadline.",
        (_, OnTimeout::Fail) => late_failure(step, on),
        (_, OnTimeout::Skip) => "After the deadline the step is skipped.",
        (_, OnTimeout::Default) => "After the deadline the default answer counts.",
        (_, OnTimeout::Continue) => "After the deadline the remaining steps run.",
        (_, OnTimeout::Escalate) => {
            "After the deadline others are notified; a decision still counts."
        }
    };
    format!("{decided} {late}")
}
