//! `executor.step_results`: a worker reports the result of a step, or that its tool parks. The number of the
//! dispatch fences every report.

use holdpoint_contracts::contact::{Activity, ActivityKind, SUBJECT_CHARS_MAX};
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::run::ActionResult;
use holdpoint_contracts::steps::ResultReply;
use serde_json::{Value, json};

use crate::domain::decision::Undecided;
use crate::domain::effect::{Effect, Reply};
use crate::domain::error_text::{raw, sanitised, sanitised_data};
use crate::domain::input::StepReport;
use crate::domain::model::contact::{cleaned, comparable_email};
use crate::domain::model::plan::Action;
use crate::domain::model::run::{AtWorker, LATE_RESULTS_MAX, Step, StepPhase};
use crate::domain::model::time::millis_between;
use crate::domain::rules::budgets::add_cost;
use crate::domain::rules::next_steps::start_next_steps;
use crate::domain::rules::open_hold_needs::load_open_hold_needs;
use crate::domain::rules::redaction::{shown_late_result, shown_result};
use crate::domain::rules::result_schema::check_result;
use crate::domain::rules::run_plan::{PlanCheck, check_plan, record_plan};
use crate::domain::rules::signals::contact_need;
use crate::domain::rules::step_retries::{FailedCall, end_attempt};
use crate::domain::rules::tool_questions::park_tool;
use crate::domain::transition::{RowData, RunDecision, RunOutcome, RunTransition, ToolError};

/// Longest address that is kept of what a worker says of a mail, in characters.
const TO_CHARS_MAX: usize = 1_000;

/// Most of a mail's text that its activity keeps, in characters.
const MAIL_TEXT_CHARS_MAX: usize = 10_000;

/// The tool whose results are mails.
const SEND_EMAIL: &str = "send_email";

/// Applies a result once. A late result is kept as evidence.
pub(crate) fn report_result<'a>(
    mut transition: RunTransition<'a>,
    report: &StepReport,
) -> RunDecision<'a> {
    // A child that has ended has its result. A report of another dispatch of it changes nothing either.
    let Some(index) = transition.open_position(&report.step)? else {
        return Ok(known_result());
    };
    let Some(step) = transition.step(index) else {
        return Ok(known_result());
    };
    let is_current = step.dispatch == report.dispatch;
    if (is_current && has_result(step)) || step.failures.dispatches.contains(&report.dispatch) {
        return Ok(known_result());
    }
    let queued = step.phase.try_as_queued_ref().map(|handed| handed.at);
    // The worker was slow and not dead: its report is true, and the question is void.
    let asked = step.phase.try_as_uncertain_ref().map(|open| open.since);
    if step.phase.at_worker().is_none() || !is_current || transition.run.is_final() {
        return record_late_result(transition, index, report);
    }
    // It had begun before the pause could stop it, so it counts as running at that time.
    if queued.is_some() {
        for pause in &mut transition.run.pauses {
            if !pause.in_flight.contains(&report.step) {
                pause.in_flight.push(report.step.clone());
            }
        }
    }
    let took = report.result.duration_ms;
    transition.run.clocks.active_ms += working_time(&transition, index, took);
    add_cost(&mut transition, report.cost);
    if let Some(at) = queued {
        transition.run.clocks.queued_ms += millis_between(at, transition.now).saturating_sub(took);
    }
    if let Some(since) = asked {
        transition.run.clocks.human_ms += millis_between(since, transition.now);
    }
    apply_result(&mut transition, index, report)?;
    transition.decided(Reply::Result(ResultReply::Applied))
}

/// The tool has asked people and ended (S3-R2). Its lease is released, and its step waits for the answer, or
/// is dispatched again with an answer that has come. A repetition changes nothing, because no result can come
/// too late.
pub(crate) fn park_step<'a>(
    mut transition: RunTransition<'a>,
    step: &str,
    dispatch: u64,
    duration_ms: u64,
) -> RunDecision<'a> {
    let Some(index) = transition.open_position(step)? else {
        return Ok(known_result());
    };
    let current = transition
        .step(index)
        .filter(|step| step.dispatch == dispatch);
    let since = match current.and_then(|step| step.phase.at_worker()) {
        Some(AtWorker::Queued(_) | AtWorker::Granted(_)) => transition.now,
        // The worker was slow and not dead: nothing is uncertain.
        Some(AtWorker::Uncertain(asked)) => asked.since,
        None if current
            .is_some_and(|step| has_result(step) || step.phase.try_as_parked_ref().is_some()) =>
        {
            return Ok(known_result());
        }
        None => return Ok(RunOutcome::Unchanged(Reply::Result(ResultReply::Late))),
    };
    load_open_hold_needs(&transition, &[index])?;
    transition.run.clocks.active_ms += working_time(&transition, index, duration_ms);
    transition.run.clocks.human_ms += millis_between(since, transition.now);
    park_tool(&mut transition, index)?;
    transition.decided(Reply::Result(ResultReply::Applied))
}

const fn has_result(step: &Step) -> bool {
    matches!(
        step.phase,
        StepPhase::Completed { .. } | StepPhase::Failed { .. }
    )
}

/// The time of a tool without that in which it waited for people.
fn working_time(transition: &RunTransition<'_>, index: usize, took_ms: u64) -> u64 {
    let blocked_ms = transition
        .step(index)
        .map_or(0, |step| step.questions.blocked_ms);
    took_ms.saturating_sub(blocked_ms)
}

