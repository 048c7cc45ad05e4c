//! `executor.signal_run`: a program or a user sends a signal to a run.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::size::json_bytes;
use holdpoint_ids::{NAME_CHARS_MAX, nearest};
use serde_json::json;

use crate::domain::decision::Undecided;
use crate::domain::model::plan::{Action, Plan};
use crate::domain::model::run::{
    KEPT_SIGNALS_MAX, SIGNAL_BYTES_MAX, SIGNAL_KEY_CHARS_MAX, Signal, signal_name,
};
use crate::domain::refusal::Refusal;
use crate::domain::rules::next_steps::start_next_steps;
use crate::domain::rules::signals::{awaiting_step, end_wait_for};
use crate::domain::text::cut;
use crate::domain::transition::{RunDecision, RunTransition, refuse_ended_run, unchanged_run};

/// Completes the step that waits for the signal, also during a pause: its next steps start on resume. Without such a
/// step the signal is kept.
pub(crate) fn signal_run<'a>(
    mut transition: RunTransition<'a>,
    by: &Actor,
    signal: &Signal,
) -> RunDecision<'a> {
    if let Some(key) = signal.key.as_deref() {
        let mut known = transition.run.signals.keys.iter();
        match known.find(|known| known.key() == key) {
            Some(known) if known.is_of(signal) => return Ok(unchanged_run(&transition)),
            Some(_) => {
                let (run, key) = (transition.run.id, cut(key, SIGNAL_KEY_CHARS_MAX));
                return Err(Refusal::SignalKeyReused { run, key }.into());
            }
            None => {}
        }
    }
    refuse_ended_run(&transition)?;
    check_signal(&transition, signal)?;
    if let Some(key) = &signal.key {
        transition.run.signals.remember(key, signal.digest());
    }
    let name = &signal.name;
    let awaiting = awaiting_step(&transition.run, name);
    let step = awaiting.and_then(|index| transition.step(index));
    let step = step.map(|step| step.id.clone());
    let message = match &step {
        Some(_) => format!("{by} sent the signal {name}."),
        None => format!("{by} sent the signal {name}; it is kept for the step that waits for it."),
    };
    let data = json!({ "by": by, "signal": name, "key": signal.key });
    transition.event(EventType::SignalReceived, step.as_deref(), message, data);
    match awaiting {
        Some(index) => {
            end_wait_for(&mut transition, index, name, signal.data.clone());
            start_next_steps(&mut transition)?;
        }
        None => {
            let number = transition.run.signals.keep(name);
            transition.value(signal_name(number), signal.data.clone());
        }
    }
    transition.changed()
}

fn check_signal(transition: &RunTransition<'_>, signal: &Signal) -> Result<(), Undecided> {
    let run = transition.run.id;
    let name = cut(&signal.name, NAME_CHARS_MAX);
    let plan = transition.plan()?;
    let known = awaited_signals(&plan.plan);
    if !known.contains(&signal.name.as_str()) {
        let near = nearest(&signal.name, known.iter().copied());
        return Err(Refusal::UnknownSignal { run, name, near }.into());
    }
    let key = signal.key.as_deref().unwrap_or("key");
    if key.is_empty() || key.chars().count() > SIGNAL_KEY_CHARS_MAX {
        return Err(Refusal::InvalidSignalKey.into());
    }
    let bytes = json_bytes(&signal.data);
    if bytes > SIGNAL_BYTES_MAX {
        return Err(Refusal::SignalTooLarge(bytes).into());
    }
    let is_kept = awaiting_step(&transition.run, &signal.name).is_none();
    if is_kept && transition.run.signals.kept.len() >= KEPT_SIGNALS_MAX {
        return Err(Refusal::TooManySignals(run).into());
    }
    Ok(())
}

/// The names of the signals that steps of the plan wait for.
fn awaited_signals(plan: &Plan) -> Vec<&str> {
    let steps = plan.steps.iter();
    let names = steps.filter_map(|step| match &step.action {
        Action::WaitFor(wait) => Some(wait.signal.as_str()),
        Action::Tool { .. }
        | Action::Wait { .. }
        | Action::WaitUntil(_)
        | Action::Ask(_)
        | Action::Handoff(_)
        | Action::Run(_)
        | Action::Finish(_) => None,
    });
    names.collect()
}
