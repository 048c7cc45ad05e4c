//! The steps that ask people: `ask` and `handoff` as they are written.
//!
//! Owns their fields, defaults and limits, and the look at a form. It must never know who the
//! people are: whether somebody is there is found out when the step's turn has come (S0-R1).

use std::time::Duration;

use holdpoint_contracts::duration::{self, MAX_WAIT};
use holdpoint_contracts::form::{Form, answer_faults};
use holdpoint_contracts::hold::{Assign, OnTimeout, Priority};
use holdpoint_contracts::link::{self, Link};
use holdpoint_ids::PolicyName;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::diagnostics::{plain, shown};
use super::fields;
use super::step::One;
use crate::domain::expression::Diagnostic;
use crate::domain::model::plan::Action;
use crate::domain::model::plan::person_steps::{Ask, Handoff};
use crate::domain::nearest_names::nearest;

/// An input's time unless said (S3-R1), in milliseconds.
const ASK_MS: u64 = 300_000;
/// A handoff's (S0-T1): 7 days, in milliseconds.
const HANDOFF_MS: u64 = 7 * 86_400_000;
/// Shortest time to answer (S3-R7).
const SHORTEST: Duration = Duration::from_secs(1);
/// Longest question or message, in characters.
pub(in crate::domain) const TEXT_MAX: usize = 10_000;
/// Most options, and most characters of one.
pub(in crate::domain) const OPTIONS_MAX: usize = 100;
pub(in crate::domain) const OPTION_CHARS_MAX: usize = 200;
/// Most policies that one step names.
const POLICIES_MAX: usize = 2;
/// Most people and roles that one step names.
pub(in crate::domain) const TO_MAX: usize = 20;

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

/// Whether a text says whom: `@user.<name>` or `@role.<name>`.
pub(in crate::domain) fn is_whom(text: &str) -> bool {
    let name = |kind: &str| text.strip_prefix(kind);
    let user = name("@user.").map(|name| name.parse::<holdpoint_ids::UserName>().is_ok());
    let role = name("@role.").map(|name| name.parse::<holdpoint_ids::RoleName>().is_ok());
    user.or(role).unwrap_or(false)
}

/// What is wrong with a form, if anything is. The owner of the request checks answers by the same
/// rules.
pub(in crate::domain) fn form_complaint(schema: &Value) -> Option<String> {
    let errors = Form::parse(schema).err()?;
    let said = errors.iter().map(|error| match error.pointer.as_deref() {
        None | Some("") => error.message.clone(),
        Some(pointer) => format!("`{pointer}`: {}", error.message),
    });
    Some(format!("{}.", said.collect::<Vec<_>>().join("; ")))
}

/// What is wrong with the answer that counts when nobody gives one: it keeps the rules of any other.
pub(in crate::domain) fn default_complaint(
    default: &Value,
    options: &[String],
    schema: Option<&Value>,
) -> Option<String> {
    let form = schema.and_then(|schema| Form::parse(schema).ok());
    let wrong = answer_faults(default, options, form.as_ref());
    let wrong = wrong.into_iter().next()?.under("default");
    let pointer = wrong.pointer.unwrap_or_default();
    Some(format!("`{pointer}`: {}.", wrong.message))
}

/// Whether a step leaves its time to the policies that it names.
fn is_by_policy(step: &Map<String, Value>) -> bool {
    let says = |name: &str| step.get(name).is_some_and(|value| !value.is_null());
    says("policy") && !says("timeout")
}

