//! Labels for states, times and consequences.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::Tz;
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::handoff::{Effect, RequestStatus, RequestView};
use holdpoint_contracts::hold::{HoldOutcome, OnTimeout, Priority};
use holdpoint_contracts::instant;
use holdpoint_contracts::run::{HoldKind, RunStatus, StepStatus};
use maud::{Markup, html};

use super::sanitize::one_line;

/// The colour of a chip. It only repeats what the label says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Calm,
    Busy,
    Waits,
    Good,
    Bad,
}

pub(super) fn chip(tone: Tone, label: &str) -> Markup {
    let tone = match tone {
        Tone::Calm => "calm",
        Tone::Busy => "busy",
        Tone::Waits => "waits",
        Tone::Good => "good",
        Tone::Bad => "bad",
    };
    html! { span.chip.(tone) { (label) } }
}

pub(super) const fn hold_kind(kind: HoldKind) -> &'static str {
    match kind {
        HoldKind::Timer => "Timer",
        HoldKind::Signal => "Signal",
        HoldKind::ChildRun => "Child runs",
        HoldKind::Approval => "Approval",
        HoldKind::Input => "Question",
        HoldKind::Handoff => "Handoff",
    }
}

/// Normal priority has no chip.
pub(super) fn priority_chip(priority: Priority) -> Option<Markup> {
    match priority {
        Priority::Normal => None,
        Priority::Low => Some(chip(Tone::Calm, "Low priority")),
        Priority::High => Some(chip(Tone::Waits, "High priority")),
        Priority::Urgent => Some(chip(Tone::Bad, "Urgent")),
        Priority::Critical => Some(chip(Tone::Bad, "Critical")),
    }
}

pub(super) fn request_status_chip(request: &RequestView) -> Markup {
    let (tone, label) = match request.status {
        RequestStatus::Open if request.remaining_ms.is_some() => (Tone::Calm, "Paused"),
        RequestStatus::Open => (Tone::Waits, "Open"),
        RequestStatus::Offered => (Tone::Waits, "Offered"),
        RequestStatus::Accepted => (Tone::Busy, "Accepted"),
        RequestStatus::TakenOver => (Tone::Busy, "Taken over"),
        RequestStatus::Reassigned => (Tone::Waits, "Reassigned"),
        RequestStatus::Decided => match request.outcome {
            Some(HoldOutcome::Rejected) => (Tone::Bad, "Rejected"),
            Some(HoldOutcome::Revised) => (Tone::Busy, "Sent back"),
            Some(HoldOutcome::Approved) => (Tone::Good, "Approved"),
            Some(HoldOutcome::Answered) => (Tone::Good, "Answered"),
            Some(HoldOutcome::Completed | HoldOutcome::TakenOver) => (Tone::Good, "Completed"),
            Some(HoldOutcome::Timeout | HoldOutcome::Cancelled | HoldOutcome::Fired) | None => {
                (Tone::Good, "Decided")
            }
        },
        RequestStatus::Completed => (Tone::Good, "Completed"),
        RequestStatus::Expired => (Tone::Bad, "Expired"),
        RequestStatus::Withdrawn => (Tone::Calm, "Withdrawn"),
    };
    chip(tone, label)
}

/// The beginning of a sentence such as "Approved by ada".
pub(super) const fn outcome(outcome: HoldOutcome) -> &'static str {
    match outcome {
        HoldOutcome::Answered => "Answered",
        HoldOutcome::Approved => "Approved",
        HoldOutcome::Rejected => "Rejected",
        HoldOutcome::Revised => "Sent back",
        HoldOutcome::Completed => "Completed",
        HoldOutcome::TakenOver => "Taken over",
        HoldOutcome::Timeout => "Expired",
        HoldOutcome::Cancelled => "Withdrawn",
        HoldOutcome::Fired => "Fired",
    }
}

pub(super) const REDACTED: &str = "Contact details and comments are visible only to the requester, the people asked, and operators.";

/// The sentence for a reason that Holdpoint gives; absent for a reason that an author wrote.
pub(super) fn reason(reason: &str) -> Option<&'static str> {
    match reason {
        "uncertain" => Some(
            "A worker started this step, and its result is not known: it never reported, or did not end in time. The step may or may not have taken effect. Check the affected system, then choose.",
        ),
        "missing_input" => {
            Some("The run needs these inputs. Its first step starts when they are given.")
        }
        "operator_takeover" => Some(
            "An operator has taken this run over. The agent is stopped until the run is completed or handed back.",
        ),
        _ => None,
    }
}

pub(super) const fn effect(effect: Effect, has_run: bool) -> &'static str {
    match (effect, has_run) {
        (Effect::Applied, true) => "The run continued with this decision.",
        (Effect::Applied, false) => "The requester has received the answer.",
        (Effect::OnResume, _) => {
            "The run is paused. The decision takes effect when the run is resumed."
        }
        (Effect::RunEnded, _) => "The run had already ended, so the decision changed nothing.",
        (Effect::Pending, true) => "Recorded. The effect on the run is not known yet.",
        (Effect::Pending, false) => "Recorded.",
    }
}

