//! The buttons of a run's page that pause, resume, suspend, cancel, retry and take it over (D-14).

use holdpoint_auth::Right;
use holdpoint_contracts::run::{PauseScope, RunStatus, RunView, StepStatus};
use maud::{Markup, html};

use super::super::request_forms::unfold;
use super::super::sanitize::one_line;
use super::super::session::SignedInUser;

/// The modes of resuming: the word of the API, and the label after "Resume".
pub(in crate::pages) const RESUME_MODES: [(&str, &str); 4] = [
    ("continue", "with the time left"),
    ("keep_deadline", "until the original deadline"),
    ("restart", "with the full wait again"),
    ("now", "and end the wait now"),
];

/// The buttons that an operator can use now.
pub(super) fn render(user: &SignedInUser, run: &RunView) -> Markup {
    if !user.may(Right::Operate) {
        return html! {};
    }
    if run.status == RunStatus::Failed {
        return html! { div.run-controls { (form(user, run, "retry", &retry(run))) } };
    }
    if run.status.is_final() {
        return html! {};
    }
    let mut pauses = run.paused_by.iter();
    let is_paused = pauses.any(|pause| pause.scope == PauseScope::Run);
    let pause = html! { button { "Pause" } span.hint { "Timers stop until the run is resumed." } };
    let resume = html! {
        button { "Resume" }
        label.hidden for="resume-mode" { "Remaining wait" }
        select #resume-mode name="mode" {
            @for (word, label) in RESUME_MODES { option value=(word) { (label) } }
        }
        @if run.paused_at.is_some() { (suspended_steps()) }
    };
    let suspend = html! {
        label for="suspend-reason" { "Reason " span.muted { "(optional)" } }
        input #suspend-reason name="reason" maxlength="2000";
        button { "Suspend this run" }
        p.hint { "Timers stop, no step starts, and a snapshot is kept. Workers report where their steps are." }
    };
    let cancel = html! {
        label for="cancel-reason" { "Reason " span.muted { "(optional)" } }
        input #cancel-reason name="reason" maxlength="10000";
        button.danger { "Cancel this run" }
        p.hint { "No further steps start. A cancelled run cannot be resumed." }
    };
    html! {
        div.run-controls {
            @if is_paused { (form(user, run, "resume", &resume)) } @else { (form(user, run, "pause", &pause)) }
            @if run.paused_at.is_none() { (form(user, run, "suspend", &unfold("Suspend…", false, &suspend))) }
            (form(user, run, "cancel", &unfold("Cancel…", false, &cancel)))
        }
    }
}

/// The choice about the steps that were in progress when the run was suspended.
fn suspended_steps() -> Markup {
    html! {
        label for="resume-step" { "Steps in progress" }
        select #resume-step name="step" {
            option value="" { "start again if that does no harm, else ask" }
            option value="redo" { "start again" }
            option value="skip" { "skip" }
            option value="complete_with" { "complete with this result" }
        }
        label.hidden for="resume-result" { "Result" }
        input #resume-result name="result" placeholder="Result as JSON" maxlength="10000";
    }
}

/// The fields of the form that continues a failed run.
fn retry(run: &RunView) -> Markup {
    let reached = run
        .steps
        .iter()
        .filter(|step| step.status != StepStatus::Cancelled && step.item.is_none());
    html! {
        button { "Retry" }
        label.hidden for="retry-from" { "First step" }
        select #retry-from name="from_step" {
            option value="" { "from the failed step" }
            @for step in reached { option value=(step.id) { "from " (one_line(&step.id, 60)) } }
        }
        p.hint { "Failed and cancelled steps run again. So do the selected step and all that depends on it. Other results and the answers of people are kept." }
    }
}

/// The owner of a taken-over run, or the button by which an operator takes it over.
pub(super) fn render_take_over(user: &SignedInUser, run: &RunView) -> Markup {
    if let Some(by) = &run.taken_over_by {
        return html! {
            p.why { strong { (one_line(by, 120)) } " owns this run. The agent is stopped until the run is completed or handed back below." }
        };
    }
    if run.status.is_final() || !user.may(Right::Operate) {
        return html! {};
    }
    let inside = html! {
        button { "Take the run over" }
        span.hint { "The agent and its steps stop. You own the run until you hand it back or end it." }
    };
    form(user, run, "take_over", &inside)
}

/// A form that performs one action on the run.
fn form(user: &SignedInUser, run: &RunView, action: &str, inside: &Markup) -> Markup {
    let path = format!("/runs/{}/act", run.id);
    user.form(&path, "row", &[("do", action)], inside)
}
