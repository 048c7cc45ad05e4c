//! What a parsed expression names, and what of CEL an expression may use.
//!
//! Owns the list of functions, and the limits that only show once a text is parsed: the length of
//! chains and how deep loops are nested. It must never look at values.

use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};

use super::program::complaint;
use super::template::{Path, Segment};
use super::{Complaint, syntax};
use crate::domain::definition::nearest;

/// Longest chain of operators and selections.
const MAX_CHAIN: usize = 200;
/// Longest list that `exists`, `all`, `map`, `filter` may go through, by how deep they are nested.
pub(super) const MAX_LOOP: [usize; 3] = [usize::MAX, 10_000, 1_000];

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

/// A path that an expression names.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) path: Path,
    /// Only asked for by `has()`: it may be missing.
    pub(super) tested: bool,
}

/// Collects what a program names. Variables bound by `exists(x, …)` and the like are left out
/// where they are bound, and only there.
#[derive(Default)]
pub(super) struct Walk {
    bound: Vec<String>,
    pub(super) named: Vec<Named>,
    pub(super) refused: Vec<Complaint>,
    loops: usize,
    pub(super) deepest_loop: usize,
}

impl Walk {
    pub(super) fn expression(&mut self, expression: &IdedExpr, depth: usize) {
        if depth > MAX_CHAIN {
            let said = format!("At most {MAX_CHAIN} operators may follow each other.");
            return self.refused.push(complaint("", said));
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
                let target = call.target.as_deref();
                target
                    .into_iter()
                    .chain(&call.args)
                    .for_each(|part| self.expression(part, depth + 1));
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, depth),
            Expr::Select(select) => self.expression(&select.operand, depth + 1),
            Expr::List(list) => {
                list.elements
                    .iter()
                    .for_each(|item| self.expression(item, depth + 1));
            }
            Expr::Map(map) => map
                .entries
                .iter()
                .for_each(|entry| self.entry(&entry.expr, depth)),
            Expr::Struct(literal) => {
                let said = format!(
                    "`{}{{…}}` is no value that this release knows.",
                    literal.type_name
                );
                self.refused.push(complaint("", said));
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
        self.deepest_loop = self.deepest_loop.max(self.loops);
        if self.loops >= MAX_LOOP.len() {
            let said = format!(
                "Loops such as `exists` may be nested {} deep.",
                MAX_LOOP.len() - 1
            );
            self.refused.push(complaint("", said));
        }
        for part in [&loops.loop_cond, &loops.loop_step, &loops.result] {
            self.expression(part, depth + 1);
        }
        self.loops -= 1;
        self.bound.truncate(before);
    }

    fn function(&mut self, name: &str) {
        let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_word || FUNCTIONS.contains(&name) {
            return;
        }
        let name = syntax::name_of(name);
        self.refused.push(Complaint {
            nearest: nearest(&name, FUNCTIONS.into_iter().chain(MACROS)),
            ..complaint("", format!("There is no function `{name}`."))
        });
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
