//! How signals reach the steps that wait for them.
//!
//! A signal completes the first step, in the order of the plan, that waits for its name. Without such a step it is
//! kept, and the next step that waits for the name takes the oldest one. Each signal is used once.

use std::time::Duration;

use holdpoint_contracts::contact::REPLY_SIGNAL;
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::instant;
use holdpoint_ids::ContactId;
use serde_json::{Value, json};

use crate::domain::effect::Effect;
use crate::domain::model::contact::has_replied;
use crate::domain::model::plan::signal_steps::{OnWaitTimeout, WaitFor, signal_text};
use crate::domain::model::plan::{Action, PlannedStep};
use crate::domain::model::run::{AwaitedSignal, Hold, Run, StepPhase, Timer, signal_name};
use crate::domain::model::time::{after, millis_between};
use crate::domain::need::{Key, Need};
use crate::domain::rules::conditions::skip_because;
use crate::domain::rules::fail_step::{SIGNAL_TIMEOUT, fail_step};
use crate::domain::rules::open_hold::next_hold_id;
use crate::domain::step_response::success;
use crate::domain::transition::{RowData, RunTransition};

/// The data of the kept signals that a step may take. Several steps may start at once, so it is all of that name.
pub(crate) fn signal_needs(run: &Run, planned: &PlannedStep) -> Vec<Need> {
    let Action::WaitFor(wait) = &planned.action else {
        return Vec::new();
    };
    let kept = run.signals.kept.iter();
    let kept = kept.filter(|kept| kept.name == wait.signal);
    let kept = kept.map(|kept| Need::Value(run.id, signal_name(kept.number)));
    let contact = contact_need(run).filter(|_| wait.is_for_reply());
    kept.chain(contact).collect()
}

/// The contact of a run.
pub(crate) fn contact_need(run: &Run) -> Option<Need> {
    let contact = run.contact.clone()?;
    Some(Need::State(Key::Contact(run.workspace.clone(), contact)))
}

/// The reply as the result of the step that waits for it; none: the contact has not replied.
pub(crate) fn reply_of(contact: &Value) -> Option<Value> {
    contact
        .as_object()
        .is_some_and(has_replied)
        .then(|| json!({ "replied": true, "sentiment": contact.get("sentiment") }))
}

/// Takes a kept signal, or waits for the next one.
pub(crate) fn start_wait_for(transition: &mut RunTransition<'_>, index: usize, wait: &WaitFor) {
    if let Some(kept) = transition.run.signals.take(&wait.signal) {
        let need = Need::Value(transition.run.id, signal_name(kept.number));
        let data = transition.find_value(need, &mut Vec::new());
        let data = data.map_or(Value::Null, |data| Value::clone(&data));
        complete_with_signal(transition, index, &wait.signal, data, 0);
        return;
    }
    if wait.is_for_reply() && complete_if_replied(transition, index) {
        return;
    }
    let (now, rev) = (transition.now, transition.run.version);
    let id = next_hold_id(&mut transition.run);
    let due = after(now, wait.timeout_ms);
    let phase = StepPhase::Waiting(Hold {
        id,
        since: now,
        length_ms: wait.timeout_ms,
        timer: Timer::Set { rev, at: now, due },
        backoff: None,
        signal: Some(Box::new(AwaitedSignal {
            name: wait.signal.clone(),
            on_timeout: wait.on_timeout,
        })),
        child_runs: None,
        keeps_due: false,
    });
    let longest = describe(Duration::from_millis(wait.timeout_ms));
    let message = format!(
        "Waiting for {}, at most {longest}.",
        signal_text(&wait.signal)
    );
    let data = json!({ "signal": wait.signal, "deadline": instant::write(due) });
    let response = success(message.clone(), data, 0);
    let Some(step) = transition.set_phase(index, phase, RowData::response(response)) else {
        return;
    };
    transition.timer(id, Some(due));
    let data = json!({ "hold": id, "kind": "signal", "signal": wait.signal, "deadline": instant::write(due) });
    transition.event(EventType::RunWaiting, Some(&step), message, data);
}

