//! What may be asked: everything that is wrong with a hold that stands alone, and texts without
//! control characters.

use holdpoint_contracts::form::{Form, answer_faults, plain, plain_value};
use holdpoint_contracts::hold::{HoldSpec, OnTimeout, RungAct, Task};
use holdpoint_contracts::link;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::HoldId;
use serde_json::json;
use url::Url;

use super::limits::{
    CALLBACK_BYTES_MAX, CONTEXT_BYTES_MAX, NEED_MAX, OPTION_BYTES_MAX, OPTIONS_MAX,
    QUESTION_BYTES_MAX, RUNGS_MAX, TASK_BYTES_MAX, TIMEOUT_MS, TITLE_BYTES_MAX, TO_MAX, bytes,
};

/// The same with texts as people may see them.
pub(crate) fn cleaned(spec: &HoldSpec) -> HoldSpec {
    HoldSpec {
        question: plain(&spec.question),
        options: spec.options.iter().map(|text| plain(text)).collect(),
        title: spec.title.as_deref().map(plain),
        // People are written `@user.<name>` everywhere else.
        requester: spec.requester.as_deref().map(|name| {
            let name = plain(name);
            name.strip_prefix("@user.")
                .map(str::to_owned)
                .unwrap_or(name)
        }),
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

/// Collects what is wrong.
#[derive(Default)]
struct Faults(Vec<FieldError>);

impl Faults {
    fn if_so(&mut self, is_wrong: bool, pointer: &str, message: impl Into<String>) {
        if is_wrong {
            self.0.push(FieldError::at(pointer, message));
        }
    }
}

/// Everything that is wrong with what is asked.
pub(crate) fn faults(id: HoldId, spec: &HoldSpec, timeout_ms: u64) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let is_endless = timeout_ms == 0 && spec.kind == HoldKind::Handoff;
    faults.if_so(
        !id.is_standalone(),
        "/id",
        "a hold that stands alone has the number 0",
    );
    faults.if_so(
        !(is_endless || TIMEOUT_MS.contains(&timeout_ms)),
        "/timeout_ms",
        "expected 1 second to 90 days; a handoff also takes 0: no automatic end",
    );
    faults.if_so(
        spec.step.is_some() || spec.reason.is_some(),
        "/spec",
        "a hold that stands alone has neither `step` nor `reason`",
    );
    texts(spec, &mut faults);
    people(spec, &mut faults);
    answers(spec, &mut faults);
    rungs(spec, &mut faults);
    faults.0
}

fn texts(spec: &HoldSpec, faults: &mut Faults) {
    let asks = spec.kind != HoldKind::Timer;
    let question = spec.question.len();
    faults.if_so(
        question > QUESTION_BYTES_MAX || (asks && spec.question.trim().is_empty()),
        "/spec/question",
        format!("a question of 1 to {QUESTION_BYTES_MAX} bytes"),
    );
    let title = spec.title.as_ref().map_or(0, String::len);
    faults.if_so(
        title > TITLE_BYTES_MAX,
        "/spec/title",
        format!("at most {TITLE_BYTES_MAX} bytes"),
    );
    let task = spec.task.as_ref();
    faults.if_so(
        task.is_some_and(|task| bytes(&json!(task)) > TASK_BYTES_MAX),
        "/spec/task",
        format!("at most {TASK_BYTES_MAX} bytes as JSON"),
    );
    faults.if_so(
        bytes(&spec.context) > CONTEXT_BYTES_MAX,
        "/spec/context",
        format!("at most {CONTEXT_BYTES_MAX} bytes as JSON"),
    );
    faults.if_so(
        spec.callback
            .as_deref()
            .is_some_and(|text| !is_address(text)),
        "/spec/callback",
        format!("an http or https address of at most {CALLBACK_BYTES_MAX} bytes"),
    );
}

/// Whether something may be there to be called. Which addresses are, knows whoever calls.
fn is_address(text: &str) -> bool {
    let is_web = |url: Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    text.len() <= CALLBACK_BYTES_MAX
        && !text.chars().any(char::is_control)
        && Url::parse(text).is_ok_and(is_web)
}

fn people(spec: &HoldSpec, faults: &mut Faults) {
    faults.if_so(
        spec.to.len() > TO_MAX,
        "/spec/to",
        format!("at most {TO_MAX} people and roles"),
    );
    let is_vote = spec.policy.need > 1;
    faults.if_so(
        !(1..=NEED_MAX).contains(&spec.policy.need) || (is_vote && spec.kind != HoldKind::Approval),
        "/spec/policy/need",
        format!("1 to {NEED_MAX}, and more than 1 for approvals only"),
    );
}

fn answers(spec: &HoldSpec, faults: &mut Faults) {
    let is_bad = |text: &String| text.is_empty() || text.len() > OPTION_BYTES_MAX;
    faults.if_so(
        spec.options.len() > OPTIONS_MAX || spec.options.iter().any(is_bad),
        "/spec/options",
        format!("at most {OPTIONS_MAX} options of 1 to {OPTION_BYTES_MAX} bytes"),
    );
    faults.if_so(
        spec.kind != HoldKind::Input && !spec.options.is_empty(),
        "/spec/options",
        format!("a hold of kind `{}` has no options", spec.kind),
    );
    let form = spec.schema.as_ref().map(Form::parse);
    faults.if_so(
        form.is_some() && (spec.kind != HoldKind::Input || !spec.options.is_empty()),
        "/spec/schema",
        "a schema goes with kind `input`, and with no options",
    );
    if let Some(Err(errors)) = &form {
        let errors = errors.iter().cloned();
        faults
            .0
            .extend(errors.map(|error| error.under("/spec/schema")));
    }
    faults.if_so(
        spec.link.is_some() && spec.kind != HoldKind::Input,
        "/spec/link",
        "a link goes with kind `input`",
    );
    let default = spec.default.as_ref();
    let of_link = link::faults(
        spec.link.as_ref(),
        &spec.options,
        spec.schema.as_ref(),
        default,
    );
    faults
        .0
        .extend(of_link.into_iter().map(|error| error.under("/spec")));
    let form = form.and_then(Result::ok);
    faults.0.extend(default_faults(spec, form.as_ref()));
}

fn default_faults(spec: &HoldSpec, form: Option<&Form>) -> Vec<FieldError> {
    let is_wanted = spec.on_timeout == OnTimeout::Default
        || spec
            .ladder
            .iter()
            .any(|rung| rung.act == RungAct::AnswerDefault);
    match &spec.default {
        Some(answer) => {
            let wrong = answer_faults(answer, &spec.options, form).into_iter();
            wrong.map(|error| error.under("/spec/default")).collect()
        }
        None if is_wanted => {
            let message = "a default answer is asked for, and there is none";
            vec![FieldError::at("/spec/default", message)]
        }
        None => Vec::new(),
    }
}

fn rungs(spec: &HoldSpec, faults: &mut Faults) {
    faults.if_so(
        spec.ladder.len() > RUNGS_MAX || (spec.kind == HoldKind::Timer && !spec.ladder.is_empty()),
        "/spec/ladder",
        format!("at most {RUNGS_MAX} rungs, and none for a timer"),
    );
    for (place, rung) in spec.ladder.iter().enumerate().take(RUNGS_MAX) {
        let pointer = format!("/spec/ladder/{place}");
        faults.if_so(
            !TIMEOUT_MS.contains(&rung.after_ms),
            &format!("{pointer}/after_ms"),
            "1 second to 90 days",
        );
        faults.if_so(
            rung.act == RungAct::AnswerDefault && spec.kind != HoldKind::Input,
            &format!("{pointer}/do"),
            "only an input has a default answer",
        );
        faults.if_so(
            rung.to.len() > TO_MAX,
            &format!("{pointer}/to"),
            format!("at most {TO_MAX} people and roles"),
        );
    }
}
