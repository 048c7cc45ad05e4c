//! What a parsed expression names, and what of CEL an expression may use.
//!
//! Owns the list of functions, and the limits that only show once a text is parsed: the length of
//! chains and how deep loops are nested. It must never look at values.

use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use holdpoint_contracts::problem::FieldError;
use holdpoint_ids::nearest;

use super::diagnostic::diagnostic;
use super::syntax;
use super::template::{Path, Segment};

/// Longest chain of operators and selections.
const MAX_CHAIN: usize = 200;
/// Deepest nesting of `exists`, `all`, `map`, `filter`. How long their lists may be is a matter of cost.
const MAX_NESTED_LOOPS: usize = 2;
/// Most calls of `matches` in one expression: each compiles its pattern.
const MAX_PATTERNS: usize = 10;
/// Longest pattern of `matches`, in characters.
const MAX_PATTERN_LENGTH: usize = 200;
/// Most bytes that a pattern may have when it is compiled: repetitions count.
const MAX_PATTERN_SIZE: usize = 64 * 1024;

/// All functions an expression may call, beside operators.
const FUNCTIONS: [&str; 25] = [
    "bool",
    "bytes",
    "contains",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "int",
    "matches",
    "size",
    "startsWith",
    "string",
    "timestamp",
    "type",
    "uint",
];
/// Macros are no functions once they are expanded; here for the nearest names.
const MACROS: [&str; 6] = ["all", "exists", "exists_one", "filter", "has", "map"];
/// Names of types, as in `type(x) == string`.
const TYPES: [&str; 10] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
];

#[derive(Debug)]
pub(super) struct Named {
    pub(super) path: Path,
    /// Only asked for by `has()`: it may be missing.
    pub(super) tested: bool,
}

/// Collects what a program names. Variables bound by `exists(x, …)` and the like are left out
/// where they are bound, and only there.
#[derive(Default)]
pub(super) struct ReferenceCollector {
    bound: Vec<String>,
    pub(super) named: Vec<Named>,
    pub(super) refused: Vec<FieldError>,
    loops: usize,
    patterns: usize,
    /// Its cost depends on the values.
    pub(super) composes: bool,
}

impl ReferenceCollector {
    pub(super) fn expression(&mut self, expression: &IdedExpr, depth: usize) {
        if depth > MAX_CHAIN {
            let said = format!("At most {MAX_CHAIN} operators may follow each other.");
            return self.refused.push(diagnostic("", said));
        }
        if let Some(path) = path_of(expression, &self.bound) {
            let tested = matches!(&expression.expr, Expr::Select(select) if select.test);
            if !is_type(&path) {
                self.named.push(Named { path, tested });
            }
            return;
        }
        match &expression.expr {
            Expr::Call(call) => {
                self.function(&call.func_name);
                if call.func_name == "matches" {
                    self.pattern(call.args.last());
                }
                self.composes |= [operators::ADD, "matches"].contains(&call.func_name.as_str());
                let target = call.target.as_deref();
                target
                    .into_iter()
                    .chain(&call.args)
                    .for_each(|part| self.expression(part, depth + 1));
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, depth),
            Expr::Select(select) => self.expression(&select.operand, depth + 1),
            Expr::List(list) => {
                self.composes = true;
                list.elements
                    .iter()
                    .for_each(|item| self.expression(item, depth + 1));
            }
            Expr::Map(map) => {
                self.composes = true;
                map.entries
                    .iter()
                    .for_each(|entry| self.entry(&entry.expr, depth));
            }
            Expr::Struct(literal) => {
                let said = format!(
                    "`{}{{…}}` is not a value that this release knows.",
                    literal.type_name
                );
                self.refused.push(diagnostic("", said));
            }
            Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
        }
    }

    fn entry(&mut self, entry: &EntryExpr, depth: usize) {
        match entry {
            EntryExpr::MapEntry(entry) => {
                self.expression(&entry.key, depth + 1);
                self.expression(&entry.value, depth + 1);
            }
            EntryExpr::StructField(field) => {
                self.expression(&field.value, depth + 1);
            }
        }
    }

