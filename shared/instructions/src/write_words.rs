//! The words of a step. Each form has one way to be written.

use holdpoint_contracts::contact::REPLY_SIGNAL;
use serde_json::{Map, Value};

use crate::conditions::condition_words;
use crate::finishes::SUMMARY_DEFAULT;
use crate::mails::CONTACT_ADDRESS;
use crate::quotes::quote;
use crate::recipients::write_recipients;
use crate::values::{is_name, write_object, write_text, write_value};

/// Kinds of steps that have words.
const KINDS: [&str; 7] = [
    "tool", "wait", "wait_for", "ask", "handoff", "run", "finish",
];

/// The words of a step, if each field has some. Whether they mean the same is checked by the caller.
pub(crate) fn write(fields: &Map<String, Value>) -> Option<String> {
    let mut kinds = KINDS.into_iter().filter(|kind| fields.contains_key(*kind));
    let kind = kinds.next().filter(|_| kinds.next().is_none())?;
    let mut words = String::new();
    if let Some(when) = fields.get("when") {
        words.push_str(&format!("if {}, ", condition_words(when.as_str()?)));
    }
    if let Some(items) = fields.get("for_each") {
        words.push_str(&format!("for each {}, ", items.as_str()?));
    }
    words.push_str(&write_action(kind, fields)?);
    let outside = ["when", "for_each", "args", "approval", kind];
    for (name, value) in fields {
        if !outside.contains(&name.as_str()) {
            words.push_str(&write_extra(name, value)?);
        }
    }
    // Last: a time after it could be that of the decision.
    if let Some(approval) = fields.get("approval") {
        words.push_str(&write_extra("approval", approval)?);
    }
    Some(capitalized(&words))
}

fn write_action(kind: &str, fields: &Map<String, Value>) -> Option<String> {
    let value = fields.get(kind)?;
    match kind {
        "tool" => {
            let args = match fields.get("args") {
                None => None,
                Some(args) => Some(args.as_object()?),
            };
            write_tool(value.as_str()?, args)
        }
        "wait" => write_wait(value),
        "finish" => write_finish(value),
        "wait_for" => {
            let fields = value.as_object()?;
            let signal = fields.get("signal")?.as_str()?;
            // Without a reply, the words go on with the next line.
            let skips = fields.get("on_timeout").and_then(Value::as_str) == Some("skip");
            if signal == REPLY_SIGNAL && skips {
                let words = "wait until contact replies".to_owned();
                return write_inner(words, fields, &["signal", "on_timeout"]);
            }
            write_inner(format!("wait for signal {signal}"), fields, &["signal"])
        }
        "ask" => {
            let fields = value.as_object()?;
            let to = match fields.get("to") {
                None => String::new(),
                Some(to) => format!("{} ", write_recipients(to)?),
            };
            let question = quote(fields.get("question")?.as_str()?);
            write_inner(format!("ask {to}{question}"), fields, &["to", "question"])
        }
        "handoff" => {
            let fields = value.as_object()?;
            let to = write_recipients(fields.get("to")?)?;
            write_inner(format!("hand off to {to}"), fields, &["to"])
        }
        "run" => {
            let fields = value.as_object()?;
            let agent = fields.get("agent")?.as_str()?;
            let input = match fields.get("input") {
                None => String::new(),
                Some(input) => format!(" with {}", write_arguments(input.as_object()?)),
            };
            write_inner(
                format!("run agent {agent}{input}"),
                fields,
                &["agent", "input"],
            )
        }
        _ => None,
    }
}

/// Adds the words of all fields inside of a kind, except for those that its first words have.
fn write_inner(first: String, fields: &Map<String, Value>, written: &[&str]) -> Option<String> {
    let mut words = first;
    for (name, value) in fields {
        if written.contains(&name.as_str()) {
            continue;
        }
        let extra = match (name.as_str(), value) {
            ("on_timeout", Value::String(word)) if word == "default" => String::new(),
            ("on_timeout", Value::String(word)) => format!(", then {word}"),
            ("default", Value::String(text)) => format!(", default {}", write_text(text)),
            ("timeout", Value::Number(_)) => ", no timeout".to_owned(),
            ("timeout", Value::String(time)) => format!(", timeout {time}"),
            ("priority", Value::String(word)) => format!(", priority {word}"),
            ("message", Value::String(text)) => format!(" with message {}", write_text(text)),
            ("warm_lead", Value::Bool(true)) => " as warm lead".to_owned(),
            ("options", Value::Array(options)) => {
                let options: Option<Vec<String>> =
                    options.iter().map(|it| it.as_str().map(quote)).collect();
                format!(" with options {}", options?.join(", "))
            }
            (_, _) => return None,
        };
        words.push_str(&extra);
    }
    Some(words)
}

fn write_wait(value: &Value) -> Option<String> {
    if let Some(text) = value.as_str() {
        return Some(format!("wait {text}"));
    }
    let fields = value.as_object()?;
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let zone = text("time_zone").map_or_else(String::new, |zone| format!(" in {zone}"));
    if let Some(days) = fields.get("business_days") {
        let unit = if days.as_u64() == Some(1) {
            "day"
        } else {
            "days"
        };
        return Some(format!("wait {days} business {unit}{zone}"));
    }
    if let Some(day) = text("weekday") {
        let time = text("at").map_or_else(String::new, |time| format!(" at {time}"));
        return Some(format!("wait until {}{time}{zone}", capitalized(day)));
    }
    let until = text("until")?;
    Some(format!("wait until {until}{zone}"))
}

