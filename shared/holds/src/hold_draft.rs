//! Validation of a hold before it exists.

use std::collections::BTreeSet;

use holdpoint_contracts::form::{Form, answer_errors, plain, plain_value};
use holdpoint_contracts::hold::{HoldSpec, OnTimeout, Rung, RungAct, Task};
use holdpoint_contracts::link;
use holdpoint_contracts::run::HoldKind;
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::{FieldError, Problem};
use url::Url;

use crate::deadline::{RANGE_TEXT, TIMEOUT_MS, timeout_error};
use crate::limits::{
    CALLBACK_BYTES_MAX, CONTEXT_BYTES_MAX, ERRORS_MAX, NEED_MAX, OPTION_CHARS_MAX, OPTIONS,
    POLICIES_MAX, RECIPIENTS_MAX, REQUESTER_BYTES_MAX, RUNGS_MAX, TASK_BYTES_MAX, TEXT_CHARS_MAX,
    TITLE_BYTES_MAX,
};
use crate::recipient::{InvalidRecipient, Recipient};

/// A hold that a caller wants to open.
#[derive(Debug, Clone, Copy)]
pub struct HoldDraft<'a> {
    pub spec: &'a HoldSpec,
    /// Time until the hold times out, in milliseconds. `None`: the policies state it.
    pub timeout_ms: Option<u64>,
}

impl HoldDraft<'_> {
    /// Everything that is wrong with the draft, with pointers into the draft (`/question`,
    /// `/timeout_ms`). Whether recipients and policies exist is not checked here.
    #[must_use]
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = self.validate_template();
        errors.extend(self.check_default_answer());
        errors
    }

    /// Like [`validate`](Self::validate) for a default with placeholders, which is checked once they are
    /// filled in.
    #[must_use]
    pub fn validate_template(&self) -> Vec<FieldError> {
        // Doors sanitize before or after they validate, and must find the same errors.
        let spec = &sanitized(self.spec);
        let mut errors = Errors::default();
        let wrong = |ms| timeout_error(spec.kind, ms);
        if let Some(message) = self.timeout_ms.and_then(wrong) {
            errors.add("/timeout_ms", message);
        }
        errors.add_if(
            matches!(spec.kind, HoldKind::Signal | HoldKind::ChildRun),
            "/kind",
            "expected `timer`, `approval`, `input` or `handoff`; only a run waits for a signal or a child run",
        );
        if spec.step.is_none() && !spec.items.is_empty() {
            errors.add(
                "/items",
                "only an approval of a run has items; leave it out",
            );
        }
        check_texts(spec, &mut errors);
        check_people(spec, &mut errors);
        check_answers(spec, &mut errors);
        check_ladder(spec, &mut errors);
        errors.0
    }

    /// Why the default is not a valid answer to the question.
    #[must_use]
    pub fn check_default_answer(&self) -> Vec<FieldError> {
        let Some(default) = &self.spec.default else {
            return Vec::new();
        };
        let schema = self.spec.schema.as_ref();
        let form = schema.and_then(|schema| Form::parse(schema).ok());
        let errors = answer_errors(default, &self.spec.options, form.as_ref());
        let errors = errors.into_iter().map(|error| error.under("/default"));
        errors.collect()
    }
}

/// 422 with the errors of a draft.
#[must_use]
pub fn invalid_hold(mut errors: Vec<FieldError>) -> Problem {
    let more = errors.len().saturating_sub(ERRORS_MAX);
    errors.truncate(ERRORS_MAX);
    if more > 0 {
        errors.push(FieldError {
            message: format!("{more} more errors; only the first {ERRORS_MAX} are listed"),
            ..FieldError::default()
        });
    }
    let messages: Vec<_> = errors.iter().map(|error| error.message.as_str()).collect();
    Problem::invalid_body(messages.join("; ")).with_errors(errors)
}

/// The spec without control characters in the texts that people read.
#[must_use]
pub fn sanitized(spec: &HoldSpec) -> HoldSpec {
    HoldSpec {
        question: plain(&spec.question),
        options: spec.options.iter().map(|text| plain(text)).collect(),
        title: spec.title.as_deref().map(plain),
        // Callers write people as `@user.<name>` everywhere else.
        requester: spec
            .requester
            .as_deref()
            .map(|name| Recipient::bare_user_name(&plain(name)).to_owned()),
        context: plain_value(&spec.context),
        default: spec.default.as_ref().map(plain_value),
        task: spec.task.as_ref().map(|task| Task {
            title: plain(&task.title),
            description: plain(&task.description),
            tags: task.tags.iter().map(|tag| plain(tag)).collect(),
            ..task.clone()
        }),
        ..spec.clone()
    }
}

