//! The look at expressions when the plan is made.
//!
//! Owns what an expression may name and what its author is told about a name that is not known.
//! It must never evaluate: a plan is made before there are values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdpoint_contracts::problem::FieldError;
use holdpoint_ids::nearest;
use serde_json::Value;

use super::diagnostic::diagnostic;
use super::program::Program;
use super::scope::Reference;
use super::syntax;
use super::template::{self, Path, Piece, Text};
use crate::domain::text::cut;

/// What was found in the arguments of one step.
#[derive(Debug)]
pub struct CheckedArgs {
    pub references: BTreeSet<Reference>,
    pub paths: NamedPaths,
    /// What is wrong with them; the search ends at [`MAX_DIAGNOSTICS`].
    pub diagnostics: Vec<FieldError>,
    /// How many placeholders they hold, as far as they were searched.
    pub placeholders: usize,
}

/// Diagnostics after which arguments are not searched further: an agent lists no more.
const MAX_DIAGNOSTICS: usize = 100;

/// Most placeholders in the arguments of one step.
pub const MAX_PLACEHOLDERS: usize = 1_000;

/// What the expressions of one step may name when the plan is made.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// Every step id of the plan with its index.
    pub steps: &'a BTreeMap<String, usize>,
    /// By step index, whether it is done before this step. `None` does not look at the order.
    pub before: Option<&'a [bool]>,
    /// Whether there is an `item`: in `args`, `ask` or `handoff` of a step with `for_each`.
    pub has_item: bool,
}

/// Checks a condition when the plan is made: limits, syntax, and that all it names exists and is
/// done before. Returns what it refers to.
///
/// # Errors
/// [`FieldError`], with the nearest names.
pub fn check(condition: &str, names: Names<'_>) -> Result<BTreeSet<Reference>, Box<FieldError>> {
    let program = compile(condition, names)?;
    program.roots().map(|root| names.reference(root)).collect()
}

/// The paths that expressions name.
#[derive(Debug, Default)]
pub struct NamedPaths {
    /// Read by an expression.
    read: BTreeSet<Path>,
    /// Tested with `has()`.
    tested: BTreeSet<Path>,
}

/// The paths of a step.
#[derive(Debug, Default)]
pub struct StepPaths {
    /// These must exist, so that no expression fails: neither they nor what holds them is tested.
    pub needed: BTreeSet<Path>,
    /// Tested with `has()`.
    pub tested: BTreeSet<Path>,
}

impl StepPaths {
    /// Whether a path begins at the contact of the run.
    #[must_use]
    pub fn names_contact(&self) -> bool {
        let mut paths = self.needed.iter().chain(&self.tested);
        paths.any(|path| path.root == "contact")
    }
}

impl NamedPaths {
    fn add(&mut self, program: &Program) {
        for (path, is_tested) in program.paths() {
            let paths = if is_tested {
                &mut self.tested
            } else {
                &mut self.read
            };
            paths.insert(path.clone());
        }
    }

    /// Adds those of other expressions of the same step.
    pub fn extend(&mut self, other: Self) {
        self.read.extend(other.read);
        self.tested.extend(other.tested);
    }

    /// Divides the paths into those that must exist and those that may be missing.
    #[must_use]
    pub fn into_step_paths(self) -> StepPaths {
        let Self { mut read, tested } = self;
        read.retain(|path| !tested.iter().any(|test| test.holds(path)));
        StepPaths {
            needed: read,
            tested,
        }
    }
}

/// The paths of a condition; none if it is not valid.
#[must_use]
pub fn named_paths(condition: &str, names: Names<'_>) -> NamedPaths {
    let mut paths = NamedPaths::default();
    if let Ok(program) = compile(condition, names) {
        paths.add(&program);
    }
    paths
}

fn compile(expression: &str, names: Names<'_>) -> Result<Arc<Program>, Box<FieldError>> {
    let known = |id: &str| names.steps.contains_key(id);
    Program::compile(expression, &known)
}

/// Checks every placeholder in arguments when the plan is made, and returns what they refer to
/// together with all that is wrong.
#[must_use]
pub fn check_args(args: &Value, names: Names<'_>) -> CheckedArgs {
    let mut checker = PlaceholderChecker {
        names,
        found: BTreeSet::new(),
        paths: NamedPaths::default(),
        diagnostics: Vec::new(),
        placeholders: 0,
    };
    checker.value(args);
    if checker.placeholders > MAX_PLACEHOLDERS {
        let message = format!(
            "The arguments of a step hold at most {MAX_PLACEHOLDERS} placeholders; these hold more."
        );
        checker.diagnostics.push(diagnostic("args", message));
    }
    CheckedArgs {
        references: checker.found,
        paths: checker.paths,
        diagnostics: checker.diagnostics,
        placeholders: checker.placeholders,
    }
}

