//! The cost of an expression on given values: an upper bound that is computed before it is evaluated.
//!
//! The evaluator has no limits of its own, and it runs on the thread that decides for all workspaces. An
//! expression whose bound is above the budget is therefore not evaluated. The bound follows the text of
//! the expression with the actual sizes of the values it names (decision 26). It must never be too low;
//! it may be too high, for example where `&&` would end early.

use std::rc::Rc;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};
use serde_json::Value;

use super::scope::Scope;
use super::walk;

/// Most parts of an expression that are evaluated, loops counted as often as they go round.
pub(super) const STEPS_MAX: u64 = 200_000;

/// Most bytes that the parts of an expression may make or copy.
pub(super) const BYTES_MAX: u64 = 16 << 20;

/// Bytes of any value beside its content.
const VALUE_BYTES: u64 = 32;

/// Steps of `matches`, which compiles its pattern each time.
const MATCH_STEPS: u64 = 2_000;

/// Bytes of text that a function reads in one step.
const BYTES_A_STEP: u64 = 64;

/// What would be too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooCostly {
    #[error("it would take more than {STEPS_MAX} steps on these values")]
    Steps,
    #[error("it would need more than {} MiB on these values", BYTES_MAX >> 20)]
    Bytes,
}

/// The largest that a value can be.
#[derive(Debug, Clone, Default)]
struct Bound {
    bytes: u64,
    /// Items of a list or fields of an object.
    items: u64,
    /// The largest item, key or field; none: there is none.
    element: Option<Rc<Self>>,
}

impl Bound {
    fn scalar() -> Self {
        Self {
            bytes: VALUE_BYTES,
            ..Self::default()
        }
    }

    fn text(bytes: u64) -> Self {
        Self {
            bytes: bytes.saturating_add(VALUE_BYTES),
            ..Self::default()
        }
    }

    fn of(value: &Value) -> Self {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Self::scalar(),
            Value::String(text) => Self::text(text.len() as u64),
            Value::Array(items) => Self::container(items.iter().map(Self::of)),
            Value::Object(fields) => {
                let parts = fields.iter();
                Self::container(parts.map(|(key, field)| Self::of(field).with_key(key.len())))
            }
        }
    }

    /// A field counts its key, and a loop over an object binds the keys.
    fn with_key(self, bytes: usize) -> Self {
        Self {
            bytes: self.bytes.saturating_add(bytes as u64 + VALUE_BYTES),
            ..self
        }
    }

    fn container(parts: impl Iterator<Item = Self>) -> Self {
        let mut whole = Self::scalar();
        let mut largest: Option<Self> = None;
        for part in parts {
            whole.items += 1;
            whole.bytes = whole.bytes.saturating_add(part.bytes);
            largest = Some(largest.map_or_else(|| part.clone(), |found| found.max(&part)));
        }
        whole.element = largest.map(Rc::new);
        whole
    }

    fn max(&self, other: &Self) -> Self {
        Self {
            bytes: self.bytes.max(other.bytes),
            items: self.items.max(other.items),
            element: match (&self.element, &other.element) {
                (Some(one), Some(two)) => Some(Rc::new(one.max(two))),
                (one, two) => one.clone().or_else(|| two.clone()),
            },
        }
    }

    /// Both, one after the other.
    fn plus(&self, other: &Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            items: self.items.saturating_add(other.items),
            ..self.max(other)
        }
    }

    fn times(&self, count: u64) -> Self {
        Self {
            bytes: self.bytes.saturating_mul(count),
            items: self.items.saturating_mul(count),
            element: self.element.clone(),
        }
    }

    /// An item, a field or a key.
    fn inner(&self) -> Self {
        self.element
            .as_deref()
            .map_or_else(Self::scalar, Self::clone)
    }
}

/// What the expressions of one step have cost so far: the budget is for all of them together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    steps: u64,
    bytes: u64,
}

impl Spent {
    /// Adds to what was spent.
    ///
    /// # Errors
    /// [`TooCostly`]: which part of the budget is exceeded.
    pub(super) fn charge(&mut self, steps: u64, bytes: u64) -> Result<(), TooCostly> {
        self.steps = self.steps.saturating_add(steps);
        self.bytes = self.bytes.saturating_add(bytes);
        match (self.steps > STEPS_MAX, self.bytes > BYTES_MAX) {
            (true, _) => Err(TooCostly::Steps),
            (false, true) => Err(TooCostly::Bytes),
            (false, false) => Ok(()),
        }
    }
}

/// Adds up what an expression costs.
struct Cost<'a> {
    scope: &'a Scope<'a>,
    /// Variables of the loops around, innermost last.
    bound: Vec<(String, Bound)>,
    /// How often the part at hand is evaluated.
    times: u64,
    spent: Spent,
}

/// Refuses an expression that may cost more than is left of the budget on these values.
///
/// # Errors
/// [`TooCostly`]: which part of the budget it would exceed.
pub(super) fn check(
    expression: &IdedExpr,
    scope: &Scope<'_>,
    spent: &mut Spent,
) -> Result<(), TooCostly> {
    let mut cost = Cost {
        scope,
        bound: Vec::new(),
        times: 1,
        spent: *spent,
    };
    let checked = cost.expression(expression).map(drop);
    *spent = cost.spent;
    checked
}