/// Why a comment, a reason or notes are refused, if they are.
///
/// # Errors
/// The text is too long.
pub fn check_text(text: &str) -> Result<(), String> {
    if text.chars().count() > TEXT_CHARS_MAX {
        return Err(format!("expected at most {TEXT_CHARS_MAX} characters"));
    }
    Ok(())
}

#[derive(Default)]
struct Errors(Vec<FieldError>);

impl Errors {
    fn add(&mut self, pointer: &str, message: impl Into<String>) {
        self.0.push(FieldError::at(pointer, message));
    }

    fn add_if(&mut self, is_wrong: bool, pointer: &str, message: impl Into<String>) {
        if is_wrong {
            self.add(pointer, message);
        }
    }
}

/// Everything that is wrong with the texts of recipients. Whether they exist is not checked here.
#[must_use]
pub fn check_recipients(to: &[String], pointer: &str) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let too_many = format!("expected at most {RECIPIENTS_MAX} recipients");
    errors.add_if(to.len() > RECIPIENTS_MAX, pointer, too_many);
    for (place, text) in to.iter().enumerate().take(RECIPIENTS_MAX) {
        if !Recipient::is_valid(text) {
            errors.0.push(FieldError {
                text: text.clone(),
                ..FieldError::at(&format!("{pointer}/{place}"), InvalidRecipient.to_string())
            });
        }
    }
    errors.0
}

fn check_texts(spec: &HoldSpec, errors: &mut Errors) {
    let is_asked = spec.kind != HoldKind::Timer;
    let is_long = spec.question.chars().count() > TEXT_CHARS_MAX;
    errors.add_if(
        is_long || (is_asked && spec.question.trim().is_empty()),
        "/question",
        format!("expected 1 to {TEXT_CHARS_MAX} characters"),
    );
    errors.add_if(
        spec.title.as_ref().map_or(0, String::len) > TITLE_BYTES_MAX,
        "/title",
        format!("expected at most {TITLE_BYTES_MAX} bytes"),
    );
    let task = spec.task.as_ref();
    errors.add_if(
        task.is_some_and(|task| json_bytes(task) > TASK_BYTES_MAX),
        "/task",
        format!("expected at most {TASK_BYTES_MAX} bytes of JSON"),
    );
    errors.add_if(
        json_bytes(&spec.context) > CONTEXT_BYTES_MAX,
        "/context",
        format!("expected at most {CONTEXT_BYTES_MAX} bytes of JSON"),
    );
    let callback = spec.callback.as_deref();
    errors.add_if(
        callback.is_some_and(|text| !is_callback(text)),
        "/callback",
        format!("expected an http or https address of at most {CALLBACK_BYTES_MAX} bytes"),
    );
}

/// Whether a text is a web address. The caller of the address decides which addresses are allowed.
fn is_callback(text: &str) -> bool {
    let is_web = |url: Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    text.len() <= CALLBACK_BYTES_MAX
        && !text.chars().any(char::is_control)
        && Url::parse(text).is_ok_and(is_web)
}

fn check_people(spec: &HoldSpec, errors: &mut Errors) {
    errors.0.extend(check_recipients(&spec.to, "/to"));
    let is_vote = spec.policy.need > 1;
    errors.add_if(
        !(1..=NEED_MAX).contains(&spec.policy.need) || (is_vote && spec.kind != HoldKind::Approval),
        "/policy/need",
        format!("expected 1 to {NEED_MAX}; only an approval needs more than 1"),
    );
    errors.add_if(
        spec.requester.as_ref().map_or(0, String::len) > REQUESTER_BYTES_MAX,
        "/requester",
        format!("expected at most {REQUESTER_BYTES_MAX} bytes"),
    );
    errors.add_if(
        spec.policies.len() > POLICIES_MAX,
        "/policies",
        format!(
            "expected at most {POLICIES_MAX} policies, one for approval and one for escalation"
        ),
    );
}

