//! The steps of a run with their input and output, and its history.

use chrono_tz::Tz;
use holdpoint_contracts::executor::HistoryPage;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::run::{
    ActionResult, ApprovalState, ApprovalView, FailedAttempt, RunView, StepView,
};
use holdpoint_contracts::tool::Risk;
use maud::{Markup, html};
use serde_json::Value;

use super::fragment::Fragment;
use super::sanitize::{clean, humanize, one_line};
use super::{context, labels};

pub(super) fn steps(run: &RunView, zone: Tz) -> Fragment {
    Fragment::new("steps", &run.steps, |key| {
        html! {
            section #steps data-key=(key) {
                @if !run.steps.is_empty() {
                    h2 { "Steps" }
                    ol.steps { @for item in &run.steps { (step(item, zone)) } }
                }
            }
        }
    })
}

fn step(step: &StepView, zone: Tz) -> Markup {
    let has_more = step.request.is_some()
        || step.response.is_some()
        || step.raw_error.is_some()
        || !step.failed_attempts.is_empty()
        || step.claimed_by.is_some();
    html! {
        li id={ "step-" (step.id) } {
            div.row {
                span.what { strong { (one_line(&step.action, 300)) } span.muted.block { (one_line(&step.id, 100))
                    @if let Some(tool) = &step.tool { " · " (tool) }
                    @if step.risk == Some(Risk::High) { " · high risk" }
                    @if step.attempts > 1 { " · " (step.attempts) " attempts" }
                    @if let Some(at) = step.started_at { " · " (labels::instant(at, zone)) }
                } }
                span.state { (labels::step_status_chip(step.status)) }
            }
            @if let Some(approval) = &step.approval_state { (decision(approval, zone)) }
            @for child in &step.child_runs {
                p.muted {
                    "Run of " (child.agent) " · " a href={ "/runs/" (child.run) } { (child.run) }
                    @if let Some(status) = child.status { " · " (labels::run_status_chip(status)) }
                }
            }
            @if step.early_call.is_some() { p.muted.approval { "May be approved before it is reached." } }
            @if let Some(response) = &step.response { (short(response)) }
            @if let Some(code) = step.error_code.as_ref().filter(|_| !has_error_text(step)) { p.error { (humanize(code)) } }
            @if has_more {
                details {
                    summary { "Request and response" }
                    @if let Some(request) = &step.request { h3 { "Request" } (context::value(request, 0)) }
                    @if let Some(original) = original_args(step) { h3 { "Requested arguments" } (context::value(original, 0)) }
                    @if let Some(response) = &step.response { (full(response)) }
                    @if !step.failed_attempts.is_empty() { (failed_attempts(&step.failed_attempts, zone)) }
                    @if let Some(raw) = &step.raw_error {
                        h3 { "Error of the tool" }
                        p.muted { "Only operators see this." }
                        pre { (clean(raw)) }
                    }
                    @if let Some(node) = &step.claimed_by {
                        h3 { "Worker" }
                        p { (node) @if let Some(at) = step.claimed_at { ", since " (labels::instant(at, zone)) } ", dispatch " (step.dispatch) }
                    }
                    @if step.handoff_history.len() > 1 {
                        ul { @for change in &step.handoff_history {
                            li { (labels::instant(change.at, zone)) " · " (humanize(change.action.as_str())) " · " (change.node) }
                        } }
                    }
                }
            }
        }
    }
}

fn failed_attempts(attempts: &[FailedAttempt], zone: Tz) -> Markup {
    html! {
        h3 { "Failed attempts" }
        ol.attempts { @for attempt in attempts {
            li value=(attempt.attempt) {
                (labels::instant(attempt.at, zone)) " · " (humanize(&attempt.error_code))
                (short(&attempt.response))
                @if !attempt.response.data.is_null() { (context::value(&attempt.response.data, 0)) }
                p.muted { "Took " (labels::duration(attempt.response.duration_ms)) }
            }
        } }
    }
}

/// Who approved, rejected or sent back a gated step. While it waits, the card above has the request.
fn decision(approval: &ApprovalView, zone: Tz) -> Markup {
    let word = match approval.state {
        ApprovalState::Requested => return html! { p.muted { "Waits for an approval." } },
        ApprovalState::Approved => "Approved",
        ApprovalState::Rejected => "Rejected",
        ApprovalState::Revised => "Sent back",
    };
    html! {
        p.muted.approval {
            (word)
            @if let Some(by) = &approval.by { " by " strong { (labels::actor(by)) } }
            @if let Some(at) = approval.at { " on " (labels::instant(at, zone)) }
            @if approval.original_args.is_some() { ", with edited arguments" }
            "."
            @if let Some(comment) = &approval.comment { " " (one_line(comment, 400)) }
        }
    }
}

/// The arguments before the approver gave others.
fn original_args(step: &StepView) -> Option<&Value> {
    step.approval_state.as_ref()?.original_args.as_ref()
}

/// With an error text, the error code is not shown.
fn has_error_text(step: &StepView) -> bool {
    step.response
        .as_ref()
        .is_some_and(|response| response.error.is_some())
}

/// An error replaces the description, which often repeats it.
fn short(response: &ActionResult) -> Markup {
    html! {
        @if let Some(error) = &response.error {
            p.error { (clean(error)) }
        } @else {
            p.muted { (one_line(&response.description, 300)) }
        }
    }
}

fn full(response: &ActionResult) -> Markup {
    html! {
        h3 { "Response" }
        @if response.data.is_null() { p.muted { "No data" } } @else { (context::value(&response.data, 0)) }
        p.muted { "Took " (labels::duration(response.duration_ms)) }
    }
}

/// Events, the newest last.
pub(super) fn history(page: &HistoryPage, zone: Tz) -> Fragment {
    let first = page.items.first().map_or(0, |item| item.seq);
    Fragment::new("history", &page.last_seq, |key| {
        html! {
            section #history data-key=(key) {
                h2 { "History" }
                @if first > 1 { p.muted { "The first " (first - 1) " events are not shown. The API returns all events." } }
                ol.timeline {
                    @for item in &page.items {
                        li class=(event_class(item.kind)) {
                            (labels::instant(item.at, zone)) " "
                            span { (one_line(&item.message, 400)) }
                            @if let Some(step) = &item.step { span.muted { " · " (one_line(step, 100)) } }
                        }
                    }
                }
            }
        }
    })
}

pub(super) const fn event_class(kind: EventType) -> &'static str {
    match kind {
        EventType::RunStarted
        | EventType::RunResumed
        | EventType::RunRetried
        | EventType::StepRevised
        | EventType::StepCalled
        | EventType::StepContinued
        | EventType::StepAttemptFailed
        | EventType::StepSkipped
        | EventType::StepLateResult
        | EventType::HandoffWithdrawn => "plain",
        EventType::RunPlanGenerated
        | EventType::RunWaiting
        | EventType::RunPaused
        | EventType::RunSuspended
        | EventType::RunMigrated
        | EventType::RunContextChanged
        | EventType::RunAwaitingInput
        | EventType::RunAwaitingApproval
        | EventType::HandoffOffered
        | EventType::HandoffAccepted
        | EventType::HandoffReassigned
        | EventType::HandoffTakenOver => "waits",
        EventType::InputAnswered
        | EventType::SignalReceived
        | EventType::HandoffCompleted
        | EventType::RunCompleted
        | EventType::StepSucceeded => "good",
        EventType::RunIncident
        | EventType::HandoffExpired
        | EventType::RunFailed
        | EventType::RunCancelled
        | EventType::StepFailed => "bad",
    }
}
