//! What a decision needs to open, freeze or close the holds of a run.
//!
//! All of it is requested at once, because the kernel loads needs at most four times.

use crate::domain::decision::{Lookup, Undecided};
use crate::domain::input::{RunInput, StepReport};
use crate::domain::model::run::{Run, StepApproval, StepPhase, signal_name, spec_name};
use crate::domain::need::{INPUT, Key, Need};
use crate::domain::rules::approver_rights::voter_needs;
use crate::domain::rules::child_runs::child_run_needs;
use crate::domain::rules::dispatch_step::{dispatch_needs, tool_needs};
use crate::domain::rules::fan_out::fan_out_needs;
use crate::domain::rules::redaction::request_need;
use crate::domain::rules::run_steps::{last_end_needs, outcome_needs};
use crate::domain::rules::signals::contact_need;
use crate::domain::rules::step_retries::failed_attempts_need;
use crate::domain::rules::suspension::new_snapshot::new_snapshot_needs;
use crate::domain::transition::RunTransition;

/// Loads all that the holds on people, the uncertain steps and the steps at `also` need, at once.
pub(crate) fn load_open_hold_needs(
    transition: &RunTransition<'_>,
    also: &[usize],
) -> Result<(), Undecided> {
    let asked = transition.run.questions().map(|(step, _)| step.id.clone());
    let parked = transition.run.steps.iter();
    let parked = parked.filter(|step| matches!(step.phase, StepPhase::Parked(_)));
    let asked = asked.chain(parked.map(|step| step.id.clone()));
    let also = also.iter().filter_map(|index| transition.step(*index));
    let also = also.map(|step| step.id.clone());
    let steps: Vec<_> = asked.chain(also).collect();
    let mut holds = person_hold_needs(&transition.run);
    for step in transition
        .run
        .steps
        .iter()
        .filter(|it| steps.contains(&it.id))
    {
        holds.extend(dispatch_needs(&transition.run, step));
    }
    if steps.is_empty() && holds.is_empty() {
        return Ok(());
    }
    let plan = transition.plan()?;
    let mut needs: Vec<_> = steps
        .iter()
        .map(|step| Need::Request(transition.run.id, step.clone()))
        .collect();
    for (index, step) in transition.run.steps.iter().enumerate() {
        if steps.contains(&step.id) {
            let planned = transition.planned(&plan, index);
            let planned = planned.into_iter();
            needs.extend(planned.flat_map(|planned| tool_needs(transition, planned)));
        }
    }
    needs.extend(holds);
    needs.retain(|need| matches!(transition.lookup(need), Lookup::NotLoaded));
    if needs.is_empty() {
        Ok(())
    } else {
        Err(Undecided::NeedsMore(needs))
    }
}

/// What the open holds on people and on child runs need for their desired states and their ends.
pub(crate) fn person_hold_needs(run: &Run) -> Vec<Need> {
    let specs = run.people();
    let specs = specs.map(|(_, on)| Need::Value(run.id, spec_name(on.id)));
    let mut needs: Vec<_> = specs.chain(child_run_needs(run)).collect();
    if run.missing_inputs_hold.is_some() {
        needs.push(Need::Value(run.id, INPUT.to_owned()));
    }
    needs
}