/// The consequence of a missed deadline, as a clause.
pub(super) const fn timeout_consequence(request: &RequestView) -> &'static str {
    match (request.on_timeout, request.run.is_some()) {
        (OnTimeout::Fail, true) if request.step.is_some() => {
            "the step fails, and so does the run unless its agent handles that."
        }
        (OnTimeout::Fail, true) => "the run fails.",
        (OnTimeout::Fail, false) => "the request ends without an answer.",
        (OnTimeout::Skip, true) => "the step is skipped and the run continues.",
        (OnTimeout::Skip, false) => "the request ends as skipped.",
        (OnTimeout::Default, true) => "the default answer applies and the run continues.",
        (OnTimeout::Default, false) => "the default answer applies.",
        (OnTimeout::Continue, true) => "the run continues without you.",
        (OnTimeout::Continue, false) => "the request ends without further effect.",
        (OnTimeout::Escalate, _) => "the request is escalated and stays open.",
    }
}

pub(super) fn run_status_chip(status: RunStatus) -> Markup {
    let (tone, label) = match status {
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
    chip(tone, label)
}

pub(super) fn step_status_chip(status: StepStatus) -> Markup {
    let (tone, label) = match status {
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
    chip(tone, label)
}

/// An instant in the user's zone, with the exact UTC instant as tooltip.
pub(super) fn instant(at: DateTime<Utc>, zone: Tz) -> Markup {
    let exact = instant::write(at);
    html! { time datetime=(exact) title=(exact) { (instant_text(at, zone)) } }
}

/// The same as a text: an option of a form takes no markup.
pub(super) fn instant_text(at: DateTime<Utc>, zone: Tz) -> String {
    let local = at.with_timezone(&zone);
    local.format("%-d %b %Y, %H:%M %Z").to_string()
}

/// The time until a future instant, and the instant in the user's zone.
pub(super) fn time_until(at: DateTime<Utc>, now: DateTime<Utc>, zone: Tz) -> Markup {
    html! { (countdown(at, now)) " (" (instant(at, zone)) ")" }
}

/// The time until a future instant, which the script counts down.
pub(super) fn countdown(at: DateTime<Utc>, now: DateTime<Utc>) -> Markup {
    let exact = instant::write(at);
    html! { time datetime=(exact) title=(exact) data-until=(at.timestamp_millis()) { (time_left(at - now)) } }
}

/// `in 2 days 4 hours`, rounded down to minutes so that it never promises too much. The script
/// writes the same words.
fn time_left(time: TimeDelta) -> String {
    match time.to_std() {
        Err(_past) => "now (the deadline has passed)".to_owned(),
        Ok(time) if time < Duration::from_mins(1) => "in less than a minute".to_owned(),
        Ok(time) => format!("in {}", describe(Duration::from_mins(time.as_secs() / 60))),
    }
}

pub(super) fn duration(ms: u64) -> String {
    match ms {
        0 => "none".to_owned(),
        1..1_000 => format!("{ms} ms"),
        1_000.. => describe(Duration::from_secs(ms / 1_000)),
    }
}

/// The actor of an action: a user, or one of our services.
pub(super) fn actor(by: &str) -> String {
    match by.strip_prefix("service:") {
        Some("scheduler") => "a timeout".to_owned(),
        Some(service) => format!("the {service} service"),
        None => one_line(by, 120),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_has_two_units_and_is_rounded_down() {
        for (seconds, expected) in [
            (2 * 86_400 + 4 * 3_600 + 59, "in 2 days 4 hours"),
            (3_599, "in 59 minutes"),
            (59, "in less than a minute"),
            (-1, "now (the deadline has passed)"),
        ] {
            assert_eq!(time_left(TimeDelta::seconds(seconds)), expected);
        }
        assert_eq!(duration(350), "350 ms");
        assert_eq!(duration(61_500), "1 minute 1 second");
    }

    /// D-10: times are shown in the user's zone, with its name.
    #[test]
    fn an_instant_is_shown_in_the_users_zone() {
        let at = "2026-07-01T22:30:00Z".parse().unwrap();
        assert!(instant(at, Tz::UTC).0.contains("1 Jul 2026, 22:30 UTC"));
        let berlin = instant(at, Tz::Europe__Berlin).0;
        assert!(berlin.contains("2 Jul 2026, 00:30 CEST"), "{berlin}");
        assert!(berlin.contains("datetime=\"2026-07-01T22:30:00.000Z\""));
    }

    #[test]
    fn the_scheduler_is_shown_as_a_timeout() {
        assert_eq!(actor("service:scheduler"), "a timeout");
        assert_eq!(actor("ada"), "ada");
    }
}
