//! Everything that is wrong with a question of a tool: said all at once, field by field.

use holdpoint_contracts::asking::{TIMEOUT_MAX_MS, TIMEOUT_MIN_MS, ToolQuestion};
use holdpoint_contracts::form::{Form, answer_faults};
use holdpoint_contracts::hold::OnTimeout;
use holdpoint_contracts::link;
use holdpoint_contracts::problem::FieldError;

use crate::domain::definition::people::{OPTION_CHARS_MAX, OPTIONS_MAX, TEXT_MAX, TO_MAX, is_whom};

/// Longest key, in characters.
const KEY_CHARS_MAX: usize = 200;

/// See the module.
pub(super) fn faults(asked: &ToolQuestion) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let mut wrong_if = |is_wrong: bool, pointer: &str, message: &str| {
        if is_wrong {
            faults.push(FieldError::at(pointer, message));
        }
    };
    wrong_if(
        asked.question.trim().is_empty() || asked.question.chars().count() > TEXT_MAX,
        "/question",
        &format!("say what is asked, in 1 to {TEXT_MAX} characters"),
    );
    // S3-R7: nothing waits for ever.
    wrong_if(
        asked.timeout_ms == 0,
        "/timeout_ms",
        "0 would wait for ever: a question has from 1000 (1 second) to 7776000000 (90 days)",
    );
    wrong_if(
        asked.timeout_ms != 0 && !(TIMEOUT_MIN_MS..=TIMEOUT_MAX_MS).contains(&asked.timeout_ms),
        "/timeout_ms",
        "from 1000 (1 second) to 7776000000 (90 days)",
    );
    wrong_if(
        asked.on_timeout == OnTimeout::Continue,
        "/on_timeout",
        "one of fail, skip, escalate, default",
    );
    wrong_if(
        asked.to.len() > TO_MAX || asked.to.iter().any(|one| !is_whom(one)),
        "/to",
        &format!("at most {TO_MAX} of `@user.<name>` and `@role.<name>`"),
    );
    let key = asked.key.as_deref().map(|key| key.chars().count());
    let is_plain = asked
        .key
        .as_deref()
        .is_none_or(|key| !key.chars().any(char::is_control));
    wrong_if(
        key.is_some_and(|length| !(1..=KEY_CHARS_MAX).contains(&length)) || !is_plain,
        "/key",
        &format!("1 to {KEY_CHARS_MAX} characters, none of them a control character"),
    );
    options(asked, &mut faults);
    answers(asked, &mut faults);
    faults
}

fn options(asked: &ToolQuestion, faults: &mut Vec<FieldError>) {
    let options = &asked.options;
    let is_bad = |text: &String| text.trim().is_empty() || text.chars().count() > OPTION_CHARS_MAX;
    let mut seen = std::collections::BTreeSet::new();
    let is_wrong = options.len() == 1
        || options.len() > OPTIONS_MAX
        || options.iter().any(is_bad)
        || !options.iter().all(|option| seen.insert(option));
    if is_wrong {
        let message = format!(
            "2 to {OPTIONS_MAX} different options of 1 to {OPTION_CHARS_MAX} characters, or none"
        );
        faults.push(FieldError::at("/options", message));
    }
    if asked.schema.is_some() && !options.is_empty() {
        let message = "a question has options or a schema, not both";
        faults.push(FieldError::at("/schema", message));
    }
}

/// The form, and the default that must fit it.
fn answers(asked: &ToolQuestion, faults: &mut Vec<FieldError>) {
    let form = asked.schema.as_ref().map(Form::parse);
    if let Some(Err(errors)) = &form {
        faults.extend(errors.iter().map(|error| error.clone().under("/schema")));
    }
    let (link, default) = (asked.link.as_ref(), asked.default.as_ref());
    let of_link = link::faults(link, &asked.options, asked.schema.as_ref(), default);
    faults.extend(of_link);
    if (asked.on_timeout == OnTimeout::Default) != asked.default.is_some() {
        let message = "`on_timeout: default` and `default` go together";
        faults.push(FieldError::at("/default", message));
    }
    if let Some(default) = &asked.default {
        let form = form.and_then(Result::ok);
        let wrong = answer_faults(default, &asked.options, form.as_ref()).into_iter();
        faults.extend(wrong.map(|error| error.under("/default")));
    }
}
