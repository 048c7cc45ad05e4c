//! States, times and consequences in the words that people read.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::Tz;
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::handoff::{Effect, RequestStatus, RequestView};
use holdpoint_contracts::hold::{HoldOutcome, OnTimeout, Priority};
use holdpoint_contracts::instant;
use holdpoint_contracts::run::{HoldKind, RunStatus, StepStatus};
use maud::{Markup, html};

/// How a state looks: the colour only repeats what the word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Calm,
    Busy,
    Waits,
    Good,
    Bad,
}

impl Tone {
    const fn class(self) -> &'static str {
        match self {
            Self::Calm => "chip calm",
            Self::Busy => "chip busy",
            Self::Waits => "chip waits",
            Self::Good => "chip good",
            Self::Bad => "chip bad",
        }
    }
}

/// A word in a coloured box.
pub(super) fn chip(tone: Tone, word: &str) -> Markup {
    html! { span class=(tone.class()) { (word) } }
}

pub(super) const fn kind(kind: HoldKind) -> &'static str {
    match kind {
        HoldKind::Timer => "Timer",
        HoldKind::Approval => "Approval",
        HoldKind::Input => "Question",
        HoldKind::Handoff => "Handoff",
    }
}

/// Nothing for what is as most things are.
pub(super) fn priority(priority: Priority) -> Option<Markup> {
    match priority {
        Priority::Normal => None,
        Priority::Low => Some(chip(Tone::Calm, "Low priority")),
        Priority::High => Some(chip(Tone::Waits, "High priority")),
        Priority::Urgent => Some(chip(Tone::Bad, "Urgent")),
        Priority::Critical => Some(chip(Tone::Bad, "Critical")),
    }
}

pub(super) fn status(request: &RequestView) -> Markup {
    let (tone, word) = match request.status {
        RequestStatus::Open if request.remaining_ms.is_some() => (Tone::Calm, "Paused"),
        RequestStatus::Open => (Tone::Waits, "Open"),
        RequestStatus::Offered => (Tone::Waits, "Offered"),
        RequestStatus::Accepted => (Tone::Busy, "Accepted"),
        RequestStatus::TakenOver => (Tone::Busy, "Taken over"),
        RequestStatus::Reassigned => (Tone::Waits, "Reassigned"),
        RequestStatus::Decided => decided(request.outcome),
        RequestStatus::Completed => (Tone::Good, "Completed"),
        RequestStatus::Expired => (Tone::Bad, "Time was up"),
        RequestStatus::Withdrawn => (Tone::Calm, "Withdrawn"),
    };
    chip(tone, word)
}

fn decided(outcome: Option<HoldOutcome>) -> (Tone, &'static str) {
    match outcome {
        Some(HoldOutcome::Rejected) => (Tone::Bad, "Rejected"),
        Some(HoldOutcome::Approved) => (Tone::Good, "Approved"),
        Some(HoldOutcome::Answered) => (Tone::Good, "CommandOutcome"),
        Some(HoldOutcome::Completed | HoldOutcome::TakenOver) => (Tone::Good, "Completed"),
        Some(HoldOutcome::Timeout | HoldOutcome::Cancelled | HoldOutcome::Fired) | None => {
            (Tone::Good, "Decided")
        }
    }
}

/// `Approved by ada`, as the beginning of a sentence.
pub(super) const fn outcome(outcome: HoldOutcome) -> &'static str {
    match outcome {
        HoldOutcome::Answered => "CommandOutcome",
        HoldOutcome::Approved => "Approved",
        HoldOutcome::Rejected => "Rejected",
        HoldOutcome::Completed => "Completed",
        HoldOutcome::TakenOver => "Taken over",
        HoldOutcome::Timeout => "Time was up; ended",
        HoldOutcome::Cancelled => "Withdrawn",
        HoldOutcome::Fired => "Fired",
    }
}

/// What stands for what a reader is not shown.
pub(super) const REDACTED: &str = "What is known of the contact, and what people said, is shown to those who are asked, to whoever asks, and to operators.";

/// Why it is asked, where that is one of our own reasons; none: the words are somebody's own.
pub(super) fn reason(reason: &str) -> Option<&'static str> {
    match reason {
        "uncertain" => Some(
            "Its worker was given the step and never reported. It may have happened, or not: look where it would show, then say so.",
        ),
        "missing_input" => Some(
            "The run lacks inputs that its steps need; its first step starts when they are given.",
        ),
        "operator_takeover" => Some(
            "An operator has taken this run over while it was at work; its agent stands still until the run is completed or handed back.",
        ),
        _ => None,
    }
}

/// What a decision did.
pub(super) const fn effect(effect: Effect, has_run: bool) -> &'static str {
    match (effect, has_run) {
        (Effect::Applied, true) => "The run went on with it.",
        (Effect::Applied, false) => "Whoever asked has the answer.",
        (Effect::OnResume, _) => "The run is paused: it takes effect when the run is resumed.",
        (Effect::RunEnded, _) => "The run had ended before: it changed nothing.",
        (Effect::Pending, true) => "It is recorded; the run has not said yet what it does with it.",
        (Effect::Pending, false) => "It is recorded.",
    }
}

