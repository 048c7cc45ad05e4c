//! Sentences about holds: what they wait for, how they end, and what follows.

use std::time::Duration;

use holdpoint_contracts::asking::AskMode;
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::hold::OnTimeout;
use holdpoint_contracts::run::HoldKind;

use crate::domain::model::plan::person_steps::whom;
use crate::domain::model::run::{Backoff, PersonHold, Step};

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
        HoldKind::Input | HoldKind::Timer => {
            format!("{who} did not answer{length}: {}", on.asks)
        }
    }
}

/// What a step does until its tool is called again.
pub(crate) fn backoff_message(step: &str, backoff: Backoff, left: Duration) -> String {
    let Backoff { attempt, attempts } = backoff;
    let left = describe(left);
    format!("Trying {step} again in {left} (attempt {attempt} of {attempts}).")
}

/// What follows when a timer ends.
pub(crate) fn timer_outcome_message(backoff: Option<Backoff>) -> String {
    match backoff {
        Some(Backoff { attempt, attempts }) => {
            format!("The tool is called again: attempt {attempt} of {attempts}.")
        }
        None => "The remaining steps run.".to_owned(),
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
        HoldKind::Input | HoldKind::Timer => {
            format!("{what}waiting for an answer of {who}: {}", on.asks)
        }
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
        HoldKind::Approval => {
            "Once it is approved the step runs. If it is rejected the step is skipped."
        }
        HoldKind::Input | HoldKind::Timer => "Once it is answered the remaining steps run.",
    };
    let late = match (on.length_ms, on.on_timeout) {
        (None, _) => "It has no deadline.",
        (_, OnTimeout::Fail) => "After the deadline the run fails.",
        (_, OnTimeout::Skip) => "After the deadline the step is skipped.",
        (_, OnTimeout::Default) => "After the deadline the default answer counts.",
        (_, OnTimeout::Continue) => "After the deadline the remaining steps run.",
        (_, OnTimeout::Escalate) => {
            "After the deadline others are notified; a decision still counts."
        }
    };
    format!("{decided} {late}")
}
