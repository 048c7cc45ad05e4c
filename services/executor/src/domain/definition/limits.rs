//! The field `limits` of an agent: budgets of a run, concurrency, rates, and starting once.
//!
//! A key is checked here as far as its text allows. Its value is computed when a run starts.

use std::collections::BTreeMap;
use std::time::Duration;

use holdpoint_contracts::duration::{self, MAX_WAIT};
use holdpoint_contracts::problem::FieldError;
use serde_json::{Map, Value};

use super::diagnostics::{AgentChecker, Place, shown};
use super::fields;
use super::people::{TO_MAX, is_whom};
use crate::domain::expression::{self, Names, Reference, diagnostic};
use crate::domain::model::plan::limits::{
    Budget, Concurrency, Limits, Once, PLACES_MAX, RATE_STARTS_MAX, Rate,
};

const LIMITS: &str = "limits";

/// Largest cost of a budget.
const COST_MAX: f64 = 1e12;

/// Smallest budget of costs. Sums of costs are rounded, and the error must be smaller.
const COST_MIN: f64 = 1e-6;

/// Longest time of a rate: the shortest retention. A start counts until its run is deleted.
const RATE_PER_MAX: Duration = Duration::from_hours(7 * 24);

impl AgentChecker<'_> {
    pub(super) fn limits(&mut self, value: Option<&Value>) -> Limits {
        let known = ["budget", "concurrency", "rate", "once"];
        let Some(limits) = self.limits_object(LIMITS, value, &known) else {
            return Limits::default();
        };
        let present = |name: &str| limits.get(name).filter(|it| !it.is_null());
        Limits {
            budget: present("budget").and_then(|it| self.budget(it)),
            concurrency: present("concurrency").and_then(|it| self.concurrency(it)),
            rate: present("rate").and_then(|it| self.rate(it)),
            once: present("once").and_then(|it| self.once(it)),
        }
    }

    fn limits_object<'v>(
        &mut self,
        name: &str,
        value: Option<&'v Value>,
        known: &[&'static str],
    ) -> Option<&'v Map<String, Value>> {
        let value = value.filter(|value| !value.is_null())?;
        let Value::Object(found) = value else {
            let first = known.first().copied().unwrap_or_default();
            let message = format!("`{name}` is an object, such as `{name}: {{ {first}: … }}`.");
            return self.refuse_limit(value, message);
        };
        for field in found.keys() {
            if let Some(error) = fields::inner_field(field, name, known) {
                self.report(Place::Agent(Some(LIMITS)), error);
            }
        }
        Some(found)
    }

    fn budget(&mut self, value: &Value) -> Option<Budget> {
        let known = ["steps", "wall_time", "active_time", "cost", "to"];
        let budget = self.limits_object("budget", Some(value), &known)?;
        let present = |name: &str| budget.get(name).filter(|it| !it.is_null());
        let read = Budget {
            steps: present("steps").and_then(|it| self.count("steps", it, u32::MAX)),
            wall_time_ms: present("wall_time").and_then(|it| self.time("wall_time", it, MAX_WAIT)),
            active_time_ms: present("active_time")
                .and_then(|it| self.time("active_time", it, MAX_WAIT)),
            cost: present("cost").and_then(|it| self.cost(it)),
            to: present("to").map_or_else(Vec::new, |it| self.budget_recipients(it)),
        };
        if ["steps", "wall_time", "active_time", "cost"]
            .iter()
            .all(|name| present(name).is_none())
        {
            let message =
                "`budget` has at least one of `steps`, `wall_time`, `active_time` and `cost`.";
            return self.refuse_limit(value, message);
        }
        Some(read)
    }

    fn count(&mut self, name: &str, value: &Value, max: u32) -> Option<u32> {
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        let number = number.filter(|number| (1..=max).contains(number));
        number.or_else(|| {
            let message = format!("`{name}` is a whole number from 1 to {max}.");
            self.refuse_limit(value, message)
        })
    }

    fn time(&mut self, name: &str, value: &Value, max: Duration) -> Option<u64> {
        let length = value.as_str().and_then(|text| duration::parse(text).ok());
        let length = length.filter(|length| !length.is_zero() && *length <= max);
        let ms = length.and_then(|length| u64::try_from(length.as_millis()).ok());
        ms.or_else(|| {
            let max = duration::describe(max);
            let message =
                format!("`{name}` is a duration of at most {max}, such as `2 days` or `30m`.");
            self.refuse_limit(value, message)
        })
    }

    fn cost(&mut self, value: &Value) -> Option<f64> {
        let cost = value
            .as_f64()
            .filter(|cost| (COST_MIN..=COST_MAX).contains(cost));
        cost.or_else(|| {
            let message = "`cost` is a number from 0.000001 to 1,000,000,000,000.";
            self.refuse_limit(value, message)
        })
    }

    fn budget_recipients(&mut self, value: &Value) -> Vec<String> {
        let many = match value {
            Value::Array(many) => many.as_slice(),
            one => std::slice::from_ref(one),
        };
        let texts: Vec<String> = many
            .iter()
            .filter_map(|one| one.as_str().filter(|text| is_whom(text)))
            .map(str::to_owned)
            .collect();
        if texts.len() < many.len() || texts.len() > TO_MAX {
            let message = format!(
                "`to` is `@user.<name>` or `@role.<name>`, or a list of at most {TO_MAX} of these."
            );
            self.refuse_limit::<()>(value, message);
        }
        texts
    }

    fn concurrency(&mut self, value: &Value) -> Option<Concurrency> {
        let known = ["runs", "key"];
        let concurrency = self.limits_object("concurrency", Some(value), &known)?;
        let key = concurrency.get("key").filter(|it| !it.is_null());
        if let Some(key) = key {
            self.key(key);
        }
        let runs = concurrency.get("runs").unwrap_or(&Value::Null);
        Some(Concurrency {
            runs: self.count("runs", runs, PLACES_MAX)?,
            key: key.cloned(),
        })
    }

    fn rate(&mut self, value: &Value) -> Option<Rate> {
        let known = ["starts", "per", "key"];
        let rate = self.limits_object("rate", Some(value), &known)?;
        let key = rate.get("key").filter(|it| !it.is_null());
        if let Some(key) = key {
            self.key(key);
        }
        let field = |name: &str| rate.get(name).unwrap_or(&Value::Null);
        let starts = self.count("starts", field("starts"), RATE_STARTS_MAX);
        Some(Rate {
            per_ms: self.time("per", field("per"), RATE_PER_MAX)?,
            starts: starts?,
            key: key.cloned(),
        })
    }

    fn once(&mut self, value: &Value) -> Option<Once> {
        if value.as_str() == Some("contact") {
            return Some(Once::Contact);
        }
        let key = value.as_object().and_then(|once| once.get("key"));
        let (Some(key), Some(1)) = (key, value.as_object().map(Map::len)) else {
            let message =
                "`once` is `contact`, or `{ key: … }` with a placeholder such as `$input.order`.";
            return self.refuse_limit(value, message);
        };
        self.key(key);
        Some(Once::Key(key.clone()))
    }

    /// A key is a text with placeholders for the input and the contact.
    fn key(&mut self, key: &Value) {
        let steps = BTreeMap::new();
        let names = Names {
            steps: &steps,
            before: None,
            has_item: false,
        };
        let checked = expression::check_args(key, names);
        let has_errors = !checked.diagnostics.is_empty();
        for error in checked.diagnostics {
            self.report(Place::Agent(Some(LIMITS)), error);
        }
        let uses_known = |one: &Reference| matches!(one, Reference::Input | Reference::Contact);
        let references = &checked.references;
        let is_usable =
            key.is_string() && !references.is_empty() && references.iter().all(uses_known);
        if !has_errors && !is_usable {
            let message = "`key` is a text with placeholders for the input or the contact, such as `$input.customer`.";
            self.refuse_limit::<()>(key, message);
        }
    }

    fn refuse_limit<T>(&mut self, value: &Value, message: impl Into<String>) -> Option<T> {
        let error: FieldError = diagnostic(&shown(value), message);
        self.report(Place::Agent(Some(LIMITS)), error);
        None
    }
}