/// Completes the step at once if the contact has replied. A reply that comes between this look and the commit is found
/// by a sweep.
fn complete_if_replied(transition: &mut RunTransition<'_>, index: usize) -> bool {
    let Some(need) = contact_need(&transition.run) else {
        return false;
    };
    let contact = transition.find_value(need, &mut Vec::new());
    if let Some(reply) = contact.as_deref().and_then(reply_of) {
        complete_with_signal(transition, index, REPLY_SIGNAL, reply, 0);
        return true;
    }
    if let Some(contact) = transition.run.contact.clone() {
        let workspace = transition.run.workspace.clone();
        transition.effect(Effect::ReplyPending { workspace, contact });
    }
    false
}

/// The contact whose reply a step of the run waits for.
#[must_use]
pub fn awaited_reply(run: &Run) -> Option<&ContactId> {
    let awaits = !run.is_final() && awaiting_step(run, REPLY_SIGNAL).is_some();
    run.contact.as_ref().filter(|_| awaits)
}

/// The step that takes a signal with this name now.
pub(crate) fn awaiting_step(run: &Run, name: &str) -> Option<usize> {
    let awaits = |phase: &StepPhase| {
        let hold = phase.try_as_waiting_ref();
        let signal = hold.and_then(|hold| hold.signal.as_deref());
        signal.is_some_and(|signal| signal.name == name)
    };
    run.steps.iter().position(|step| awaits(&step.phase))
}

/// A signal ends the wait of a step.
pub(crate) fn end_wait_for(
    transition: &mut RunTransition<'_>,
    index: usize,
    name: &str,
    data: Value,
) {
    let hold = transition.step(index);
    let Some(hold) = hold.and_then(|step| step.phase.try_as_waiting_ref()) else {
        return;
    };
    let (id, since) = (hold.id, hold.since);
    if matches!(hold.timer, Timer::Set { .. }) {
        transition.timer(id, None);
    }
    let waited_ms = millis_between(since, transition.now);
    complete_with_signal(transition, index, name, data, waited_ms);
}

fn complete_with_signal(
    transition: &mut RunTransition<'_>,
    index: usize,
    name: &str,
    data: Value,
    waited_ms: u64,
) {
    let is_reply = name == REPLY_SIGNAL;
    let message = if is_reply {
        "The contact has replied.".to_owned()
    } else {
        format!("The signal {name} arrived.")
    };
    // A wait without a reply has the result null, so a reply never has it.
    let data = if is_reply && data.is_null() {
        json!({})
    } else {
        data
    };
    let response = success(message.clone(), data.clone(), waited_ms);
    let phase = StepPhase::Completed { at: transition.now };
    let Some(id) = transition.set_phase(index, phase, RowData::response(response)) else {
        return;
    };
    // No program sends it again for a retry of the run.
    if let Some(step) = transition.step_mut(index) {
        step.by_person = true;
    }
    transition.value(id.clone(), data);
    let data = json!({ "signal": name });
    transition.event(EventType::RunResumed, Some(&id), message, data);
}

/// No signal came in time.
pub(crate) fn time_out_signal(
    transition: &mut RunTransition<'_>,
    index: usize,
    hold: &Hold,
    signal: &AwaitedSignal,
) {
    let longest = describe(Duration::from_millis(hold.length_ms));
    let what = signal_text(&signal.name);
    match signal.on_timeout {
        OnWaitTimeout::Fail => {
            let message = format!("{what} did not arrive within {longest}");
            fail_step(transition, index, SIGNAL_TIMEOUT, &message, None);
        }
        OnWaitTimeout::Skip => {
            let message = format!("Skipped: {what} did not arrive within {longest}.");
            let data = json!({ "hold": hold.id, "reason": "timeout" });
            skip_because(transition, index, message, data);
        }
    }
}
