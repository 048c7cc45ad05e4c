//! The steps that ask people: `ask` and `handoff` as their author writes them.
//!
//! Owns their fields and defaults; limits and their words come from `shared/holds`. It must never know
//! users: whether a recipient is active is checked when the step starts (S0-R1).

use holdpoint_contracts::duration;
use holdpoint_contracts::form::{Form, answer_errors};
use holdpoint_contracts::hold::{Assign, HoldSpec, OnTimeout, Priority};
use holdpoint_contracts::link::Link;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::deadline::{NO_END, default_timeout_ms};
use holdpoint_holds::{HoldDraft, OWNERS, Recipient};
use holdpoint_ids::{PolicyName, nearest};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::diagnostics::shown;
use super::fields;
use super::step::StepReader;
use crate::domain::expression::{self, diagnostic};
use crate::domain::model::plan::Action;
use crate::domain::model::plan::person_steps::{Ask, Handoff};

/// Most recipients of a step.
pub(in crate::domain) use holdpoint_holds::limits::RECIPIENTS_MAX as TO_MAX;

const ASK: [&str; 11] = [
    "to",
    "question",
    "options",
    "schema",
    "link",
    "timeout",
    "on_timeout",
    "default",
    "priority",
    "assign",
    "policy",
];
const HANDOFF: [&str; 8] = [
    "to",
    "message",
    "priority",
    "assign",
    "timeout",
    "on_timeout",
    "warm_lead",
    "policy",
];

/// Whether a text is `@user.<name>` or `@role.<name>`.
pub(in crate::domain) fn is_whom(text: &str) -> bool {
    Recipient::is_valid(text)
}

/// Why a schema is not a form, if it is not.
pub(in crate::domain) fn form_error(schema: &Value) -> Option<String> {
    let errors = Form::parse(schema).err()?;
    let said = errors.iter().map(|error| match error.pointer.as_deref() {
        None | Some("") => error.message.clone(),
        Some(pointer) => format!("`{pointer}`: {}", error.message),
    });
    Some(format!("{}.", said.collect::<Vec<_>>().join("; ")))
}

/// Why a default is not a valid answer, if it is not.
pub(in crate::domain) fn default_error(
    default: &Value,
    options: &[String],
    schema: Option<&Value>,
) -> Option<String> {
    let form = schema.and_then(|schema| Form::parse(schema).ok());
    let wrong = answer_errors(default, options, form.as_ref());
    let wrong = wrong.into_iter().next()?.under("default");
    let pointer = wrong.pointer.unwrap_or_default();
    Some(format!("`{pointer}`: {}.", wrong.message))
}

/// Whether a step leaves its timeout to the policies that it names.
fn is_by_policy(step: &Map<String, Value>) -> bool {
    let says = |name: &str| step.get(name).is_some_and(|value| !value.is_null());
    says("policy") && !says("timeout")
}

