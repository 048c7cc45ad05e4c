//! What a condition is.

use serde_json::Value;

/// Most negations before a condition.
pub(super) const NEGATIONS_MAX: usize = 8;

/// A condition of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    /// One test, or several of which all must hold.
    All(Vec<Test>),
    /// Several tests of which one must hold.
    Any(Vec<Test>),
    Not(Box<Condition>),
    /// CEL without words.
    Cel(String),
}

/// One test of a condition.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Test {
    /// The contact replied, with a tone if it is asked for.
    Reply {
        tone: Option<Tone>,
        is_negated: bool,
    },
    /// A test of a value.
    Field { path: Path, check: Check },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Positive,
    Negative,
}

/// A value of a condition, as CEL names it: `contact.plan`, `input.amount` or `$step-01.answer`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path(pub(super) String);

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Check {
    Compare(Comparison, Value),
    Contains(String),
    ContainsNot(String),
    StartsWith(String),
    EndsWith(String),
    IsSet,
    IsMissing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Above,
    Below,
    AtLeast,
    AtMost,
}

/// The CEL of the opposite.
pub(crate) fn negate(cel: &str) -> String {
    format!("!({cel})")
}
