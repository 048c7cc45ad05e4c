//! What a condition is.

use serde_json::Value;

/// Most negations before a condition.
pub(super) const NEGATIONS_MAX: usize = 8;

/// A condition of a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Condition {
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
pub(crate) enum Test {
    /// The contact replied, with a tone if it is asked for.
    Reply {
        tone: Option<Tone>,
        is_negated: bool,
    },
    /// A test of a value.
    Field { path: Path, check: Check },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Positive,
    Negative,
}

/// A value of a condition, as CEL names it: `contact.plan`, `input.amount`, `$step-01.answer`, or `deal.stage` of some deal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path(pub(super) String);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Check {
    Compare(Comparison, Value),
    Contains(String),
    ContainsNot(String),
    StartsWith(String),
    EndsWith(String),
    IsSet,
    IsMissing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Above,
    Below,
    AtLeast,
    AtMost,
}

impl Condition {
    /// Whether the condition is only that the contact replied, in any tone.
    pub(crate) fn is_reply(&self) -> bool {
        let reply = [Test::Reply {
            tone: None,
            is_negated: false,
        }];
        match self {
            Self::All(tests) | Self::Any(tests) => *tests == reply,
            Self::Not(_) | Self::Cel(_) => false,
        }
    }

    /// Whether the condition is only that a reply is missing, so that it holds from the start.
    pub(crate) fn is_missing_reply(&self) -> bool {
        match self {
            Self::All(tests) | Self::Any(tests) => {
                matches!(tests.as_slice(), [Test::Reply { is_negated, .. }] if *is_negated)
            }
            Self::Not(inner) => inner.is_reply(),
            Self::Cel(_) => false,
        }
    }

    /// How many of its tests are about a deal.
    pub(super) fn deal_tests(&self) -> usize {
        let is_of_deal =
            |test: &&Test| matches!(test, Test::Field { path, .. } if path.is_of_deal());
        match self {
            Self::All(tests) | Self::Any(tests) => tests.iter().filter(is_of_deal).count(),
            Self::Not(inner) => inner.deal_tests(),
            Self::Cel(_) => 0,
        }
    }

    /// Whether one of its tests is the opposite of another one.
    pub(super) fn has_opposites(&self) -> bool {
        match self {
            Self::All(tests) | Self::Any(tests) => {
                let rests = (1..=tests.len()).filter_map(|at| tests.get(at..));
                let mut pairs = tests.iter().zip(rests);
                pairs.any(|(test, rest)| rest.iter().any(|other| test.is_opposite_of(other)))
            }
            Self::Not(inner) => inner.has_opposites(),
            Self::Cel(_) => false,
        }
    }

    /// Whether the condition reads the result of a step. `None`: it is CEL that names the step.
    pub(crate) fn reads_step(&self, id: &str) -> Option<bool> {
        match self {
            Self::All(tests) | Self::Any(tests) => Some(tests.iter().any(|it| it.reads_step(id))),
            Self::Not(inner) => inner.reads_step(id),
            Self::Cel(cel) => (!names_step(cel, id)).then_some(false),
        }
    }

    /// Whether the condition reads only inputs and results, which do not change during a repetition.
    pub(crate) fn is_constant(&self) -> bool {
        match self {
            Self::All(tests) | Self::Any(tests) => tests.iter().all(Test::is_constant),
            Self::Not(inner) => inner.is_constant(),
            Self::Cel(_) => false,
        }
    }

    /// The same condition on the result of another step.
    pub(crate) fn on_step(&self, from: &str, to: &str) -> Self {
        let renamed = |tests: &[Test]| tests.iter().map(|it| it.on_step(from, to)).collect();
        match self {
            Self::All(tests) => Self::All(renamed(tests)),
            Self::Any(tests) => Self::Any(renamed(tests)),
            Self::Not(inner) => Self::Not(Box::new(inner.on_step(from, to))),
            Self::Cel(cel) => Self::Cel(cel.clone()),
        }
    }
}

impl Test {
    /// Whether the other is the same test with the opposite words, such as `is` and `is not`.
    pub(super) fn is_opposite_of(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Reply { tone, is_negated },
                Self::Reply {
                    tone: other_tone,
                    is_negated: other_is_negated,
                },
            ) => tone == other_tone && is_negated != other_is_negated,
            (
                Self::Field { path, check },
                Self::Field {
                    path: other_path,
                    check: other_check,
                },
            ) => {
                let is_opposite =
                    check.is_negated_by(other_check) || other_check.is_negated_by(check);
                path == other_path && is_opposite
            }
            (Self::Reply { .. }, Self::Field { .. }) | (Self::Field { .. }, Self::Reply { .. }) => {
                false
            }
        }
    }

    fn reads_step(&self, id: &str) -> bool {
        match self {
            Self::Reply { .. } => false,
            Self::Field { path, .. } => path.after_step(id).is_some(),
        }
    }

    fn is_constant(&self) -> bool {
        match self {
            Self::Reply { .. } => false,
            Self::Field { path, .. } => !path.is_of_contact(),
        }
    }

    fn on_step(&self, from: &str, to: &str) -> Self {
        match self {
            Self::Field { path, check } => Self::Field {
                path: path
                    .after_step(from)
                    .map_or_else(|| path.clone(), |rest| Path(format!("${to}{rest}"))),
                check: check.clone(),
            },
            Self::Reply { .. } => self.clone(),
        }
    }
}

impl Check {
    fn is_negated_by(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Compare(Comparison::Equal, value),
                Self::Compare(Comparison::NotEqual, other),
            ) => value == other,
            (Self::Contains(text), Self::ContainsNot(other)) => text == other,
            (Self::IsSet, Self::IsMissing) => true,
            _ => false,
        }
    }
}

impl Path {
    /// What follows the name of a step, such as `.total`. `None`: the path is not the result of this step.
    fn after_step(&self, id: &str) -> Option<&str> {
        let rest = self.0.strip_prefix('$')?.strip_prefix(id)?;
        rest.starts_with('.').then_some(rest)
    }
}

fn names_step(cel: &str, id: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let mut names = cel.split('$').skip(1);
    names.any(|after| {
        after
            .strip_prefix(id)
            .is_some_and(|rest| !rest.starts_with(is_part))
    })
}

/// The CEL of the opposite.
pub(crate) fn negate(cel: &str) -> String {
    format!("!({cel})")
}