/// What an input needs, whatever has become of the run.
pub(crate) fn input_needs(run: &Run, input: &RunInput) -> Vec<Need> {
    let workspace = run.workspace.clone();
    // Nearly every input may start the next step.
    let mut needs = vec![run.plan_need()];
    // Each step in a row may take a kept signal, and the kernel loads needs at most four times.
    needs.extend(run.signals.kept.iter().map(|kept| {
        let name = signal_name(kept.number);
        Need::Value(run.id, name)
    }));
    // The outcomes wait while a person owns the run. Only the end of their hold hands it back.
    if run.taken().is_none() || matches!(input, RunInput::HoldClosed { .. }) {
        needs.extend(outcome_needs(run));
    }
    let wanted = run.wanted_place();
    needs.extend(wanted.map(|place| Need::Places(place.key.clone())));
    if may_end_child(input) {
        needs.extend(fan_out_needs(run));
    }
    match input {
        // The step may be dispatched again with the same arguments.
        RunInput::LeaseEnded { step, .. } | RunInput::StepParks { step, .. } => {
            needs.push(Need::Request(run.id, step.clone()));
        }
        RunInput::StepResult(report) => needs.extend(result_needs(run, report)),
        RunInput::TakeOver { .. } => {
            if let Some(contact) = &run.contact {
                needs.push(Need::Activities(workspace.clone(), contact.clone()));
                needs.push(Need::State(Key::Contact(workspace, contact.clone())));
            }
        }
        RunInput::Migrate { version, .. } => {
            needs.push(Need::Value(run.id, INPUT.to_owned()));
            let plan = |version| Need::Plan(workspace, run.agent.clone(), version);
            needs.extend(version.map(plan));
        }
        RunInput::PatchContext { .. } => needs.push(Need::Value(run.id, INPUT.to_owned())),
        RunInput::ChildRunEnded(end) => needs.extend(last_end_needs(run, end.id, end.child)),
        RunInput::ContactReplied => needs.extend(contact_need(run)),
        RunInput::StartStep(delivered) => needs.extend(approval_needs(run, &delivered.step)),
        RunInput::Suspend { .. } => needs.extend(new_snapshot_needs(run)),
        RunInput::ContinueStep(_) => needs.push(Need::Snapshot(run.id)),
        RunInput::SuspendStep(report) => {
            needs.push(Need::Request(run.id, report.step.clone()));
            match run.suspension {
                Some(_) => needs.push(Need::Snapshot(run.id)),
                None => needs.extend(new_snapshot_needs(run)),
            }
        }
        RunInput::Start { .. }
        | RunInput::StartScheduled(_)
        | RunInput::SetChildRun(_)
        | RunInput::ChildRunRefused(_)
        | RunInput::Pause { .. }
        | RunInput::Resume { .. }
        | RunInput::Cancel { .. }
        | RunInput::Retry { .. }
        | RunInput::Signal { .. }
        | RunInput::Watch
        | RunInput::ApplyScopes
        | RunInput::ToolAvailability { .. }
        | RunInput::TakePlace
        | RunInput::TimerFired { .. }
        | RunInput::AskPeople { .. }
        | RunInput::PutBlob(_)
        | RunInput::HoldClosed { .. }
        | RunInput::HandoffUpdate { .. }
        | RunInput::Incident { .. } => {}
    }
    needs
}

/// The voters who approved a step, because they must still have their right when it starts. A gated step also needs the
/// age of the user directory.
fn approval_needs(run: &Run, step: &str) -> Vec<Need> {
    let Some(step) = run.steps.iter().find(|one| one.id == step) else {
        return Vec::new();
    };
    let approval = step.approval.as_deref();
    let decision = approval.and_then(StepApproval::approval);
    let voters = decision.map_or_else(Vec::new, |decision| voter_needs(run, decision));
    let is_gated = step.phase.try_as_queued_ref().is_some_and(|it| it.is_gated);
    let age = is_gated.then_some(Need::DirectoryAge);
    voters.into_iter().chain(age).collect()
}

/// Whether an input may end the child of a fan-out, or let the next one begin.
const fn may_end_child(input: &RunInput) -> bool {
    match input {
        RunInput::SetChildRun(_)
        | RunInput::ChildRunEnded(_)
        | RunInput::ChildRunRefused(_)
        | RunInput::Resume { .. }
        | RunInput::Retry { .. }
        | RunInput::Migrate { .. }
        | RunInput::Signal { .. }
        | RunInput::ApplyScopes
        | RunInput::TakePlace
        | RunInput::ContactReplied
        | RunInput::TimerFired { .. }
        | RunInput::StepParks { .. }
        | RunInput::SuspendStep(_)
        | RunInput::StepResult(_)
        | RunInput::LeaseEnded { .. }
        | RunInput::HoldClosed { .. } => true,
        RunInput::Start { .. }
        | RunInput::StartScheduled(_)
        | RunInput::Pause { .. }
        | RunInput::PatchContext { .. }
        | RunInput::Suspend { .. }
        | RunInput::Cancel { .. }
        | RunInput::TakeOver { .. }
        | RunInput::ToolAvailability { .. }
        | RunInput::Watch
        | RunInput::StartStep(_)
        | RunInput::AskPeople { .. }
        | RunInput::PutBlob(_)
        | RunInput::ContinueStep(_)
        | RunInput::HandoffUpdate { .. }
        | RunInput::Incident { .. } => false,
    }
}

/// What the result of a call needs.
fn result_needs(run: &Run, report: &StepReport) -> Vec<Need> {
    let step = run.steps.iter().find(|step| step.id == report.step);
    // The texts of a result may repeat hidden arguments.
    let hidden = step.and_then(|step| request_need(run.id, step));
    let other = if report.result.success {
        // Only a mail has a Message-ID. Its address is compared with that of the contact.
        let has_id = report.result.data.get("message_id").is_some();
        contact_need(run).filter(|_| has_id)
    } else {
        // The row of the step keeps its failed attempts.
        step.and_then(|step| failed_attempts_need(run.id, step))
    };
    hidden.into_iter().chain(other).collect()
}