fn check_answers(spec: &HoldSpec, errors: &mut Errors) {
    check_options(spec, errors);
    let is_input = spec.kind == HoldKind::Input;
    let form = spec.schema.as_ref().map(Form::parse);
    if form.is_some() {
        errors.add_if(!is_input, "/schema", "only an input has a schema");
        let has_both = !spec.options.is_empty();
        errors.add_if(
            has_both,
            "/schema",
            "expected options or a schema, not both",
        );
    }
    if let Some(Err(wrong)) = form {
        let wrong = wrong.into_iter().map(|error| error.under("/schema"));
        errors.0.extend(wrong);
    }
    let has_link = spec.link.is_some();
    errors.add_if(has_link && !is_input, "/link", "only an input has a link");
    let (link, default) = (spec.link.as_ref(), spec.default.as_ref());
    let of_link = link::link_errors(link, &spec.options, spec.schema.as_ref(), default);
    errors.0.extend(of_link);
    let answers_by_rung = |rung: &Rung| rung.act == RungAct::AnswerDefault;
    let is_used = spec.on_timeout == OnTimeout::Default || spec.ladder.iter().any(answers_by_rung);
    // A policy that is named may contain the rung that uses the default.
    let may_be_used = is_used || !spec.policies.is_empty();
    errors.add_if(
        (default.is_none() && is_used) || (default.is_some() && !may_be_used),
        "/default",
        "`default` is required with `on_timeout: default` or a rung `answer_default`, and refused \
         otherwise",
    );
}

fn check_options(spec: &HoldSpec, errors: &mut Errors) {
    let options = &spec.options;
    if options.is_empty() {
        return;
    }
    if spec.kind != HoldKind::Input {
        errors.add("/options", "only an input has options");
    }
    let is_bad = |text: &String| text.trim().is_empty() || text.chars().count() > OPTION_CHARS_MAX;
    let different: BTreeSet<_> = options.iter().collect();
    let is_wrong = !OPTIONS.contains(&options.len())
        || different.len() < options.len()
        || options.iter().any(is_bad);
    let (least, most) = (OPTIONS.start(), OPTIONS.end());
    errors.add_if(
        is_wrong,
        "/options",
        format!(
            "expected no options, or {least} to {most} different ones of 1 to {OPTION_CHARS_MAX} \
             characters"
        ),
    );
}

fn check_ladder(spec: &HoldSpec, errors: &mut Errors) {
    errors.add_if(
        spec.ladder.len() > RUNGS_MAX || (spec.kind == HoldKind::Timer && !spec.ladder.is_empty()),
        "/ladder",
        format!("expected at most {RUNGS_MAX} rungs, and none for a timer"),
    );
    for (place, rung) in spec.ladder.iter().enumerate().take(RUNGS_MAX) {
        let pointer = format!("/ladder/{place}");
        let is_timely = TIMEOUT_MS.contains(&rung.after_ms);
        errors.add_if(!is_timely, &format!("{pointer}/after_ms"), RANGE_TEXT);
        errors.add_if(
            rung.act == RungAct::AnswerDefault && spec.kind != HoldKind::Input,
            &format!("{pointer}/do"),
            "only an input has a default answer",
        );
        let of_recipients = check_recipients(&rung.to, &format!("{pointer}/to"));
        errors.0.extend(of_recipients);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::drafts;

    /// The rule itself. The tests of gateway, handoff and executor with the same name put the same drafts
    /// through REST, the bus, an agent definition and a tool question.
    #[test]
    fn every_door_refuses_the_same_drafts_with_the_same_words() {
        for draft in drafts() {
            let mut fields = draft.fields;
            fields.insert("kind".to_owned(), json!("input"));
            let timeout_ms = fields.remove("timeout_ms").and_then(|ms| ms.as_u64());
            let spec: HoldSpec = serde_json::from_value(Value::Object(fields)).unwrap();
            let spec = &spec;
            let errors = HoldDraft { spec, timeout_ms }.validate();
            let messages: Vec<_> = errors.iter().map(|error| &*error.message).collect();
            assert_eq!(messages, draft.messages, "{:.300}", json!(spec).to_string());
        }
    }

    #[test]
    fn only_a_handoff_has_no_automatic_end() {
        for (kind, wrong) in [(HoldKind::Handoff, 0), (HoldKind::Approval, 1)] {
            let spec = &HoldSpec::asking(kind, "Now?");
            let timeout_ms = Some(0);
            assert_eq!(HoldDraft { spec, timeout_ms }.validate().len(), wrong);
        }
    }
}