fn apply_result(
    transition: &mut RunTransition<'_>,
    index: usize,
    report: &StepReport,
) -> Result<(), Undecided> {
    let report = &*check_result(transition, index, report)?;
    let plan = match check_plan(transition, index, report)? {
        PlanCheck::NoPlan => None,
        PlanCheck::Valid(plan) => Some(plan),
        PlanCheck::Refused(refused) => return apply_failure(transition, index, &refused),
    };
    if !report.result.success {
        return apply_failure(transition, index, report);
    }
    let result = shown_result(transition, index, &report.result)?.into_owned();
    let phase = StepPhase::Completed { at: transition.now };
    transition.set_phase(index, phase, RowData::response(result.clone()));
    transition.value(report.step.clone(), report.result.data.clone());
    record_mail(transition, index, report)?;
    transition.event(
        EventType::StepSucceeded,
        Some(&report.step),
        result.description,
        json!({ "duration_ms": result.duration_ms, "node": report.node }),
    );
    if let Some(plan) = plan {
        record_plan(transition, &report.step, &plan);
    }
    start_next_steps(transition)
}

fn apply_failure(
    transition: &mut RunTransition<'_>,
    index: usize,
    report: &StepReport,
) -> Result<(), Undecided> {
    let result = &*shown_result(transition, index, &report.result)?;
    let code = report.error_code.as_deref().unwrap_or("failed");
    let said = result.error.as_deref().unwrap_or(&result.description);
    let mut response = sanitised_result(result);
    let shown = response.description.clone();
    response.error.get_or_insert(shown);
    let error = ToolError {
        raw: raw(said),
        response,
        failed_attempts: Vec::new(),
    };
    let failed = FailedCall {
        node: &report.node,
        code,
        error,
        is_reported: true,
    };
    end_attempt(transition, index, failed)
}

/// The result of a failed call with texts and data that may be shown (S0-R5).
fn sanitised_result(result: &ActionResult) -> ActionResult {
    // Each text is sanitised once: it may be long, and all runs wait for this thread.
    let description = sanitised(&result.description);
    let error = result.error.as_deref().map(|error| {
        if error == result.description {
            description.clone()
        } else {
            sanitised(error)
        }
    });
    ActionResult {
        success: result.success,
        description,
        error,
        data: sanitised_data(&result.data),
        duration_ms: result.duration_ms,
    }
}

/// A sent mail becomes an activity of the contact, once a step (S0-AC7).
fn record_mail(
    transition: &mut RunTransition<'_>,
    index: usize,
    report: &StepReport,
) -> Result<(), Undecided> {
    let Some(contact) = transition.run.contact.clone() else {
        return Ok(());
    };
    let plan = transition.plan()?;
    let action = transition
        .planned(&plan, index)
        .map(|planned| &planned.action);
    if !matches!(action, Some(Action::Tool { tool, .. }) if tool == SEND_EMAIL) {
        return Ok(());
    }
    let is_to_contact = is_to_contact(transition, report)?;
    let text = |name: &str| report.result.data.get(name).and_then(Value::as_str);
    let subject = text("subject").map(|subject| subject.chars().take(SUBJECT_CHARS_MAX).collect());
    let to = text("to").map(|to| to.chars().take(TO_CHARS_MAX).collect::<String>());
    let to = to.map(|to| format!("To {to}."));
    let body = text("text").map(|body| body.chars().take(MAIL_TEXT_CHARS_MAX).collect::<String>());
    let said: Vec<String> = [to, body].into_iter().flatten().collect();
    transition.effect(Effect::Activity {
        workspace: transition.run.workspace.clone(),
        contact,
        id: format!("{}/{}", transition.run.id, report.step),
        activity: cleaned(&Activity {
            kind: ActivityKind::EmailOut,
            subject,
            text: said.join("\n\n"),
            at: transition.now,
            message_id: text("message_id")
                .filter(|_| is_to_contact)
                .map(str::to_owned),
        }),
    });
    Ok(())
}

/// Whether a mail went to the address of its contact. Only the contact replies to such a mail.
fn is_to_contact(transition: &RunTransition<'_>, report: &StepReport) -> Result<bool, Undecided> {
    let mut unknown = Vec::new();
    let need = contact_need(&transition.run);
    let contact = need.and_then(|need| transition.find_value(need, &mut unknown));
    if !unknown.is_empty() {
        return Err(Undecided::NeedsMore(unknown));
    }
    let address = |value: &Value, name: &str| {
        let address = value.get(name).and_then(Value::as_str);
        address.map(comparable_email)
    };
    let of_contact = contact.and_then(|contact| address(&contact, "email"));
    Ok(of_contact.is_some() && of_contact == address(&report.result.data, "to"))
}

/// Keeps the report of a fenced worker, once a dispatch, and changes nothing else.
fn record_late_result<'a>(
    mut transition: RunTransition<'a>,
    index: usize,
    report: &StepReport,
) -> RunDecision<'a> {
    let Some(step) = transition.step(index) else {
        return Ok(known_result());
    };
    if step.late.contains(&report.dispatch) || step.late.len() >= LATE_RESULTS_MAX {
        return Ok(RunOutcome::Unchanged(Reply::Result(ResultReply::Late)));
    }
    let shown = shown_late_result(&transition, index, &report.result)?;
    let Some(step) = transition.step_mut(index) else {
        return Ok(known_result());
    };
    step.late.push(report.dispatch);
    add_cost(&mut transition, report.cost);
    let result = if report.result.success {
        shown.into_owned()
    } else {
        sanitised_result(&shown)
    };
    transition.event(
        EventType::StepLateResult,
        Some(&report.step),
        format!(
            "A result of dispatch {} came too late and is not applied.",
            report.dispatch
        ),
        json!({
            "dispatch": report.dispatch,
            "node": report.node,
            "result": result,
            "error_code": report.error_code,
        }),
    );
    transition.decided(Reply::Result(ResultReply::Late))
}

const fn known_result<'a>() -> RunOutcome<'a> {
    RunOutcome::Unchanged(Reply::Result(ResultReply::Known))
}
