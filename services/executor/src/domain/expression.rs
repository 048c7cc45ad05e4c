//! Placeholders in arguments, and conditions (`when`), over what a run knows.
//!
//! Owns their syntax, what they may name, their limits and what happens when something is
//! missing. It must never read a clock, a file or a table: all it sees is the [`Scope`] that it is
//! given. The one thing it keeps is a bounded memory of compiled texts, which changes no answer.
//!
//! Two notations mean the same: `$step-01.orders[0].id` as a whole text, and `{{ CEL }}` anywhere
//! in a text. A text that is one placeholder keeps the type of its value. `$$name` is the text
//! `$name`.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "JSON and CEL values are not ours: what is not named here is refused or kept as it is"
)]

mod check;
mod cost;
mod diagnostic;
mod null_result;
mod program;
mod scope;
mod syntax;
mod template;
mod value;
mod walk;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use holdpoint_contracts::value_limits::{self, LimitExceeded};
use serde_json::Value;

use cost::Spent;
use program::{EvalFailure, Program};
use template::{Piece, Text};

use crate::domain::text::cut;

pub use check::{
    CheckedArgs, MAX_PLACEHOLDERS, NamedPaths, Names, StepPaths, check, check_args, named_paths,
};
pub(in crate::domain) use diagnostic::diagnostic;
pub use scope::{MAX_DEPTH, MAX_LENGTH, Reference, Scope};
pub use template::{Path, Segment};

/// Largest resolved arguments, in bytes of text. Beyond it the step fails with
/// `arguments_too_large`, so that a short template cannot fill the memory.
pub const MAX_RESOLVED: usize = 256 * 1024;

/// Largest resolved list of `for_each`, in bytes of text: an input may be that large.
pub const MAX_RESOLVED_ITEMS: usize = 1024 * 1024;

/// Why arguments could not be resolved (S2-R8). The step fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// There is nothing at this path, or `null` where text is needed.
    #[error("`{path}` has no value.")]
    Unresolved { path: String },
    /// The value is there and the expression cannot be computed from it.
    #[error("`{expression}` cannot be computed: {message}.")]
    Failed { expression: String, message: String },
    /// The resolved arguments are a value that is not taken anywhere, for example too deep.
    #[error("The resolved arguments are not allowed: {0}.")]
    NotAllowed(#[from] LimitExceeded),
    /// The resolved arguments are larger than is allowed.
    #[error("The resolved arguments are larger than {0} bytes.")]
    TooLarge(usize),
}

impl ResolveError {
    /// The stable code that the failed step carries.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unresolved { .. } => "unresolved_placeholder",
            Self::Failed { .. } => "expression_failed",
            Self::NotAllowed(_) => "arguments_not_allowed",
            Self::TooLarge(_) => "arguments_too_large",
        }
    }
}

/// Why a condition has no answer. It is then neither true nor false: the step fails, nothing is
/// sent and nothing is skipped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// Something the condition looks at is not there.
    #[error("The condition cannot be decided: `{key}` is missing.")]
    Undetermined {
        /// The missing path, for example `contact.replied`.
        key: String,
    },
    /// The answer is something else than true or false.
    #[error("The condition must be true or false, and is {found}.")]
    NotBoolean { found: String },
    /// The values are there and the condition cannot be computed from them.
    #[error("The condition cannot be decided: {message}.")]
    Failed { message: String },
}

impl EvalError {
    /// The stable code that the failed step carries.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Undetermined { .. } | Self::Failed { .. } => "condition_undetermined",
            Self::NotBoolean { .. } => "condition_not_boolean",
        }
    }
}

/// The answer of a condition, and what it was based on (S0-AC5: the log keeps the values).
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// Whether the step is to be done.
    pub holds: bool,
    /// Each path the condition names with the value that was seen; large values are described
    /// (`list of 512`) and paths that only `has()` asks for and that are missing are left out.
    pub values: BTreeMap<String, Value>,
}

/// Fills in every placeholder of `args` (S2-R8). Keys of objects are left as they are.
///
/// # Errors
/// [`ResolveError`], for the first placeholder that cannot be filled in.
pub fn resolve(args: &Value, scope: &Scope<'_>) -> Result<Value, ResolveError> {
    resolve_up_to(MAX_RESOLVED, args, scope)
}

/// As [`resolve`], for values of at most so many bytes of text.
///
/// # Errors
/// [`ResolveError`], for the first placeholder that cannot be filled in.
pub fn resolve_up_to(bytes: usize, args: &Value, scope: &Scope<'_>) -> Result<Value, ResolveError> {
    let mut budget = Budget {
        bytes_max: bytes,
        bytes,
        spent: Spent::default(),
    };
    let resolved = resolve_within(args, scope, &mut budget)?;
    // Each part was allowed where it came in; what they are composed to is measured here (B-2 a).
    value_limits::check(&resolved)?;
    Ok(resolved)
}

/// Whether the value of a text is known only in a run.
#[must_use]
pub fn has_placeholder(text: &str) -> bool {
    text.starts_with('$') || text.contains("{{")
}

