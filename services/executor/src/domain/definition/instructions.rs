//! The steps of an agent: written as `steps`, or compiled from its `instructions`.

use holdpoint_contracts::duration;
use holdpoint_contracts::problem::FieldError;
use holdpoint_instructions::{InstructionError, InstructionStep, compile, write_step};
use serde_json::{Map, Value};

use super::diagnostics::{AgentChecker, MAX_STEPS, shown};
use super::step::default_id;
use crate::domain::expression::diagnostic;

const INSTRUCTIONS: &str = "instructions";

/// The steps as their author could have written them.
pub(super) struct WrittenSteps {
    pub(super) steps: Vec<Value>,
    /// Each step as an instruction; empty: the grammar has no words for it.
    pub(super) words: Vec<String>,
}

impl AgentChecker<'_> {
    /// `None`: they were refused.
    pub(super) fn written_steps(&mut self, agent: &Map<String, Value>) -> Option<WrittenSteps> {
        let present = |name: &str| agent.get(name).filter(|value| !value.is_null());
        match (present("steps"), present(INSTRUCTIONS)) {
            (Some(steps), None) => self.steps_list(steps),
            (None, Some(Value::String(text))) => self.compile_instructions(text),
            (None, Some(other)) => {
                let message = "`instructions` is a text with one step on each line.";
                self.report_field(INSTRUCTIONS, &shown(other), message);
                None
            }
            (Some(_), Some(_)) => {
                let message = "An agent has either `steps` or `instructions`.";
                self.report_field(INSTRUCTIONS, INSTRUCTIONS, message);
                None
            }
            (None, None) => {
                let message = "An agent needs `steps` or `instructions`.";
                self.report_field("steps", "steps", message);
                None
            }
        }
    }

    fn steps_list(&mut self, value: &Value) -> Option<WrittenSteps> {
        let message = match value {
            Value::Array(steps) if (1..=MAX_STEPS).contains(&steps.len()) => {
                let words = steps.iter().enumerate();
                let words: Vec<_> = words.map(|(at, step)| words_of(at, step)).collect();
                let has_words = words.iter().any(|words| !words.is_empty());
                return Some(WrittenSteps {
                    words: if has_words { words } else { Vec::new() },
                    steps: steps.clone(),
                });
            }
            Value::Array(steps) if steps.is_empty() => "An agent has at least one step.".to_owned(),
            Value::Array(steps) => {
                let count = steps.len();
                format!("An agent has at most {MAX_STEPS} steps; this one has {count}.")
            }
            _ => "`steps` is a list of steps.".to_owned(),
        };
        let text = match value {
            Value::Array(_) => "steps".to_owned(),
            other => shown(other),
        };
        self.report_field("steps", &text, message);
        None
    }

    fn compile_instructions(&mut self, text: &str) -> Option<WrittenSteps> {
        match compile(text) {
            Ok(compiled) => {
                let lines = compiled.iter().map(|step| step.line).collect();
                self.lines.place_instructions(text, lines);
                let (steps, words) = compiled.into_iter().map(split_step).unzip();
                Some(WrittenSteps { steps, words })
            }
            Err(errors) => {
                let lines = errors.iter().map(|error| error.line).collect();
                self.lines.place_instructions(text, lines);
                for (at, error) in errors.into_iter().enumerate() {
                    self.report_instruction(at, error);
                }
                None
            }
        }
    }

    fn report_instruction(&mut self, at: usize, error: InstructionError) {
        if self.is_full() {
            return;
        }
        let line = self.lines.step(at, None);
        let message = match line {
            Some(_) => error.message,
            None => format!("Line {} of `instructions`: {}", error.line, error.message),
        };
        self.errors.push(FieldError {
            line,
            column: Some(error.column),
            nearest: error.nearest,
            ..diagnostic(&error.text, message)
        });
    }
}

/// A step as an instruction; empty: the grammar has no words for it.
fn words_of(at: usize, step: &Value) -> String {
    let Value::Object(step) = step else {
        return String::new();
    };
    let mut step = step.clone();
    if step.get("id").is_some_and(|id| *id == default_id(at)) {
        step.shift_remove("id");
    }
    if let Some(wait) = step.get_mut("wait")
        && let Some(length) = wait.as_str().and_then(|text| duration::parse(text).ok())
    {
        // A length of many units has no such words.
        let words = duration::describe(length);
        if duration::parse(&words).is_ok_and(|read| read == length) {
            *wait = Value::from(words);
        }
    }
    write_step(&step).unwrap_or_default()
}

fn split_step(step: InstructionStep) -> (Value, String) {
    (Value::Object(step.fields), step.text)
}
