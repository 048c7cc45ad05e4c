//! Compiled CEL: guards before the parser, what a program names, and its evaluation.
//!
//! Owns the memory of compiled texts (bounded) and the one shared root context. It must never let
//! a text reach the parser before length and nesting are counted: deep nesting would overflow
//! the stack, which is an abort and no error.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cel::{Context, ExecutionError};
use holdpoint_contracts::problem::FieldError;
use serde_json::{Map, Value};

use super::cost::{Spent, TooCostly};
use super::diagnostic::diagnostic;
use super::null_result::null_result;
use super::scope::{MAX_DEPTH, MAX_LENGTH, Scope};
use super::syntax::{self, Known};
use super::template::{Path, PathError, Segment};
use super::walk::{self, Named, ReferenceCollector};
use super::{cost, value};
use crate::domain::text::cut;

/// Most compiled texts that are remembered; when it is full all are forgotten.
const MAX_REMEMBERED: usize = 4_096;
const CONTACT: &str = "contact";
static NO_FIELDS: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));
static ROOT: LazyLock<Context<'static, 'static>> = LazyLock::new(Context::default);
static REMEMBERED: LazyLock<Mutex<HashMap<String, Arc<Program>>>> =
    LazyLock::new(|| Mutex::new(HashMap::new()));

/// A compiled expression with all the paths it names.
#[derive(Debug)]
pub(super) struct Program {
    program: cel::Program,
    named: Vec<Named>,
    /// The expression is this path and nothing else.
    whole: Option<Path>,
    /// It loops, adds, makes lists or matches patterns, so that its cost depends on the values.
    composes: bool,
    /// The beginning of the expression, for errors.
    text: String,
}

pub(super) enum EvalFailure {
    /// A path it needs leads nowhere.
    Missing { path: String },
    /// Anything else.
    Failed { message: String },
}

impl Program {
    pub(super) fn compile(text: &str, known: Known<'_>) -> Result<Arc<Self>, Box<FieldError>> {
        let quoted = |error: Box<FieldError>| {
            let text = cut(text, 200);
            Box::new(FieldError { text, ..*error })
        };
        guard(text).map_err(quoted)?;
        let source = syntax::rewrite(text, known);
        let remembered = REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = remembered.get(&source) {
            return Ok(Arc::clone(program));
        }
        drop(remembered);
        let program = Arc::new(Self::parse(text, &source).map_err(quoted)?);
        let mut remembered = REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(source, Arc::clone(&program));
        Ok(program)
    }

    fn parse(text: &str, source: &str) -> Result<Self, Box<FieldError>> {
        let program = cel::Program::compile(source).map_err(|errors| {
            let first = errors
                .errors
                .first()
                .map_or_else(String::new, |error| error.msg.clone());
            let said = cut(first.lines().next().unwrap_or_default(), 160);
            let said = said.trim_end_matches('.');
            Box::new(diagnostic(
                "",
                format!("The expression is not valid: {said}."),
            ))
        })?;
        let mut walk = ReferenceCollector::default();
        walk.expression(program.expression(), 0);
        if let Some(first) = walk.refused.into_iter().next() {
            return Err(first.into());
        }
        let whole = walk::path_of(program.expression(), &[]).filter(|path| !walk::is_type(path));
        Ok(Self {
            whole,
            named: walk.named,
            composes: walk.composes,
            text: cut(text, 100),
            program,
        })
    }

    /// The names of all that must be loaded: `input`, `contact`, `run`, step ids.
    pub(super) fn roots(&self) -> impl Iterator<Item = &str> {
        let roots: BTreeSet<&str> = self.named.iter().map(|n| n.path.root.as_str()).collect();
        roots.into_iter()
    }

