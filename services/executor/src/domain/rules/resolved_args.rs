//! The recipients, text and default answer of a person step after its placeholders are filled in.
//! Invalid ones fail the step.

use holdpoint_contracts::hold::OnTimeout;
use serde_json::Value;

use crate::domain::definition::people::{TO_MAX, default_error, is_whom};
use crate::domain::model::plan::person_steps::Ask;
use crate::domain::rules::end_person_step::answer_text;
use crate::domain::rules::fail_step::fail_step;
use crate::domain::transition::RunTransition;

/// Longest question and message once their placeholders are filled in, in characters.
const TEXT_CHARS_MAX: usize = 10_000;

pub(crate) fn resolve_recipients(
    transition: &mut RunTransition<'_>,
    index: usize,
    to: Option<&Value>,
) -> Option<Vec<String>> {
    let mut flat = Vec::new();
    for one in to.and_then(Value::as_array).into_iter().flatten() {
        match one {
            Value::Array(many) => flat.extend(many.iter()),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => {
                flat.push(one);
            }
        }
    }
    let nobody = flat
        .iter()
        .find(|one| !one.as_str().is_some_and(is_whom))
        .map(|wrong| answer_text(wrong))
        .map(|wrong| {
            format!("`{wrong}` is not a recipient; expected `@user.<name>` or `@role.<name>`")
        });
    let many = flat.len();
    let too_many = (many > TO_MAX)
        .then(|| format!("the request has {many} recipients; at most {TO_MAX} are allowed"));
    if let Some(message) = nobody.or(too_many) {
        fail_step(transition, index, "invalid_assignee", &message, None);
        return None;
    }
    let texts = flat.iter().filter_map(|one| one.as_str());
    Some(texts.map(str::to_owned).collect())
}

/// A text with its placeholders filled in: one that is a placeholder alone may be anything.
pub(crate) fn resolve_text(
    transition: &mut RunTransition<'_>,
    index: usize,
    value: Option<&Value>,
) -> Option<String> {
    let said = match value {
        Some(Value::String(text)) => text.clone(),
        Some(other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_))) => {
            other.to_string()
        }
        Some(Value::Null) | None => String::new(),
    };
    let wrong = if said.trim().is_empty() {
        Some("the text is empty".to_owned())
    } else if said.chars().count() > TEXT_CHARS_MAX {
        Some(format!(
            "the text has more than {TEXT_CHARS_MAX} characters"
        ))
    } else {
        None
    };
    if let Some(wrong) = wrong {
        fail_step(transition, index, "invalid_question", &wrong, None);
        return None;
    }
    Some(said)
}

/// The resolved default answer. An error means that the step has failed.
pub(crate) fn resolve_default(
    transition: &mut RunTransition<'_>,
    index: usize,
    ask: &Ask,
    resolved: &Value,
) -> Result<Option<Value>, ()> {
    let default = resolved.get("default").filter(|it| !it.is_null());
    let wrong = match default {
        Some(default) => default_error(default, &ask.options, ask.schema.as_ref()),
        None if ask.on_timeout == OnTimeout::Default => {
            Some("`default` has no answer, because its placeholder is null.".to_owned())
        }
        None => None,
    };
    match wrong {
        Some(wrong) => {
            fail_step(transition, index, "invalid_default", &wrong, None);
            Err(())
        }
        None => Ok(default.cloned()),
    }
}
