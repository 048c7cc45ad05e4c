//! `executor.patch_context`: an operator changes what later steps of a run see as its input.
//!
//! Steps that have begun keep their arguments. A gated call whose arguments change is asked about again, because its
//! digest changes (S2-R3).

use std::borrow::Cow;

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::value_limits;
use holdpoint_ids::NAME_CHARS_MAX;
use serde_json::{Map, Value, json};

use crate::domain::decision::Undecided;
use crate::domain::model::plan::inputs::Inputs;
use crate::domain::model::run::CONTEXT_BYTES_MAX;
use crate::domain::need::{INPUT, Need};
use crate::domain::refusal::Refusal;
use crate::domain::rules::contact_patch::merge_patch;
use crate::domain::text::cut;
use crate::domain::transition::{RunDecision, RunTransition, refuse_ended_run, unchanged_run};

/// Most names of changed fields in the history.
const NAMES_MAX: usize = 20;

pub(crate) fn patch_context<'a>(
    mut transition: RunTransition<'a>,
    by: &Actor,
    patch: &Map<String, Value>,
) -> RunDecision<'a> {
    refuse_ended_run(&transition)?;
    let given = transition.load_value(Need::Value(transition.run.id, INPUT.to_owned()))?;
    let given = given.as_deref().cloned().unwrap_or_default();
    let fields = match &given {
        Value::Object(fields) => Cow::Borrowed(fields),
        Value::Null => Cow::Owned(Map::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            let error = "the input of this run is not an object, so it has no fields to change";
            let error = FieldError::at("", error.to_owned());
            return Err(Refusal::InvalidInput(vec![error]).into());
        }
    };
    let next = Value::Object(merge_patch(&fields, patch));
    if patch.is_empty() || next == given {
        return Ok(unchanged_run(&transition));
    }
    let plan = transition.plan()?;
    check_context(plan.plan.inputs.as_ref(), &given, &next)?;
    let changed = changed_fields(&given, &next);
    transition.value(INPUT.to_owned(), next);
    let names = changed.get(..NAMES_MAX).unwrap_or(&changed);
    let message = format!("{by} changed the context: {}.", names.join(", "));
    let data = json!({ "by": by, "fields": names, "count": changed.len() });
    transition.event(EventType::RunContextChanged, None, message, data);
    transition.changed()
}

/// The context keeps the limits and the form of an input. What was missing before may still be missing: people are asked.
fn check_context(inputs: Option<&Inputs>, given: &Value, next: &Value) -> Result<(), Undecided> {
    let bytes = json_bytes(next);
    if bytes > CONTEXT_BYTES_MAX {
        return Err(Refusal::ContextTooLarge(bytes).into());
    }
    if let Err(exceeded) = value_limits::check(next) {
        let error = FieldError::at("", exceeded.to_string());
        return Err(Refusal::InvalidInput(vec![error]).into());
    }
    let Some(inputs) = inputs else {
        return Ok(());
    };
    let errors = inputs.errors(next);
    if !errors.is_empty() {
        return Err(Refusal::InvalidInput(errors).into());
    }
    let known = inputs.missing(given);
    let mut missing = inputs.missing(next);
    missing.retain(|name| !known.contains(name));
    if missing.is_empty() {
        Ok(())
    } else {
        Err(Refusal::MissingInput(missing).into())
    }
}

/// The names of the fields that differ, cut for people.
fn changed_fields(given: &Value, next: &Value) -> Vec<String> {
    let fields = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let (given, next) = (fields(given), fields(next));
    let removed = given.keys().filter(|name| !next.contains_key(*name));
    let set = next
        .iter()
        .filter(|(name, value)| given.get(*name) != Some(value));
    let names = set.map(|(name, _)| name).chain(removed);
    names.map(|name| cut(name, NAME_CHARS_MAX)).collect()
}