/// What happens when nobody decides in time.
pub(super) const fn then(request: &RequestView) -> &'static str {
    match (request.on_timeout, request.run.is_some()) {
        (OnTimeout::Fail, true) => "Then the run fails.",
        (OnTimeout::Fail, false) => "Then it ends without an answer.",
        (OnTimeout::Skip, true) => "Then the step is skipped and the run goes on.",
        (OnTimeout::Skip, false) => "Then it ends as skipped.",
        (OnTimeout::Default, true) => "Then the default answer counts and the run goes on.",
        (OnTimeout::Default, false) => "Then the default answer counts.",
        (OnTimeout::Continue, true) => "Then the run goes on without you.",
        (OnTimeout::Continue, false) => "Then it ends, and nothing else happens.",
        (OnTimeout::Escalate, _) => "Then the next people are told; it stays open.",
    }
}

pub(super) fn run_status(status: RunStatus) -> Markup {
    let (tone, word) = match status {
        RunStatus::Queued => (Tone::Calm, "Queued"),
        RunStatus::Running => (Tone::Busy, "Running"),
        RunStatus::Waiting => (Tone::Calm, "Waiting"),
        RunStatus::AwaitingApproval => (Tone::Waits, "Awaiting approval"),
        RunStatus::AwaitingInput => (Tone::Waits, "Awaiting input"),
        RunStatus::PausedForIntervention => (Tone::Waits, "Suspended"),
        RunStatus::Completed => (Tone::Good, "Completed"),
        RunStatus::Failed => (Tone::Bad, "Failed"),
        RunStatus::Cancelled => (Tone::Calm, "Cancelled"),
    };
    chip(tone, word)
}

pub(super) fn step_status(status: StepStatus) -> Markup {
    let (tone, word) = match status {
        StepStatus::Planned => (Tone::Calm, "Planned"),
        StepStatus::WaitingConfirm => (Tone::Waits, "Awaiting approval"),
        StepStatus::Queued => (Tone::Calm, "Queued"),
        StepStatus::Claimed => (Tone::Busy, "Claimed"),
        StepStatus::InProgress => (Tone::Busy, "In progress"),
        StepStatus::Waiting => (Tone::Calm, "Waiting"),
        StepStatus::Stale => (Tone::Bad, "Worker silent"),
        StepStatus::Uncertain => (Tone::Waits, "Uncertain"),
        StepStatus::Completed => (Tone::Good, "Completed"),
        StepStatus::Failed => (Tone::Bad, "Failed"),
        StepStatus::Skipped => (Tone::Calm, "Skipped"),
        StepStatus::Cancelled => (Tone::Calm, "Cancelled"),
    };
    chip(tone, word)
}

/// An instant in the reader's zone, with the exact one behind it.
pub(super) fn instant(at: DateTime<Utc>, zone: Tz) -> Markup {
    let exact = instant::write(at);
    let local = at.with_timezone(&zone).format("%-d %b %Y, %H:%M %Z");
    html! { time datetime=(exact) title=(exact) { (local) } }
}

/// An instant to come as the time that is left; the script counts it down. It never promises more
/// than there is.
pub(super) fn until(at: DateTime<Utc>, now: DateTime<Utc>) -> Markup {
    let exact = instant::write(at);
    html! { time datetime=(exact) title=(exact) data-until=(at.timestamp_millis()) { (left(at - now)) } }
}

/// `in 2 days 4 hours`; minutes are the smallest that is told while there are any.
fn left(time: TimeDelta) -> String {
    match time.to_std() {
        Err(_past) => "now: its time is up".to_owned(),
        Ok(time) if time < Duration::from_mins(1) => "in less than a minute".to_owned(),
        Ok(time) => {
            let minutes = Duration::from_mins(time.as_secs() / 60);
            format!("in {}", describe(minutes))
        }
    }
}

/// How long something took or has left.
pub(super) fn millis(ms: u64) -> String {
    let time = Duration::from_millis(ms);
    if ms >= 1_000 {
        describe(Duration::from_secs(time.as_secs()))
    } else if ms == 0 {
        "none".to_owned()
    } else {
        format!("{ms} ms")
    }
}

/// Who did something: services are no people.
pub(super) fn who(by: &str) -> String {
    match by.strip_prefix("service:") {
        Some("scheduler") => "time".to_owned(),
        Some(service) => format!("the {service} service"),
        None => super::sanitize::line(by, 120),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told_in_two_units_and_never_too_much() {
        for (seconds, told) in [
            (2 * 86_400 + 4 * 3_600 + 59, "in 2 days 4 hours"),
            (3_599, "in 59 minutes"),
            (59, "in less than a minute"),
            (-1, "now: its time is up"),
        ] {
            assert_eq!(left(TimeDelta::seconds(seconds)), told);
        }
        assert_eq!(millis(350), "350 ms");
        assert_eq!(millis(61_500), "1 minute 1 second");
    }

    /// D-10: times are told in the reader's zone, with its name.
    #[test]
    fn an_instant_is_told_in_the_zone_of_its_reader() {
        let at = "2026-07-01T22:30:00Z".parse().unwrap();
        assert!(instant(at, Tz::UTC).0.contains("1 Jul 2026, 22:30 UTC"));
        let berlin = instant(at, Tz::Europe__Berlin).0;
        assert!(berlin.contains("2 Jul 2026, 00:30 CEST"), "{berlin}");
        assert!(berlin.contains("datetime=\"2026-07-01T22:30:00.000Z\""));
    }

    #[test]
    fn time_is_no_person() {
        assert_eq!(who("service:scheduler"), "time");
        assert_eq!(who("ada"), "ada");
    }
}