    fn comprehension(&mut self, loops: &ComprehensionExpr, depth: usize) {
        self.expression(&loops.iter_range, depth + 1);
        self.expression(&loops.accu_init, depth + 1);
        let before = self.bound.len();
        self.bound.push(loops.iter_var.clone());
        self.bound.push(loops.accu_var.clone());
        self.bound.extend(loops.iter_var2.clone());
        self.loops += 1;
        self.composes = true;
        if self.loops > MAX_NESTED_LOOPS {
            let said = format!("Loops such as `exists` may be nested {MAX_NESTED_LOOPS} deep.");
            self.refused.push(diagnostic("", said));
        }
        for part in [&loops.loop_cond, &loops.loop_step, &loops.result] {
            self.expression(part, depth + 1);
        }
        self.loops -= 1;
        self.bound.truncate(before);
    }

    /// A pattern is compiled at each call, so it must be known, short and small when the plan is made.
    fn pattern(&mut self, pattern: Option<&IdedExpr>) {
        self.patterns += 1;
        let said = match pattern.map(|pattern| &pattern.expr) {
            _ if self.patterns > MAX_PATTERNS => {
                format!("An expression may call `matches` at most {MAX_PATTERNS} times.")
            }
            Some(Expr::Literal(LiteralValue::String(pattern))) => {
                match pattern_error(pattern.inner()) {
                    None => return,
                    Some(error) => error,
                }
            }
            _ => "The pattern of `matches` must be a text in quotes.".to_owned(),
        };
        self.refused.push(diagnostic("", said));
    }

    fn function(&mut self, name: &str) {
        let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_word || FUNCTIONS.contains(&name) {
            return;
        }
        let name = syntax::name_of(name);
        self.refused.push(FieldError {
            nearest: nearest(&name, FUNCTIONS.into_iter().chain(MACROS)),
            ..diagnostic("", format!("Unknown function `{name}`."))
        });
    }
}

/// What is wrong with a pattern of `matches`.
fn pattern_error(pattern: &str) -> Option<String> {
    let length = pattern.chars().count();
    if length > MAX_PATTERN_LENGTH {
        return Some(format!(
            "A pattern of `matches` has at most {MAX_PATTERN_LENGTH} characters; this one has {length}."
        ));
    }
    let compiled = regex::RegexBuilder::new(pattern)
        .size_limit(MAX_PATTERN_SIZE)
        .build();
    match compiled {
        Ok(_) => None,
        Err(regex::Error::CompiledTooBig(_)) => Some(format!(
            "The pattern of `matches` is too large: its repetitions make more than {MAX_PATTERN_SIZE} bytes."
        )),
        Err(_) => Some("The pattern of `matches` is not a valid regular expression.".to_owned()),
    }
}

pub(super) fn is_type(path: &Path) -> bool {
    path.segments.is_empty() && TYPES.contains(&path.root.as_str())
}

/// The path an expression spells, if it spells one from a name that no loop binds.
pub(super) fn path_of(expression: &IdedExpr, bound: &[String]) -> Option<Path> {
    let mut segments = Vec::new();
    let mut at = expression;
    loop {
        match &at.expr {
            Expr::Ident(name) => {
                if bound.contains(name) || name.starts_with('@') {
                    return None;
                }
                segments.reverse();
                let root = syntax::name_of(name.trim_start_matches('.'));
                return Some(Path { root, segments });
            }
            // A test inside a path is a true or false with a field: no path.
            Expr::Select(select) if !select.test || std::ptr::eq(at, expression) => {
                segments.push(Segment::Key(select.field.clone()));
                at = &select.operand;
            }
            Expr::Call(call) if call.func_name == operators::INDEX => {
                let [operand, index] = call.args.as_slice() else {
                    return None;
                };
                segments.push(literal_segment(index)?);
                at = operand;
            }
            Expr::Select(_)
            | Expr::Call(_)
            | Expr::Comprehension(_)
            | Expr::List(_)
            | Expr::Literal(_)
            | Expr::Map(_)
            | Expr::Struct(_)
            | Expr::Unspecified => return None,
        }
    }
}

fn literal_segment(index: &IdedExpr) -> Option<Segment> {
    match &index.expr {
        Expr::Literal(LiteralValue::String(key)) => Some(Segment::Key(key.inner().to_owned())),
        Expr::Literal(LiteralValue::Int(at)) => {
            usize::try_from(*at.inner()).ok().map(Segment::Index)
        }
        _ => None,
    }
}
