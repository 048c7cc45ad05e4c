//! The steps of a line that repeats its step: the step, then a pause and the step again for each further time.
//!
//! Owns how a repetition ends for good. When its condition has held, each later step of the line is skipped, also if the
//! condition no longer holds then.

use serde_json::Value;

use crate::conditions::{CEL_CHARS_MAX, Condition};
use crate::draft::{Action, Draft, Modifier, ReadStep, default_id};
use crate::repetition::Repetition;
use crate::values::is_name;

/// A line that repeats its step.
pub(crate) struct RepeatedLine {
    draft: Draft,
    repetition: Repetition,
    /// Position of its first step, from 1.
    position: usize,
    /// The name that the line gives its step.
    name: Option<String>,
    /// The condition reads the result of the step.
    reads_own_result: bool,
}

impl RepeatedLine {
    /// # Errors
    /// Why the line cannot be repeated.
    pub(crate) fn new(
        draft: Draft,
        repetition: Repetition,
        position: usize,
    ) -> Result<Self, String> {
        let name = draft.id().map(str::to_owned);
        let own = name.clone().unwrap_or_else(|| default_id(position));
        let Some(reads_own_result) = repetition.end.reads_step(&own) else {
            return Err(format!(
                "A condition on the result of the repeated step is in words, such as `until ${own}.status is \"paid\"`"
            ));
        };
        if !reads_own_result && repetition.end.is_constant() {
            return Err(
                "This condition cannot change, because it reads neither the contact nor the result of the repeated step; name the result with `as find`".to_owned(),
            );
        }
        let continues = Modifier::OnError("continue");
        if reads_own_result && draft.modifiers.contains(&continues) {
            return Err("A failed call that continues has no result, so the condition cannot read it; write it without `if it fails continue`".to_owned());
        }
        let line = Self {
            draft,
            repetition,
            position,
            name,
            reads_own_result,
        };
        line.check_lengths()?;
        Ok(line)
    }

    /// How many steps the line has.
    pub(crate) const fn steps_count(&self) -> usize {
        2 * self.repetition.times - 1
    }

    /// How often the step is in the plan.
    pub(crate) const fn times(&self) -> usize {
        self.repetition.times
    }

    /// The ids of the step, one for each time.
    pub(crate) fn ids(&self) -> Vec<String> {
        (1..=self.repetition.times)
            .map(|number| self.id(number))
            .collect()
    }

    /// The steps in their order, each with what is shown beside it. The first one is the line itself.
    pub(crate) fn make_steps(&self) -> Vec<ReadStep> {
        let times = self.repetition.times;
        let mut steps = Vec::with_capacity(self.steps_count());
        let mut first = self.draft.clone();
        // A contact who has replied before gets nothing. The own result exists only after the first time.
        if !self.reads_own_result {
            first.when = Some(Condition::Not(Box::new(self.repetition.end.clone())).to_cel());
        }
        steps.push((first.into_fields(), None));
        let mut guards = String::new();
        for number in 2..=times {
            let not_ended = self.not_ended_after(number - 1);
            self.guard_pause(&mut guards, number);
            let pause = Draft {
                when: Some(format!("{guards}{not_ended}")),
                for_each: None,
                action: self.pause(),
                modifiers: Vec::new(),
            };
            let shown = format!("# Pause before time {number} of {times}");
            steps.push((pause.into_fields(), Some(shown)));
            self.guard_step(&mut guards, number);
            let mut again = self.draft.clone();
            again.when = Some(format!("{guards}{not_ended}"));
            if self.name.is_some() {
                again.modifiers.retain(|it| !matches!(it, Modifier::Id(_)));
                again.modifiers.push(Modifier::Id(self.id(number)));
            }
            let shown = format!("# Time {number} of {times}");
            steps.push((again.into_fields(), Some(shown)));
        }
        steps
    }

    fn pause(&self) -> Action {
        let period = self.repetition.period.clone();
        if self.repetition.end.is_reply() {
            return Action::Reply {
                within: Some(period),
            };
        }
        Action::Wait(Value::String(period))
    }

    /// What must be so before the pause for a time, from 2. A pause or a step that was skipped reads as null.
    fn guard_pause(&self, guards: &mut String, number: usize) {
        if self.reads_own_result {
            *guards = format!("${} != null && ", self.id(number - 1));
        }
    }

    /// What must be so before a time, from 2. A reply is the result of the pause that it ends. Any other pause for a reply
    /// reads as null, so all earlier ones count.
    fn guard_step(&self, guards: &mut String, number: usize) {
        let pause = self.pause_id(number - 1);
        if self.repetition.end.is_reply() {
            guards.push_str(&format!("${pause} == null && "));
        } else {
            *guards = format!("${pause} != null && ");
        }
    }

    /// That the repetition has not ended with a time, from 1.
    fn not_ended_after(&self, number: usize) -> String {
        let end = if self.reads_own_result {
            self.repetition.end.on_step(&self.id(1), &self.id(number))
        } else {
            self.repetition.end.clone()
        };
        Condition::Not(Box::new(end)).to_cel()
    }

    /// Id of the step for a time, from 1.
    fn id(&self, number: usize) -> String {
        match (&self.name, number) {
            (Some(name), 1) => name.clone(),
            (Some(name), _) => format!("{name}-{number}"),
            (None, _) => default_id(self.position + 2 * (number - 1)),
        }
    }

    /// Id of the pause after a time, from 1.
    fn pause_id(&self, number: usize) -> String {
        default_id(self.position + 2 * number - 1)
    }

    /// The last conditions and the last name are the longest.
    fn check_lengths(&self) -> Result<(), String> {
        let times = self.repetition.times;
        let id = self.id(times);
        if !is_name(&id) {
            return Err(format!(
                "The name `{id}` of the last repetition is too long"
            ));
        }
        let mut guards = String::new();
        (2..=times).for_each(|number| self.guard_step(&mut guards, number));
        let mut guards_of_pause = String::new();
        self.guard_pause(&mut guards_of_pause, times);
        let longest = guards.len().max(guards_of_pause.len());
        if longest + self.not_ended_after(times - 1).chars().count() > CEL_CHARS_MAX {
            return Err(format!(
                "The conditions of the repetition have more than {CEL_CHARS_MAX} characters of CEL"
            ));
        }
        Ok(())
    }
}
