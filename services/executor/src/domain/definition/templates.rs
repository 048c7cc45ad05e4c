//! The field `templates` of an agent: the mails that its steps send by name.
//!
//! A template is put into the arguments when the agent is applied. So a version of an agent keeps its mails, and an approval
//! covers their text.

use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::size::json_bytes;
use holdpoint_ids::nearest;
use serde_json::{Map, Value};

use super::diagnostics::{AgentChecker, MAX_NAME, Place, is_name, shown};
use super::fields;
use super::mails::Mails;
use super::step::StepReader;
use crate::domain::expression::diagnostic;

const TEMPLATES: &str = "templates";
const TEMPLATE: &str = "template";

/// Most templates of an agent.
const TEMPLATES_MAX: usize = 100;

/// Longest body of a template, in bytes.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Most bytes of JSON of the mails of all steps. The reply with the plan of the agent must fit in one message.
const USED_BYTES_MAX: usize = 512 * 1024;

/// Longest subject, in characters (RFC 5322, 2.1.1).
const SUBJECT_CHARS_MAX: usize = 998;

/// The tool whose steps may name a template.
const TOOL: &str = "send_email";

const FIELDS: [&str; 3] = ["subject", "body", "html"];

impl AgentChecker<'_> {
    pub(super) fn read_templates(&mut self, value: Option<&Value>) -> Mails {
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return Mails::default();
        };
        let Value::Object(templates) = value else {
            let message = "`templates` is an object with a mail for each name, such as `Introduction: Hello!`.";
            self.report_field(TEMPLATES, &shown(value), message);
            return Mails::default();
        };
        if templates.len() > TEMPLATES_MAX {
            let message = format!("An agent has at most {TEMPLATES_MAX} templates.");
            self.report_field(TEMPLATES, "", message);
            return Mails::default();
        }
        let mails = templates.iter().filter_map(|(name, mail)| {
            let mail = self.read_template(name, mail)?;
            Some((name.clone(), mail))
        });
        Mails {
            by_name: mails.collect(),
            used_bytes: 0,
        }
    }

    /// `Introduction: TEXT`, or an object with `subject`, `body` and `html`. The name is the default subject.
    pub(super) fn read_template(
        &mut self,
        name: &str,
        value: &Value,
    ) -> Option<Map<String, Value>> {
        if name.trim().is_empty() || name.chars().count() > MAX_NAME {
            let message = format!("The name of a template has 1 to {MAX_NAME} characters.");
            self.report_field(TEMPLATES, &shown(&name.into()), message);
            return None;
        }
        let short = Map::from_iter([("body".to_owned(), value.clone())]);
        let mail = match value {
            Value::Object(mail) => mail,
            _ => &short,
        };
        let mut args = Map::from_iter([("subject".to_owned(), Value::from(name))]);
        for (field, text) in mail {
            if self.is_full() {
                return None;
            }
            if text.is_null() {
                continue;
            }
            if let Some(error) = fields::inner_field(field, TEMPLATES, &FIELDS) {
                self.report(Place::Agent(Some(TEMPLATES)), error);
                continue;
            }
            let is_text = text
                .as_str()
                .is_some_and(|text| text.len() <= BODY_BYTES_MAX && !text.trim().is_empty());
            if !is_text {
                let message = format!(
                    "`{field}` of the template `{name}` is a text of 1 to {BODY_BYTES_MAX} bytes."
                );
                self.report_field(TEMPLATES, &shown(text), message);
                return None;
            }
            args.insert(field.clone(), text.clone());
        }
        if !args.contains_key("body") {
            let message = format!("The template `{name}` needs a `body`.");
            self.report_field(TEMPLATES, name, message);
            return None;
        }
        // `send_email` would refuse it in each run.
        let subject = args.get("subject").and_then(Value::as_str);
        let is_line = |text: &str| !text.contains(char::is_control);
        if !subject.is_some_and(|text| is_line(text) && text.chars().count() <= SUBJECT_CHARS_MAX) {
            let message = format!(
                "The subject of a template is one line of at most {SUBJECT_CHARS_MAX} characters."
            );
            self.report_field(TEMPLATES, &shown(&name.into()), message);
            return None;
        }
        Some(args)
    }
}

impl StepReader<'_, '_> {
    /// The arguments of a tool, with the mail in place of its `template`. Arguments that are written beside it win.
    pub(super) fn with_template(
        &mut self,
        tool: &Value,
        mut args: Map<String, Value>,
    ) -> Option<Map<String, Value>> {
        if tool != TOOL || !args.contains_key(TEMPLATE) {
            return Some(args);
        }
        let name = args.shift_remove(TEMPLATE).unwrap_or_default();
        let Some(mail) = name.as_str().and_then(|name| self.template(name)) else {
            let error = self.unknown_template(&name);
            self.report("args", error);
            return None;
        };
        if args.contains_key("body") {
            let message = "A mail has either a `template` or a `body`.";
            return self.refuse("args", &name, message);
        }
        for (field, text) in mail {
            args.entry(field).or_insert(text);
        }
        if self.checker.mails.used_bytes > USED_BYTES_MAX {
            let message = format!(
                "The mails of all steps together have at most {USED_BYTES_MAX} bytes of JSON."
            );
            return self.refuse("args", &name, message);
        }
        Some(args)
    }

    fn template(&mut self, name: &str) -> Option<Map<String, Value>> {
        self.checker.take_from_library(name);
        let mails = &mut self.checker.mails;
        let mail = mails.by_name.get(name)?;
        mails.used_bytes += json_bytes(mail);
        Some(mail.clone())
    }

    fn unknown_template(&self, name: &Value) -> FieldError {
        let name = shown(name);
        let names = self.checker.template_names();
        let message = if self.checker.planner_steps > 0 {
            format!(
                "The agent has no template `{name}`. A plan uses only the `templates` of its agent."
            )
        } else if is_name(&name) {
            format!(
                "Neither the agent nor its workspace has a template `{name}`. Write the mail under its name in `templates`, or store it with `holdpoint template put`."
            )
        } else {
            format!(
                "The agent has no template `{name}`. Write the mail under its name in `templates`."
            )
        };
        FieldError {
            nearest: nearest(&name, names),
            ..diagnostic(&name, message)
        }
    }
}
