//! The children among the steps of a run: those of the plan come first.

use crate::domain::model::run::fan_out::{ChildOf, FanOut, KeptItem, item_of};
use crate::domain::model::run::{Run, Step, StepPhase};

impl Run {
    /// The index in the plan of a step of the run.
    #[must_use]
    pub fn plan_index(&self, index: usize) -> usize {
        let of = self.steps.get(index).and_then(|step| step.child_of);
        of.map_or(index, |of| of.parent)
    }

    /// Whether a step is the child of a fan-out.
    #[must_use]
    pub fn is_child(&self, index: usize) -> bool {
        let step = self.steps.get(index);
        step.is_some_and(|step| step.child_of.is_some())
    }

    /// The other items of the fan-out of a child.
    pub fn siblings(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let parent = |step: &Step| step.child_of.map(|of| of.parent);
        let of = self.steps.get(index).and_then(parent);
        let steps = self.steps.iter().enumerate();
        steps.filter_map(move |(sibling, step)| {
            let is_sibling = of.is_some() && parent(step) == of && sibling != index;
            is_sibling.then_some(sibling)
        })
    }

    /// Number of the steps that are in the plan. Children follow them.
    #[must_use]
    pub fn planned_len(&self) -> usize {
        let children = self.steps.iter().rev();
        let children = children.take_while(|step| step.child_of.is_some());
        self.steps.len() - children.count()
    }

    /// The same step in an earlier state of the run; none: it is new. A newer plan may have another length, and the
    /// children follow its steps.
    #[must_use]
    pub fn step_before<'b>(&self, before: &'b Self, index: usize) -> Option<&'b Step> {
        if self.plan == before.plan {
            return before.steps.get(index);
        }
        match index.checked_sub(self.planned_len()) {
            Some(child) => before.steps.get(before.planned_len() + child),
            None => before.planned_steps().nth(index),
        }
    }

    /// The steps of the plan.
    pub fn planned_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().take_while(|step| step.child_of.is_none())
    }

    /// Whether an id names the child of a fan-out that has ended, so that the run has only its numbers.
    #[must_use]
    pub fn has_ended_child(&self, id: &str) -> bool {
        let mut known = self.steps.iter();
        let is_named = |step: &Step| {
            let fan_out = step.fan_out.as_deref();
            let item = fan_out.and_then(|fan_out| Some((fan_out, item_of(id, &step.id)?)));
            item.is_some_and(|(fan_out, item)| item < fan_out.total)
        };
        self.planned_steps().any(is_named) && !known.any(|step| step.id == id)
    }

    /// Counts a child that has ended.
    pub fn count_child(&mut self, index: usize) {
        let Some(child) = self.steps.get_mut(index) else {
            return;
        };
        let Some(of) = child.child_of.as_mut().filter(|of| !of.is_counted) else {
            return;
        };
        of.is_counted = true;
        let (of, child) = (*of, child.clone());
        // A repeated answer about it still changes nothing.
        self.closed.extend(&child.answered);
        let parent = self.steps.get_mut(of.parent);
        if let Some(fan_out) = parent.and_then(|parent| parent.fan_out.as_mut()) {
            count_end(fan_out, &child, of);
        }
    }

    /// Removes the children that their fan-out has counted, or no longer needs, from a place on.
    pub fn remove_counted_children(&mut self, from: usize) {
        if from >= self.steps.len() || self.planned_len() == self.steps.len() {
            return;
        }
        let completed: Vec<bool> = (self.planned_steps())
            .map(|step| matches!(step.phase, StepPhase::Completed { .. }))
            .collect();
        let mut place = 0;
        self.steps.retain(|step| {
            let is_before = place < from;
            place += 1;
            let Some(of) = step.child_of else {
                return true;
            };
            let is_over = of.is_counted || completed.get(of.parent) == Some(&true);
            is_before || !is_over
        });
    }
}

/// Counts the end of a child.
fn count_end(fan_out: &mut FanOut, child: &Step, of: ChildOf) {
    match child.phase {
        StepPhase::Completed { .. } => fan_out.completed += 1,
        StepPhase::Skipped { .. } => fan_out.skipped += 1,
        StepPhase::Planned
        | StepPhase::FannedOut
        | StepPhase::Queued(_)
        | StepPhase::Granted(_)
        | StepPhase::Waiting(_)
        | StepPhase::Uncertain(_)
        | StepPhase::AwaitingPerson(_)
        | StepPhase::Parked(_)
        | StepPhase::Failed { .. }
        | StepPhase::Cancelled { .. } => fan_out.failed += 1,
    }
    if matches!(child.phase, StepPhase::Completed { .. }) {
        fan_out.result_bytes = fan_out.result_bytes.saturating_add(of.result_bytes);
    }
    fan_out.fence = fan_out.fence.max(child.dispatch);
    if child.by_person {
        fan_out.by_person.push(KeptItem {
            item: of.item,
            result_bytes: of.result_bytes,
        });
    }
}
