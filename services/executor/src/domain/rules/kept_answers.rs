//! Answers that came while a run could not move take effect when it moves again.

use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::run::HoldKind;

use crate::domain::decision::Undecided;
use crate::domain::model::run::{HoldClosure, PersonHold};
use crate::domain::rules::close_person_hold::apply_closure;
use crate::domain::rules::end_person_step::completion;
use crate::domain::rules::uncertain_choice::apply_choice;
use crate::domain::transition::RunTransition;

pub(crate) fn apply_kept_answers(transition: &mut RunTransition<'_>) -> Result<(), Undecided> {
    apply_kept_closures(transition)?;
    if !transition.run.moves() {
        return Ok(());
    }
    let given: Vec<_> = transition
        .run
        .questions()
        .filter_map(|(step, asked)| Some((step.id.clone(), asked.clone(), asked.answer.clone()?)))
        .collect();
    for (id, asked, answer) in given {
        // An answer before may have ended the run or skipped the step, and with it this question.
        let is_open = transition
            .run
            .questions()
            .any(|(_, one)| one.hold == asked.hold);
        if !is_open {
            continue;
        }
        apply_choice(transition, &id, &asked, &answer)?;
    }
    Ok(())
}

/// Whether a hold of that kind can end that way.
pub(crate) fn fits_kind(kind: HoldKind, closing: &HoldClosure) -> bool {
    let is_asked = kind == HoldKind::Input;
    let is_handoff = kind == HoldKind::Handoff;
    let is_approval = kind == HoldKind::Approval;
    match closing.outcome {
        HoldOutcome::Timeout | HoldOutcome::Cancelled => is_asked || is_handoff || is_approval,
        HoldOutcome::TakenOver => is_handoff,
        HoldOutcome::Answered => is_asked && !closing.data.is_null(),
        HoldOutcome::Completed => is_handoff && completion(closing).is_some(),
        HoldOutcome::Approved | HoldOutcome::Rejected | HoldOutcome::Revised => is_approval,
        HoldOutcome::Fired => false,
    }
}

/// Whether a closure may take effect now. While a person owns the run, only that person's closure may. Before
/// the missing inputs are given, only their closure may.
pub(crate) fn takes_effect(transition: &RunTransition<'_>, on: &PersonHold) -> bool {
    let run = &transition.run;
    let is_first = run
        .missing_inputs_hold
        .as_ref()
        .is_none_or(|missing_inputs_hold| missing_inputs_hold.id == on.id);
    let is_owners = run.taken().is_none() || on.taken.is_some();
    run.pauses.is_empty() && is_owners && (is_first || on.taken.is_some())
}

pub(crate) fn apply_kept_closures(transition: &mut RunTransition<'_>) -> Result<(), Undecided> {
    loop {
        let kept = transition.run.people().find_map(|(_, on)| {
            let closing = on
                .closing
                .clone()
                .filter(|_| takes_effect(transition, on))?;
            Some((on.clone(), closing))
        });
        let Some((on, closing)) = kept else {
            return Ok(());
        };
        // Each closure is applied once, whatever its result.
        if let Some(it) = transition.run.people_mut().find(|it| it.id == on.id) {
            it.closing = None;
        }
        if fits_kind(on.kind, &closing) {
            apply_closure(transition, &on, &closing)?;
        }
    }
}