/// Whether a text is one placeholder, which keeps the type of its value.
#[must_use]
pub fn is_placeholder(text: &str, steps: &BTreeMap<String, usize>) -> bool {
    let known = |id: &str| steps.contains_key(id);
    match template::read(text, &known) {
        Text::Path(_) => true,
        Text::Malformed | Text::Escaped(_) => false,
        Text::Template(rest) => {
            let pieces = template::pieces(rest);
            pieces.is_ok_and(|pieces| matches!(pieces.as_slice(), [Piece::Expression(_)]))
        }
    }
}

/// Decides a condition on the values of `scope` (S0-AC5, S2-R8).
///
/// # Errors
/// [`EvalError`] when there is no true or false to be had.
pub fn evaluate(condition: &str, scope: &Scope<'_>) -> Result<Condition, EvalError> {
    let known = |id: &str| scope.knows(id);
    let program = Program::compile(condition, &known).map_err(|diagnostic| EvalError::Failed {
        message: diagnostic.message,
    })?;
    let answer = program
        .run(scope, &mut Spent::default())
        .map_err(|failure| match failure {
            EvalFailure::Missing { path } => EvalError::Undetermined { key: path },
            EvalFailure::Failed { message } => EvalError::Failed { message },
        })?;
    match answer {
        Value::Bool(holds) => Ok(Condition {
            holds,
            values: program.values(scope),
        }),
        other => Err(EvalError::NotBoolean {
            found: value::kind(&other).to_owned(),
        }),
    }
}

/// The values of a condition in another scope, such as one without hidden values.
pub fn seen_values(condition: &str, scope: &Scope<'_>) -> BTreeMap<String, Value> {
    let known = |id: &str| scope.knows(id);
    let program = Program::compile(condition, &known);
    program
        .map(|program| program.values(scope))
        .unwrap_or_default()
}

/// What is left to the arguments of one step.
struct Budget {
    /// Most bytes of what they become.
    bytes_max: usize,
    /// Those that are left.
    bytes: usize,
    /// What their expressions have cost, all together.
    spent: Spent,
}

fn resolve_within(
    args: &Value,
    scope: &Scope<'_>,
    budget: &mut Budget,
) -> Result<Value, ResolveError> {
    match args {
        Value::String(text) => resolve_text(text, scope, budget),
        Value::Array(items) => items
            .iter()
            .map(|item| resolve_within(item, scope, budget))
            .collect::<Result<_, _>>()
            .map(Value::Array),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, field)| Ok((key.clone(), resolve_within(field, scope, budget)?)))
            .collect::<Result<_, _>>()
            .map(Value::Object),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(args.clone()),
    }
}

fn resolve_text(text: &str, scope: &Scope<'_>, budget: &mut Budget) -> Result<Value, ResolveError> {
    let known = |id: &str| scope.knows(id);
    let rest = match template::read(text, &known) {
        Text::Path(path) => {
            let found = path
                .find(scope)
                .ok()
                .ok_or_else(|| ResolveError::Unresolved {
                    path: text.to_owned(),
                })?;
            spend(budget, value::size(found))?;
            return Ok(found.clone());
        }
        Text::Malformed => {
            return Err(ResolveError::Unresolved {
                path: cut(text, 200),
            });
        }
        Text::Template(rest) | Text::Escaped(rest) => rest,
    };
    let pieces = template::pieces(rest).map_err(|diagnostic| ResolveError::Failed {
        expression: cut(text, 200),
        message: diagnostic.message,
    })?;
    if let [Piece::Expression(expression)] = pieces.as_slice() {
        let found = compute(expression, scope, &mut budget.spent)?;
        spend(budget, value::size(&found))?;
        return Ok(found);
    }
    interpolate(&pieces, scope, budget)
}

fn interpolate(
    pieces: &[Piece<'_>],
    scope: &Scope<'_>,
    budget: &mut Budget,
) -> Result<Value, ResolveError> {
    let mut text = String::new();
    for piece in pieces {
        let part = match piece {
            Piece::Literal(literal) => (*literal).to_owned(),
            Piece::Expression(expression) => match compute(expression, scope, &mut budget.spent)? {
                Value::String(found) => found,
                Value::Null => {
                    return Err(ResolveError::Unresolved {
                        path: (*expression).to_owned(),
                    });
                }
                other => other.to_string(),
            },
        };
        spend(budget, part.len())?;
        text.push_str(&part);
    }
    Ok(Value::String(text))
}

fn compute(expression: &str, scope: &Scope<'_>, spent: &mut Spent) -> Result<Value, ResolveError> {
    let known = |id: &str| scope.knows(id);
    let failed = |message| ResolveError::Failed {
        expression: expression.to_owned(),
        message,
    };
    let program =
        Program::compile(expression, &known).map_err(|diagnostic| failed(diagnostic.message))?;
    program.run(scope, spent).map_err(|failure| match failure {
        EvalFailure::Missing { path } => ResolveError::Unresolved { path },
        EvalFailure::Failed { message } => failed(message),
    })
}

fn spend(budget: &mut Budget, bytes: usize) -> Result<(), ResolveError> {
    budget.bytes = budget
        .bytes
        .checked_sub(bytes)
        .ok_or(ResolveError::TooLarge(budget.bytes_max))?;
    Ok(())
}