/// Whether the value is known only when the step starts.
fn has_placeholder(value: &Value) -> bool {
    match value {
        Value::String(text) => expression::has_placeholder(text),
        Value::Array(items) => items.iter().any(has_placeholder),
        Value::Object(fields) => fields.values().any(has_placeholder),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

impl StepReader<'_, '_> {
    /// Reads an `ask` (S3-R1, S3-R5, S3-R7).
    pub(super) fn ask(&mut self, value: &Value) -> Option<Action> {
        let ask = self.object("ask", value, &ASK)?;
        let to = self.to("ask", ask.get("to"));
        let question = self.text("ask", "question", ask.get("question"));
        let options = self.options(ask.get("options"));
        let schema = ask.get("schema").filter(|schema| !schema.is_null());
        let default = ask.get("default").filter(|default| !default.is_null());
        let link = self.link(ask.get("link"))?;
        let kind = HoldKind::Input;
        let timeout_ms = self.timeout_ms(kind, ask.get("timeout"));
        let allowed = [
            ("fail", OnTimeout::Fail),
            ("skip", OnTimeout::Skip),
            ("default", OnTimeout::Default),
            ("escalate", OnTimeout::Escalate),
        ];
        let on_timeout = self.word("ask", "on_timeout", ask.get("on_timeout"), &allowed);
        let on_timeout = on_timeout?.unwrap_or(OnTimeout::Fail);
        let urgent = self.urgent("ask", ask);
        let policies = self.policies("ask", ask.get("policy"));
        let (to, options, policies) = (to?, options?, policies?);
        let spec = HoldSpec {
            options,
            to: literal_recipients(&to),
            schema: schema.cloned(),
            link,
            on_timeout,
            default: default.cloned(),
            policies,
            ..HoldSpec::asking(kind, question.unwrap_or_default())
        };
        self.check_draft("ask", &spec, timeout_ms);
        Some(Action::Ask(Box::new(Ask {
            to,
            question: spec.question,
            options: spec.options,
            schema: spec.schema,
            link: spec.link,
            timeout_ms: timeout_ms?,
            time_by_policy: is_by_policy(ask),
            on_timeout,
            priority: urgent?.0,
            assign: urgent?.1,
            default: spec.default,
            policies: spec.policies,
        })))
    }

    /// Reads a `handoff` (S0-AC6, S0-T1, S0-R2).
    pub(super) fn handoff(&mut self, value: &Value) -> Option<Action> {
        let handoff = self.object("handoff", value, &HANDOFF)?;
        let to = self.to("handoff", handoff.get("to"));
        let message = self.text("handoff", "message", handoff.get("message"));
        let urgent = self.urgent("handoff", handoff);
        let kind = HoldKind::Handoff;
        let timeout_ms = self.timeout_ms(kind, handoff.get("timeout"));
        let allowed = [
            ("continue", OnTimeout::Continue),
            ("skip", OnTimeout::Skip),
            ("fail", OnTimeout::Fail),
            ("escalate", OnTimeout::Escalate),
        ];
        let on_timeout = self.word("handoff", "on_timeout", handoff.get("on_timeout"), &allowed);
        let flags = [("true", true), ("false", false)];
        let warm_lead = self.word("handoff", "warm_lead", handoff.get("warm_lead"), &flags);
        let policies = self.policies("handoff", handoff.get("policy"));
        let (to, policies) = (to?, policies?);
        // Without a message, the run writes one when the step starts.
        let question = message.as_deref().unwrap_or("-");
        let spec = HoldSpec {
            to: literal_recipients(&to),
            policies,
            ..HoldSpec::asking(kind, question)
        };
        self.check_draft("handoff", &spec, timeout_ms);
        Some(Action::Handoff(Box::new(Handoff {
            to,
            message,
            priority: urgent?.0,
            assign: urgent?.1,
            timeout_ms: timeout_ms?,
            time_by_policy: is_by_policy(handoff),
            on_timeout: on_timeout?.unwrap_or(OnTimeout::Continue),
            warm_lead: warm_lead?,
            policies: spec.policies,
        })))
    }

    /// Reports what the shared validation finds, at the field of the step.
    pub(super) fn check_draft(&mut self, kind: &str, spec: &HoldSpec, timeout_ms: Option<u64>) {
        let draft = HoldDraft { spec, timeout_ms };
        let has_literal_default = spec.default.as_ref().is_some_and(|it| !has_placeholder(it));
        let errors = if has_literal_default {
            draft.validate()
        } else {
            draft.validate_template()
        };
        for error in errors {
            self.report(kind, diagnostic_of(kind, error));
        }
    }

    /// The priority, and how a recipient is chosen.
    fn urgent(&mut self, kind: &str, step: &Map<String, Value>) -> Option<(Priority, Assign)> {
        let priorities = [
            ("low", Priority::Low),
            ("medium", Priority::Normal),
            ("normal", Priority::Normal),
            ("high", Priority::High),
            ("urgent", Priority::Urgent),
        ];
        let priority = self.word(kind, "priority", step.get("priority"), &priorities);
        let ways = [
            ("anyone", Assign::Anyone),
            ("least_loaded", Assign::LeastLoaded),
        ];
        let assign = self.word(kind, "assign", step.get("assign"), &ways);
        Some((priority?.unwrap_or_default(), assign?.unwrap_or_default()))
    }

    /// A link must be literal, so that every reader sees its target.
    #[expect(clippy::option_option, reason = "refused and omitted are different")]
    fn link(&mut self, value: Option<&Value>) -> Option<Option<Link>> {
        let Some(value) = value.filter(|link| !link.is_null()) else {
            return Some(None);
        };
        let link = match Link::deserialize(value) {
            Ok(link) => link,
            Err(error) => {
                let message = format!(
                    "A `link` is written `{{ url: \"https://…\", label: \"…\" }}`: {error}."
                );
                return self.refuse("ask", value, message);
            }
        };
        if has_placeholder(value) {
            let message = "A `link` in a plan is literal, so that everybody knows where it leads; a tool \
                           that asks may make one when it runs (`request-input`).";
            return self.refuse("ask", value, message);
        }
        Some(Some(link))
    }

    pub(super) fn object<'v>(
        &mut self,
        kind: &str,
        value: &'v Value,
        known: &[&'static str],
    ) -> Option<&'v Map<String, Value>> {
        let Value::Object(found) = value else {
            let [first, ..] = known else { return None };
            let message = format!("`{kind}` is an object, such as `{kind}: {{ {first}: … }}`.");
            return self.refuse(kind, value, message);
        };
        for name in found.keys() {
            if let Some(error) = fields::inner_field(name, kind, known) {
                self.report(kind, error);
            }
        }
        Some(found)
    }

    /// One recipient or a list. A placeholder stands for a text, or alone for a list.
    fn to(&mut self, kind: &str, value: Option<&Value>) -> Option<Value> {
        self.recipients(kind, "to", value)
    }

    /// Recipients under another name than `to`.
    pub(super) fn recipients(
        &mut self,
        kind: &str,
        name: &str,
        value: Option<&Value>,
    ) -> Option<Value> {
        let many = match value {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(many)) => many.clone(),
            Some(other) => vec![other.clone()],
        };
        if let Some(wrong) = many.iter().find(|one| !one.is_string()) {
            let message =
                format!("`{name}` must be `@user.<name>` or `@role.<name>`, or a list of these.");
            return self.refuse(kind, wrong, message);
        }
        Some(Value::Array(many))
    }

    /// One name or a list. Whether the policies exist is checked when the step starts.
    pub(super) fn policies(
        &mut self,
        kind: &str,
        value: Option<&Value>,
    ) -> Option<Vec<PolicyName>> {
        let names = match value {
            None | Some(Value::Null) => return Some(Vec::new()),
            Some(Value::Array(names)) => names.as_slice(),
            Some(one) => std::slice::from_ref(one),
        };
        let policies = names.iter().map(|one| match one.as_str().map(str::parse) {
            Some(Ok(name)) => Some(name),
            Some(Err(_)) | None => {
                let message = "`policy` must be the name of a policy, or a list of names.";
                self.refuse(kind, one, message)
            }
        });
        policies.collect()
    }

    fn text(&mut self, kind: &str, name: &str, value: Option<&Value>) -> Option<String> {
        let value = value.filter(|value| !value.is_null())?;
        match value.as_str() {
            Some(text) => Some(text.to_owned()),
            None => self.refuse(kind, value, format!("`{name}` must be a text.")),
        }
    }

    /// YAML reads an unquoted `yes` or `no` as true or false. Such an option is refused with the remedy.
    fn options(&mut self, value: Option<&Value>) -> Option<Vec<String>> {
        let list = match value {
            None | Some(Value::Null) => return Some(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(other) => {
                return self.refuse("ask", other, "`options` must be a list of texts.");
            }
        };
        let options = list.iter().map(|option| match option {
            Value::String(text) => Some(text.clone()),
            Value::Bool(_) => {
                let message = "An option must be a text; put `true` and `false` in quotes: `\"yes\"`, `\"no\"`.";
                self.refuse("ask", option, message)
            }
            _ => self.refuse("ask", option, "An option must be a text; put it in quotes."),
        });
        options.collect()
    }

    /// One of the known words. The outer `None` means that it was refused.
    #[expect(clippy::option_option, reason = "refused and omitted are different")]
    pub(super) fn word<T: Copy>(
        &mut self,
        kind: &str,
        name: &str,
        value: Option<&Value>,
        known: &[(&'static str, T)],
    ) -> Option<Option<T>> {
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return Some(None);
        };
        let text = shown(value);
        if let Some((_, found)) = known.iter().find(|(word, _)| *word == text) {
            return Some(Some(*found));
        }
        let words: Vec<_> = known.iter().map(|(word, _)| format!("`{word}`")).collect();
        let error = FieldError {
            nearest: nearest(&text, known.iter().map(|(word, _)| *word)),
            ..diagnostic(&text, format!("`{name}` is one of {}.", words.join(", ")))
        };
        self.report(kind, error);
        None
    }

    /// Milliseconds. The shared validation checks the range.
    fn timeout_ms(&mut self, kind: HoldKind, value: Option<&Value>) -> Option<u64> {
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return Some(default_timeout_ms(kind));
        };
        if value.as_u64() == Some(0) {
            return Some(NO_END);
        }
        let message = match value.as_str().map(duration::parse) {
            Some(Ok(length)) => return u64::try_from(length.as_millis()).ok(),
            Some(Err(error)) => super::step::sentence(&error.to_string()),
            None => "`timeout` must be a duration with a unit, such as `5 minutes`.".to_owned(),
        };
        self.refuse(kind_field(kind), value, message)
    }
}

const fn kind_field(kind: HoldKind) -> &'static str {
    match kind {
        HoldKind::Handoff => "handoff",
        HoldKind::Input
        | HoldKind::Approval
        | HoldKind::Timer
        | HoldKind::Signal
        | HoldKind::ChildRun => "ask",
    }
}

/// The recipients with valid texts instead of placeholders, which are checked when they are filled in.
fn literal_recipients(to: &Value) -> Vec<String> {
    let to = to.as_array().into_iter().flatten();
    let texts = to.filter_map(|one| {
        let owners = has_placeholder(one).then_some(OWNERS);
        owners.or(one.as_str()).map(str::to_owned)
    });
    texts.collect()
}

/// An error of the shared validation as a diagnostic of a step, whose fields have other names.
fn diagnostic_of(kind: &str, error: FieldError) -> FieldError {
    let pointer = error.pointer.unwrap_or_default();
    let path = pointer.trim_start_matches('/');
    let (field, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
    let field = match field {
        "timeout_ms" => "timeout",
        "question" if kind == "handoff" => "message",
        "policies" => "policy",
        "to" if kind == "approval" => "from",
        "policy" if kind == "approval" => "need",
        other => other,
    };
    let text = if error.text.is_empty() {
        field
    } else {
        &error.text
    };
    FieldError {
        nearest: error.nearest,
        ..diagnostic(text, format!("`{field}{rest}`: {}.", error.message))
    }
}