    /// All paths that it names, and whether it only tests them with `has()`.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&Path, bool)> {
        let named = self.named.iter();
        named.map(|named| (&named.path, named.tested))
    }

    pub(super) fn run(&self, scope: &Scope<'_>, spent: &mut Spent) -> Result<Value, EvalFailure> {
        if let Some(path) = &self.whole {
            let found = path.find(scope).ok();
            return found.cloned().ok_or_else(|| EvalFailure::Missing {
                path: path.to_string(),
            });
        }
        self.check_cost(scope, spent)
            .map_err(|costly| EvalFailure::Failed {
                message: format!("`{}`: {costly}", self.text),
            })?;
        let mut context = ROOT.new_inner_scope();
        for root in self.roots() {
            // A run without a contact has no field of one, which `has` can tell.
            let absent = (root == CONTACT).then_some(&*NO_FIELDS);
            if let Some(value) = scope.root(root).or(absent) {
                let value = if scope.has_no_result(root) {
                    let named = self.named.iter().map(|named| &named.path);
                    let below: Vec<_> = named.filter(|path| path.root == root).collect();
                    value::to_cel(&null_result(&below))
                } else {
                    self.bound(root, value)
                };
                context.add_variable_from_value(syntax::identifier(root), value);
            }
        }
        let result = self
            .program
            .execute(&context)
            .map_err(|error| self.failure(&error, scope))?;
        value::from_cel(&result).ok_or_else(|| EvalFailure::Failed {
            message: "the result is not a JSON value".to_owned(),
        })
    }

    /// The bound of the result's size, for properties.
    #[cfg(test)]
    pub(super) fn bytes_max(&self, scope: &Scope<'_>) -> Option<u64> {
        cost::bytes_max(self.program.expression(), scope)
    }

    /// Each path with the value that is there.
    pub(super) fn values(&self, scope: &Scope<'_>) -> BTreeMap<String, Value> {
        self.named
            .iter()
            .filter_map(|named| {
                let seen = named.path.find(scope).ok()?;
                Some((named.path.to_string(), value::shown(seen)))
            })
            .collect()
    }

    /// The part of a root that is looked at: only the fields that are named, so that a condition
    /// on one field does not copy a large input.
    fn bound(&self, root: &str, whole: &Value) -> cel::Value {
        let mut keys = BTreeSet::new();
        for named in self.named.iter().filter(|named| named.path.root == root) {
            match named.path.segments.first() {
                Some(Segment::Key(key)) => keys.insert(key.as_str()),
                Some(Segment::Index(_)) | None => return value::to_cel(whole),
            };
        }
        match whole {
            Value::Object(fields) => {
                value::fields_to_cel(fields.iter().filter(|(key, _)| keys.contains(key.as_str())))
            }
            other => value::to_cel(other),
        }
    }

    /// The evaluator has no budget, so an expression is weighed before: the values that it is given, and
    /// those that it makes.
    fn check_cost(&self, scope: &Scope<'_>, spent: &mut Spent) -> Result<(), TooCostly> {
        for named in &self.named {
            let given = Self::given(&named.path, scope).map_or(0, value::size);
            spent.charge(1, given as u64)?;
        }
        if self.composes {
            cost::check(self.program.expression(), scope, spent)?;
        }
        Ok(())
    }

    /// What is copied for a path: the whole field that it begins with.
    fn given<'s>(path: &Path, scope: &'s Scope<'_>) -> Option<&'s Value> {
        let root = scope.root(&path.root)?;
        match path.segments.first() {
            Some(Segment::Key(key)) => root.get(key),
            Some(Segment::Index(_)) | None => Some(root),
        }
    }

    /// CEL names only the last key of what is missing; the paths tell the whole way.
    fn failure(&self, error: &ExecutionError, scope: &Scope<'_>) -> EvalFailure {
        let key = match error {
            ExecutionError::NoSuchKey(key) | ExecutionError::UndeclaredReference(key) => {
                Some(key.as_str())
            }
            _ => None,
        };
        let needed = self.named.iter().filter(|named| !named.tested);
        let missing: Vec<(&Path, PathError)> = needed
            .filter_map(|named| Some((&named.path, named.path.find(scope).err()?)))
            .collect();
        let is_key =
            |name: &str| key.is_some_and(|key| key == syntax::identifier(name) || key == name);
        let by_key = missing.iter().find(|(path, miss)| match miss {
            // A run without a contact misses the first field.
            PathError::Absent(_) if path.root == CONTACT && scope.contact.is_none() => path
                .segments
                .first()
                .is_some_and(|segment| is_key(&segment.name())),
            PathError::Absent(name) => is_key(name),
            PathError::NoContainer => false,
        });
        let other = missing.iter().find(|(_, miss)| match miss {
            PathError::NoContainer => matches!(error, ExecutionError::NoSuchOverload(_)),
            PathError::Absent(_) => matches!(error, ExecutionError::IndexOutOfBounds(_)),
        });
        match (by_key.or(other), error) {
            (Some((path, _)), _) => EvalFailure::Missing {
                path: path.to_string(),
            },
            (None, ExecutionError::NoSuchKey(key)) => EvalFailure::Missing {
                path: key.to_string(),
            },
            (None, error) => EvalFailure::Failed {
                message: message(error),
            },
        }
    }
}

/// What the evaluator says, short and without values, which may be hidden parts of results.
fn message(error: &ExecutionError) -> String {
    let said = match error {
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "a number is divided by zero".to_owned()
        }
        ExecutionError::IndexOutOfBounds(_) => "the list has no such item".to_owned(),
        ExecutionError::Overflow(..) => "a number is too large".to_owned(),
        ExecutionError::UnsupportedBinaryOperator(operator, left, right) => format!(
            "`{operator}` cannot be used with {} and {}",
            left.type_of(),
            right.type_of()
        ),
        ExecutionError::ValuesNotComparable(left, right) => format!(
            "{} cannot be compared to {}",
            left.type_of(),
            right.type_of()
        ),
        ExecutionError::UnsupportedIndex(index, value) => {
            format!("{} is no index of {}", index.type_of(), value.type_of())
        }
        ExecutionError::UnsupportedTargetType { target }
        | ExecutionError::UnsupportedKeyType(target)
        | ExecutionError::NotSupportedAsMethod { target, .. }
        | ExecutionError::DuplicateKey(target) => {
            format!("{} cannot be used here", target.type_of())
        }
        other @ (ExecutionError::InvalidArgumentCount { .. }
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::NoSuchKey(_)
        | ExecutionError::NoSuchOverload(_)
        | ExecutionError::UndeclaredReference(_)
        | ExecutionError::MissingArgumentOrTarget) => other.to_string(),
        ExecutionError::FunctionError { function, .. } => {
            format!("`{function}` does not take this value")
        }
        _ => "a value cannot be used here".to_owned(),
    };
    cut(&said, 200)
}

fn guard(text: &str) -> Result<(), Box<FieldError>> {
    let length = text.chars().count();
    if length > MAX_LENGTH {
        let said =
            format!("An expression has at most {MAX_LENGTH} characters; this one has {length}.");
        return Err(diagnostic("", said).into());
    }
    let depth = syntax::nesting(text);
    if depth > MAX_DEPTH {
        let said = format!("Brackets are nested {depth} deep; at most {MAX_DEPTH} are allowed.");
        return Err(diagnostic("", said).into());
    }
    if text.trim().is_empty() {
        return Err(diagnostic("", "The expression is empty.").into());
    }
    Ok(())
}