/// The largest that the result of an expression can be as JSON, in bytes; none: it costs too much.
#[cfg(test)]
pub(super) fn bytes_max(expression: &IdedExpr, scope: &Scope<'_>) -> Option<u64> {
    let mut cost = Cost {
        scope,
        bound: Vec::new(),
        times: 1,
        spent: Spent::default(),
    };
    cost.expression(expression).ok().map(|bound| bound.bytes)
}

impl Cost<'_> {
    fn charge(&mut self, steps: u64, bytes: u64) -> Result<(), TooCostly> {
        let times = self.times;
        self.spent
            .charge(steps.saturating_mul(times), bytes.saturating_mul(times))
    }

    fn expression(&mut self, expression: &IdedExpr) -> Result<Bound, TooCostly> {
        let result = match &expression.expr {
            Expr::Ident(_) | Expr::Select(_) if self.path(expression).is_some() => {
                self.path(expression).unwrap_or_default()
            }
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.expression(&select.operand)?.inner(),
            Expr::Call(call) => match self.path(expression) {
                Some(found) => found,
                None => self.call(call)?,
            },
            Expr::Comprehension(comprehension) => self.comprehension(comprehension)?,
            Expr::List(list) => {
                let items: Result<Vec<_>, _> = list
                    .elements
                    .iter()
                    .map(|item| self.expression(item))
                    .collect();
                Bound::container(items?.into_iter())
            }
            Expr::Map(map) => {
                let mut entries = Vec::with_capacity(map.entries.len());
                for entry in &map.entries {
                    entries.push(self.entry(&entry.expr)?);
                }
                Bound::container(entries.into_iter())
            }
            Expr::Literal(LiteralValue::String(text)) => Bound::text(text.inner().len() as u64),
            Expr::Literal(LiteralValue::Bytes(bytes)) => Bound::text(bytes.inner().len() as u64),
            // A struct was refused when the expression was compiled.
            Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => Bound::scalar(),
        };
        self.charge(1, result.bytes)?;
        Ok(result)
    }

    fn entry(&mut self, entry: &EntryExpr) -> Result<Bound, TooCostly> {
        Ok(match entry {
            EntryExpr::MapEntry(entry) => {
                let key = self.expression(&entry.key)?;
                key.plus(&self.expression(&entry.value)?)
            }
            EntryExpr::StructField(field) => self.expression(&field.value)?,
        })
    }

    /// The value that a path from a root leads to; none: the expression is not such a path.
    fn path(&self, expression: &IdedExpr) -> Option<Bound> {
        let names: Vec<String> = self.bound.iter().map(|(name, _)| name.clone()).collect();
        let path = walk::path_of(expression, &names)?;
        Some(
            path.find(self.scope)
                .map_or_else(|_| Bound::scalar(), Bound::of),
        )
    }

    fn variable(&self, name: &str) -> Bound {
        let mut bound = self.bound.iter().rev();
        bound
            .find(|(known, _)| known == name)
            .map_or_else(Bound::scalar, |(_, bound)| bound.clone())
    }

    fn call(&mut self, call: &CallExpr) -> Result<Bound, TooCostly> {
        let parts = call.target.as_deref().into_iter().chain(&call.args);
        let parts: Vec<Bound> = parts
            .map(|part| self.expression(part))
            .collect::<Result<_, _>>()?;
        let all = parts
            .iter()
            .fold(Bound::default(), |sum, one| sum.plus(one));
        // Text and lists are read from one end to the other: `==`, `in`, `contains`, `size`, `int`.
        self.charge(all.items + all.bytes / BYTES_A_STEP / 16, 0)?;
        Ok(match call.func_name.as_str() {
            operators::ADD => all,
            operators::CONDITIONAL | "dyn" => {
                let either = parts.iter().skip(usize::from(call.args.len() == 3));
                either.fold(Bound::scalar(), |found, one| found.max(one))
            }
            operators::INDEX => parts.first().map_or_else(Bound::scalar, Bound::inner),
            "string" | "bytes" => Bound::text(all.bytes),
            "matches" => {
                self.charge(MATCH_STEPS + all.bytes / BYTES_A_STEP, 0)?;
                Bound::scalar()
            }
            _ => Bound::scalar(),
        })
    }

    /// `all`, `exists`, `exists_one`, `filter` and `map` are loops that carry one value.
    fn comprehension(&mut self, loops: &ComprehensionExpr) -> Result<Bound, TooCostly> {
        let range = self.expression(&loops.iter_range)?;
        let start = self.expression(&loops.accu_init)?;
        let (outer, before) = (self.times, self.bound.len());
        self.bound.push((loops.iter_var.clone(), range.inner()));
        if let Some(second) = &loops.iter_var2 {
            self.bound.push((second.clone(), range.inner()));
        }
        self.bound.push((loops.accu_var.clone(), start.clone()));
        self.times = outer.saturating_mul(range.items);
        self.expression(&loops.loop_cond)?;
        // What one round adds to the value that is carried.
        let round = self.expression(&loops.loop_step)?;
        self.times = outer;
        let carried = start.plus(&round.times(range.items));
        self.bound.truncate(before);
        self.bound.push((loops.accu_var.clone(), carried));
        let result = self.expression(&loops.result);
        self.bound.truncate(before);
        result
    }
}