/// Whether it is known only when the step's turn has come.
fn has_placeholder(value: &Value) -> bool {
    match value {
        Value::String(text) => text.starts_with('$') || text.contains("{{"),
        Value::Array(items) => items.iter().any(has_placeholder),
        Value::Object(fields) => fields.values().any(has_placeholder),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

impl One<'_, '_> {
    /// Reads an `ask` (S3-R1, S3-R5, S3-R7).
    pub(super) fn ask(&mut self, value: &Value) -> Option<Action> {
        let ask = self.object("ask", value, &ASK)?;
        let to = self.to("ask", ask.get("to"));
        let question = self.text("ask", "question", ask.get("question"));
        if question.is_none() && !ask.contains_key("question") {
            self.refuse(
                "ask",
                "question",
                "An `ask` says what: `question: \"Tell the customer?\"`.",
            );
        }
        let options = self.options(ask.get("options"));
        let schema = ask.get("schema").filter(|schema| !schema.is_null());
        if let Some(said) = schema.and_then(form_complaint) {
            self.refuse("ask", "schema", &said);
        }
        if schema.is_some() && options.as_ref().is_some_and(|options| !options.is_empty()) {
            self.refuse(
                "ask",
                "schema",
                "A question has `options` or a `schema`, not both.",
            );
        }
        let default = ask.get("default").filter(|default| !default.is_null());
        let link = self.link(ask.get("link"))?;
        let flat = options.as_deref().unwrap_or_default();
        for fault in link::faults(link.as_ref(), flat, schema, default) {
            let pointer = fault.pointer.unwrap_or_default();
            self.refuse("ask", "link", &format!("`{pointer}`: {}.", fault.message));
        }
        let timeout_ms = self.timeout_ms("ask", ask.get("timeout"), ASK_MS, false);
        let allowed = [
            ("fail", OnTimeout::Fail),
            ("skip", OnTimeout::Skip),
            ("default", OnTimeout::Default),
            ("escalate", OnTimeout::Escalate),
        ];
        let on_timeout = self.word("ask", "on_timeout", ask.get("on_timeout"), &allowed);
        let on_timeout = on_timeout?.unwrap_or(OnTimeout::Fail);
        if (on_timeout == OnTimeout::Default) != default.is_some() {
            self.refuse(
                "ask",
                "default",
                "`on_timeout: default` and `default: ANSWER` belong together.",
            );
        }
        let urgent = self.urgent("ask", ask);
        let policies = self.policies("ask", ask.get("policy"));
        let options = options?;
        let literal = default.filter(|default| !has_placeholder(default));
        let wrong = literal.and_then(|default| default_complaint(default, &options, schema));
        if let Some(wrong) = wrong {
            self.refuse("ask", "default", &wrong);
        }
        Some(Action::Ask(Box::new(Ask {
            to: to?,
            question: question?,
            options,
            schema: schema.cloned(),
            link,
            timeout_ms: timeout_ms?,
            time_by_policy: is_by_policy(ask),
            on_timeout,
            priority: urgent?.0,
            assign: urgent?.1,
            default: default.cloned(),
            policies: policies?,
        })))
    }

    /// Reads a `handoff` (S0-AC6, S0-T1, S0-R2).
    pub(super) fn handoff(&mut self, value: &Value) -> Option<Action> {
        let handoff = self.object("handoff", value, &HANDOFF)?;
        let to = self.to("handoff", handoff.get("to"));
        let message = self.text("handoff", "message", handoff.get("message"));
        let urgent = self.urgent("handoff", handoff);
        let timeout_ms = self.timeout_ms("handoff", handoff.get("timeout"), HANDOFF_MS, true);
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
        Some(Action::Handoff(Box::new(Handoff {
            to: to?,
            message,
            priority: urgent?.0,
            assign: urgent?.1,
            timeout_ms: timeout_ms?,
            time_by_policy: is_by_policy(handoff),
            on_timeout: on_timeout?.unwrap_or(OnTimeout::Continue),
            warm_lead: warm_lead?,
            policies: policies?,
        })))
    }

    /// How urgent it is, and who of those that it is put to gets it.
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

    /// A link that leads where it says: so it is as it is written, and has no placeholders.
    #[expect(
        clippy::option_option,
        reason = "refused and not said are different things"
    )]
    fn link(&mut self, value: Option<&Value>) -> Option<Option<Link>> {
        let Some(value) = value.filter(|link| !link.is_null()) else {
            return Some(None);
        };
        let wrong = |said: &str| plain(&shown(value), said);
        let link = match Link::deserialize(value) {
            Ok(link) => link,
            Err(error) => {
                let said = format!(
                    "A `link` is written `{{ url: \"https://…\", label: \"…\" }}`: {error}."
                );
                self.fault("ask", wrong(&said));
                return None;
            }
        };
        if has_placeholder(value) {
            let said = "A `link` in a plan is literal, so that everybody knows where it leads; a tool \
                        that asks may make one when it runs (`request-input`).";
            self.fault("ask", wrong(said));
            return None;
        }
        Some(Some(link))
    }

    fn refuse(&mut self, kind: &str, text: &str, said: &str) {
        self.fault(kind, plain(text, said));
    }

    fn object<'v>(
        &mut self,
        kind: &str,
        value: &'v Value,
        known: &[&'static str],
    ) -> Option<&'v Map<String, Value>> {
        let Value::Object(found) = value else {
            let said =
                format!("`{kind}` is an object, such as `{kind}: {{ to: \"@user.owner\" }}`.");
            self.fault(kind, plain(&shown(value), &said));
            return None;
        };
        for name in found.keys() {
            if let Some(complaint) = fields::inner_field(name, kind, known) {
                self.fault(kind, complaint);
            }
        }
        Some(found)
    }

    /// One or many; a placeholder stands for a text, or alone for a list.
    fn to(&mut self, kind: &str, value: Option<&Value>) -> Option<Value> {
        let many = match value {
            None | Some(Value::Null) => Vec::new(),
            Some(one @ Value::String(_)) => vec![one.clone()],
            Some(Value::Array(many)) => many.clone(),
            Some(other) => vec![other.clone()],
        };
        let said = "`to` names people as `@user.<name>` or `@role.<name>`, one or a list.";
        let is_right = |one: &Value| {
            one.as_str()
                .is_some_and(|text| text.starts_with('$') || text.contains("{{") || is_whom(text))
        };
        if let Some(wrong) = many.iter().find(|one| !is_right(one)) {
            self.fault(kind, plain(&shown(wrong), said));
            return None;
        }
        if many.len() > TO_MAX {
            self.refuse(
                kind,
                "to",
                &format!("`to` names at most {TO_MAX} people and roles."),
            );
            return None;
        }
        Some(Value::Array(many))
    }

    /// One name or a list. Whether there are such policies is found out when the step's turn has come.
    fn policies(&mut self, kind: &str, value: Option<&Value>) -> Option<Vec<PolicyName>> {
        let names = match value {
            None | Some(Value::Null) => return Some(Vec::new()),
            Some(Value::Array(names)) => names.as_slice(),
            Some(one) => std::slice::from_ref(one),
        };
        let mut policies = Vec::with_capacity(names.len());
        for one in names {
            match one.as_str().map(str::parse) {
                Some(Ok(name)) if policies.len() < POLICIES_MAX => policies.push(name),
                Some(_) | None => {
                    let said = "`policy` is the name of a policy, or of two: one that says who \
                                decides, and one that says who is told.";
                    self.fault(kind, plain(&shown(one), said));
                    return None;
                }
            }
        }
        Some(policies)
    }

    fn text(&mut self, kind: &str, name: &str, value: Option<&Value>) -> Option<String> {
        match value? {
            Value::String(text) if !text.trim().is_empty() && text.chars().count() <= TEXT_MAX => {
                return Some(text.clone());
            }
            other => {
                let said = format!("`{name}` is a text of 1 to {TEXT_MAX} characters.");
                self.fault(kind, plain(&shown(other), &said));
            }
        }
        None
    }

    /// YAML that reads `yes` and `no` as true and false would ask for something else than was
    /// meant: such options are refused with what to write.
    fn options(&mut self, value: Option<&Value>) -> Option<Vec<String>> {
        let list = match value {
            None | Some(Value::Null) => return Some(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(other) => {
                self.fault("ask", plain(&shown(other), "`options` is a list of texts."));
                return None;
            }
        };
        let mut options: Vec<String> = Vec::with_capacity(list.len());
        for option in list {
            let said = match option {
                Value::String(text)
                    if !text.trim().is_empty() && text.chars().count() <= OPTION_CHARS_MAX =>
                {
                    if !options.contains(text) {
                        options.push(text.clone());
                        continue;
                    }
                    "This option is there twice.".to_owned()
                }
                Value::String(_) => format!("An option has 1 to {OPTION_CHARS_MAX} characters."),
                Value::Bool(_) => {
                    "An option is a text, and this is read as true or false; put it in quotes: `\"yes\"`, `\"no\"`.".to_owned()
                }
                Value::Number(_) => {
                    "An option is a text, and this is read as a number; put it in quotes.".to_owned()
                }
                _ => "An option is a text.".to_owned(),
            };
            self.fault("ask", plain(&shown(option), &said));
            return None;
        }
        if options.len() == 1 || options.len() > OPTIONS_MAX {
            let said = format!("There are 2 to {OPTIONS_MAX} options, or none.");
            self.refuse("ask", "options", &said);
            return None;
        }
        Some(options)
    }

    /// A word of a list; the outer none: it was refused.
    #[expect(
        clippy::option_option,
        reason = "refused and not said are different things"
    )]
    fn word<T: Copy>(
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
        let complaint = Diagnostic {
            nearest: nearest(&text, known.iter().map(|(word, _)| *word)),
            ..plain(&text, &format!("`{name}` is one of {}.", words.join(", ")))
        };
        self.fault(kind, complaint);
        None
    }

    /// From 1 s to 90 days; 0 where it means that time never is up.
    fn timeout_ms(
        &mut self,
        kind: &str,
        value: Option<&Value>,
        unless_said: u64,
        may_be_none: bool,
    ) -> Option<u64> {
        let value = match value {
            None | Some(Value::Null) => return Some(unless_said),
            Some(value) => value,
        };
        let is_zero = value.as_u64() == Some(0)
            || value
                .as_str()
                .and_then(|text| duration::parse(text).ok())
                .is_some_and(|length| length.is_zero());
        let said = match value.as_str().map(duration::parse) {
            _ if is_zero && may_be_none => return Some(0),
            _ if is_zero => "`timeout` cannot be 0; the shortest is 1 second.".to_owned(),
            Some(Ok(length)) if length < SHORTEST => "`timeout` is at least 1 second.".to_owned(),
            Some(Ok(length)) if length > MAX_WAIT => "`timeout` is at most 90 days.".to_owned(),
            Some(Ok(length)) => return u64::try_from(length.as_millis()).ok(),
            Some(Err(error)) => super::step::sentence(&error.to_string()),
            None => "`timeout` is a duration with a unit, such as `5 minutes`.".to_owned(),
        };
        self.fault(kind, plain(&shown(value), &said));
        None
    }
}