fn write_finish(value: &Value) -> Option<String> {
    if let Some(summary) = value.as_str() {
        if summary == SUMMARY_DEFAULT {
            return Some("finish".to_owned());
        }
        return Some(format!("finish with {}", write_text(summary)));
    }
    let summary = value.get("summary")?.as_str()?;
    Some(format!("fail with {}", write_text(summary)))
}

fn write_tool(tool: &str, args: Option<&Map<String, Value>>) -> Option<String> {
    let own_words = args.and_then(|args| match tool {
        "send_email" => write_mail(args),
        "update_contact" => write_update(args),
        "create_task" => write_task(args),
        "log" => single_text(args, "message").map(|text| format!("log {}", write_text(text))),
        "add_tag" => write_tags(args).map(|tags| format!("add {tags}")),
        "remove_tag" => write_tags(args).map(|tags| format!("remove {tags}")),
        _ => None,
    });
    own_words.or_else(|| {
        let args = args.map_or_else(String::new, |args| {
            format!(" with {}", write_arguments(args))
        });
        Some(format!("call tool {tool}{args}"))
    })
}

fn single_text<'a>(args: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    let text = args.get(name)?.as_str()?;
    (args.len() == 1).then_some(text)
}

/// One tag as `tag`, or at least two in `tags`.
fn write_tags(args: &Map<String, Value>) -> Option<String> {
    if let Some(tag) = single_text(args, "tag") {
        return Some(format!("tag {}", write_text(tag)));
    }
    let tags = args.get("tags")?.as_array()?;
    let tags: Vec<String> = tags
        .iter()
        .map(|tag| tag.as_str().map(write_text))
        .collect::<Option<_>>()?;
    (args.len() == 1 && tags.len() > 1).then(|| format!("the tags {}", tags.join(" and ")))
}

fn write_mail(args: &Map<String, Value>) -> Option<String> {
    let text = |name: &str| args.get(name).and_then(Value::as_str);
    let to = match text("to")? {
        CONTACT_ADDRESS => "contact".to_owned(),
        other => write_text(other),
    };
    match (text("template"), text("subject"), text("body"), args.len()) {
        (Some(template), None, None, 2) => Some(format!("send email {} to {to}", quote(template))),
        (Some(template), Some(subject), None, 3) => {
            let (template, subject) = (quote(template), write_text(subject));
            Some(format!(
                "send email {template} to {to} with subject {subject}"
            ))
        }
        (None, Some(subject), Some(body), 3) => {
            let (subject, body) = (write_text(subject), write_text(body));
            Some(format!(
                "send email to {to} with subject {subject} and body {body}"
            ))
        }
        (_, _, _, _) => None,
    }
}

fn write_update(args: &Map<String, Value>) -> Option<String> {
    let set = args.get("set")?.as_object().filter(|_| args.len() == 1)?;
    let mut fields = set.iter();
    match (fields.next(), fields.next()) {
        (Some((name, value)), None) if is_plain_name(name) => {
            Some(format!("set contact.{name} to {}", write_value(value)))
        }
        (Some(_), _) => Some(format!("update contact with {}", write_arguments(set))),
        (None, _) => None,
    }
}

fn write_task(args: &Map<String, Value>) -> Option<String> {
    let mut words = format!("create task {}", write_text(args.get("title")?.as_str()?));
    let known = ["title", "assignee", "due", "priority"];
    if args.keys().any(|name| !known.contains(&name.as_str())) {
        return None;
    }
    if let Some(to) = args.get("assignee") {
        words.push_str(&format!(" for {}", to.as_str()?));
    }
    if let Some(due) = args.get("due") {
        let due = due.as_str()?;
        let is_date = due.contains('-') || due.starts_with(['$', '{']);
        let before = if is_date { " due" } else { " due in" };
        words.push_str(&format!("{before} {due}"));
    }
    if let Some(priority) = args.get("priority") {
        words.push_str(&format!(", priority {}", priority.as_str()?));
    }
    Some(words)
}

fn write_arguments(args: &Map<String, Value>) -> String {
    if args.is_empty() {
        return write_object(args);
    }
    let argument = |(name, value): (&String, &Value)| {
        let name = if is_plain_name(name) {
            name.clone()
        } else {
            quote(name)
        };
        format!("{name} {}", write_value(value))
    };
    let arguments: Vec<String> = args.iter().map(argument).collect();
    arguments.join(" and ")
}

/// A name that no rule reads as another word.
fn is_plain_name(name: &str) -> bool {
    let is_lower = name
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    is_lower && is_name(name) && !crate::calls::is_reserved(name)
}

fn write_extra(name: &str, value: &Value) -> Option<String> {
    match (name, value) {
        ("id", Value::String(id)) => Some(format!(" named {id}")),
        ("parallel", Value::Number(count)) => Some(format!(", at most {count} at a time")),
        ("timeout", Value::String(time)) => Some(format!(", timeout {time}")),
        ("retry", Value::Object(retry)) => {
            let attempts = retry.get("attempts").filter(|_| retry.len() == 1)?;
            Some(format!(", at most {attempts} attempts"))
        }
        ("on_error", Value::String(word)) => {
            let effect = match word.as_str() {
                "skip_rest" => "skip the rest",
                "handoff" => "hand off",
                other => other,
            };
            Some(format!(", if it fails {effect}"))
        }
        ("approval", Value::Object(rule)) => write_approval(rule),
        (_, _) => None,
    }
}

fn write_approval(rule: &Map<String, Value>) -> Option<String> {
    let mut words = ", after approval".to_owned();
    if let Some(from) = rule.get("from") {
        words.push_str(&format!(" by {}", write_recipients(from)?));
    }
    if let Some(time) = rule.get("decide_within") {
        words.push_str(&format!(" within {}", time.as_str()?));
    }
    Some(words)
}

fn capitalized(words: &str) -> String {
    let mut characters = words.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}