impl Names<'_> {
    fn reference(&self, root: &str) -> Result<Reference, Box<FieldError>> {
        match root {
            "input" => return Ok(Reference::Input),
            "contact" => return Ok(Reference::Contact),
            "run" => return Ok(Reference::Run),
            "item" if self.has_item => return Ok(Reference::Item),
            "item" => {
                let message = "`$item` is the item of `for_each`; use it in `args`, `ask` or `handoff` of a step with `for_each`.";
                return Err(diagnostic("$item", message).into());
            }
            _ => {}
        }
        let Some(&index) = self.steps.get(root) else {
            if root == "secret" {
                return Err(secret().into());
            }
            return Err(self.unknown(root).into());
        };
        let comes_before = |before: &[bool]| before.get(index).copied().unwrap_or(false);
        if self.before.is_none_or(comes_before) {
            return Ok(Reference::Step(index));
        }
        let message = format!(
            "`${root}` is not done before this step, so its result cannot be used here; add `{root}` to `needs`."
        );
        Err(diagnostic(&format!("${root}"), message).into())
    }

    fn unknown(&self, root: &str) -> FieldError {
        let steps = self.steps.keys().map(String::as_str);
        let near = nearest(root, syntax::ROOTS.into_iter().chain(steps));
        let nearest = near.into_iter().map(|name| {
            if self.steps.contains_key(&name) {
                format!("${name}")
            } else {
                name
            }
        });
        let unknown = if syntax::looks_like_step(root) {
            let message = format!("This agent has no step `{root}`.");
            diagnostic(&format!("${root}"), message)
        } else {
            let message = format!(
                "`{root}` is not known here; an expression may use `input`, `contact`, `run` and the results of earlier steps, such as `$step-01`."
            );
            diagnostic(root, message)
        };
        FieldError {
            nearest: nearest.collect(),
            ..unknown
        }
    }
}

/// One pass over the arguments of a step when the plan is made.
struct PlaceholderChecker<'a> {
    names: Names<'a>,
    found: BTreeSet<Reference>,
    paths: NamedPaths,
    diagnostics: Vec<FieldError>,
    placeholders: usize,
}

impl PlaceholderChecker<'_> {
    fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter().for_each(|item| self.value(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.value(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn is_full(&self) -> bool {
        self.placeholders > MAX_PLACEHOLDERS || self.diagnostics.len() >= MAX_DIAGNOSTICS
    }

    fn text(&mut self, text: &str) {
        if self.is_full() {
            return;
        }
        let steps = self.names.steps;
        let known = |id: &str| steps.contains_key(id);
        match template::read(text, &known) {
            Text::Path(path) => {
                self.placeholders += 1;
                self.take(path);
            }
            Text::Malformed => self.diagnostics.push(malformed(text)),
            Text::Template(rest) => {
                if rest.starts_with("$secret.") {
                    self.diagnostics.push(secret());
                }
                if let Some(near) = template::misspelt(rest, steps.keys()) {
                    self.diagnostics.push(misspelt(rest, near));
                }
                self.pieces(rest);
            }
            Text::Escaped(rest) => self.pieces(rest),
        }
    }

    fn pieces(&mut self, text: &str) {
        let pieces = match template::pieces(text) {
            Ok(pieces) => pieces,
            Err(diagnostic) => return self.diagnostics.push(*diagnostic),
        };
        for piece in pieces {
            let Piece::Expression(expression) = piece else {
                continue;
            };
            if self.is_full() {
                return;
            }
            self.placeholders += 1;
            if let Err(diagnostic) = self.expression(expression) {
                self.diagnostics.push(*diagnostic);
            }
        }
    }

    fn expression(&mut self, expression: &str) -> Result<(), Box<FieldError>> {
        let program = compile(expression, self.names)?;
        for root in program.roots() {
            self.found.insert(self.names.reference(root)?);
        }
        self.paths.add(&program);
        Ok(())
    }

    fn take(&mut self, path: Path) {
        match self.names.reference(&path.root) {
            Ok(reference) => {
                self.found.insert(reference);
                self.paths.read.insert(path);
            }
            Err(diagnostic) => self.diagnostics.push(*diagnostic),
        }
    }
}

/// A secret in the arguments would be stored and shown with them.
fn secret() -> FieldError {
    let message = "A secret cannot be used in an agent. Name it in the definition of the tool: in a header, or in `env` of a command.";
    diagnostic("secret", message)
}

fn malformed(text: &str) -> FieldError {
    let message = "A text that starts with a placeholder must be that placeholder alone; inside text write `{{ }}`, and for a plain `$` write `$$`.";
    diagnostic(&cut(text, 80), message)
}

fn misspelt(text: &str, nearest: Vec<String>) -> FieldError {
    let message = "This looks like a placeholder and names nothing that is known here; if it is meant as plain text, write `$$` for the `$`.";
    FieldError {
        nearest,
        ..diagnostic(&cut(text, 80), message)
    }
}
