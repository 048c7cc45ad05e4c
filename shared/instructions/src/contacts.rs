//! Words that change the contact, create a task and write to the log.

use holdpoint_contracts::contact::TAGS_MAX;
use serde_json::{Map, Value};
use winnow::Parser as _;
use winnow::combinator::{alt, opt, preceded, separated};

use crate::calls::arguments;
use crate::dates::moment;
use crate::draft::{Action, text_field};
use crate::durations::duration;
use crate::line_parser::{
    Input, Parsed, choice, comma, is_same_word, mark, phrase, refuse_at, take_word, tokens_left,
};
use crate::recipients::recipient;
use crate::values::{filled_value, placeholder, value};

const FIELD: &str = "a field such as `contact.stage`";

/// Reads a line that changes the contact.
pub(crate) fn change_contact(input: &mut Input<'_>) -> Parsed<Action> {
    alt((set_field, update, add_tag, remove_tag)).parse_next(input)
}

/// Reads `create task "Call back" for @user.nina due in 2 days`.
pub(crate) fn create_task(input: &mut Input<'_>) -> Parsed<Action> {
    phrase(&[
        "create task",
        "create a task",
        "create the task",
        "add task",
        "add a task",
        "add the task",
        "open task",
        "open a task",
        "open the task",
    ])(input)?;
    let _colon = opt(mark(":")).parse_next(input)?;
    let mut args = Map::from_iter([text_field("title", filled_value(input)?)]);
    loop {
        let start = tokens_left(input);
        let Some((name, value)) = opt(preceded(opt(comma), task_field)).parse_next(input)? else {
            break;
        };
        if args.contains_key(name) {
            let message = "A task has at most one assignee, one due date and one priority";
            return refuse_at(input, start, message);
        }
        args.extend([text_field(name, value)]);
    }
    Ok(tool("create_task", args))
}

/// The assignee, the due date or the priority of a task, with the name of its argument.
fn task_field(input: &mut Input<'_>) -> Parsed<(&'static str, String)> {
    let assignee = preceded(phrase(&["for", "assigned to"]), recipient);
    let priorities = choice(&[
        ("low", "low"),
        ("normal", "normal"),
        ("high", "high"),
        ("urgent", "urgent"),
    ]);
    let priority = preceded(phrase(&["priority", "with priority"]), priorities);
    alt((
        assignee.map(|to| ("assignee", to)),
        due.map(|due| ("due", due)),
        priority.map(|word| ("priority", word.to_owned())),
    ))
    .parse_next(input)
}

/// Reads `log "…"`.
pub(crate) fn log(input: &mut Input<'_>) -> Parsed<Action> {
    let before = phrase(&[
        "log",
        "log message",
        "log the message",
        "log that",
        "write to the log",
        "log text",
    ]);
    let before = preceded((before, opt(mark(":"))), filled_value);
    let around = (
        preceded(phrase(&["write", "add"]), filled_value),
        phrase(&["to the log"]),
    );
    let message = alt((before, around.map(|(text, ())| text))).parse_next(input)?;
    Ok(tool(
        "log",
        Map::from_iter([text_field("message", message)]),
    ))
}

/// `in 2 days`, a date or a placeholder.
fn due(input: &mut Input<'_>) -> Parsed<String> {
    let after = preceded(phrase(&["due in", "due within"]), duration);
    let date = preceded(
        phrase(&["due", "due on", "due by"]),
        // A task takes a date or an instant, and no local time.
        moment
            .verify(|moment| moment.has_offset || !moment.text.contains('T'))
            .map(|moment| moment.text),
    );
    let given = preceded(phrase(&["due", "due on", "due in"]), placeholder);
    alt((after, date, given)).parse_next(input)
}

/// `set contact.stage to "won"`.
fn set_field(input: &mut Input<'_>) -> Parsed<Action> {
    phrase(&["set", "change"])(input)?;
    let field = contact_field(input)?;
    let value = preceded(phrase(&["to"]), value).parse_next(input)?;
    Ok(update_contact(Map::from_iter([(field, value)])))
}

/// `update contact: stage "won", score 5`.
fn update(input: &mut Input<'_>) -> Parsed<Action> {
    phrase(&["update contact", "update the contact"])(input)?;
    let _joint = opt(alt((mark(":"), phrase(&["with", "and set"])))).parse_next(input)?;
    let start = tokens_left(input);
    let fields = arguments(input)?;
    if fields.keys().any(|name| name.starts_with("contact.")) {
        let message = "The name of a field is without `contact.`; write for example `Update contact: stage \"won\"`";
        return refuse_at(input, start, message);
    }
    Ok(update_contact(fields))
}

fn add_tag(input: &mut Input<'_>) -> Parsed<Action> {
    let added = (
        phrase(&["add tag", "add the tag", "add tags", "add the tags"]),
        tags,
        opt(phrase(&["to contact", "to the contact"])),
    );
    let contact = phrase(&[
        "tag contact",
        "tag the contact",
        "tag contact as",
        "tag contact with",
        "tag the contact as",
        "tag the contact with",
    ]);
    let args = alt((added.map(|(_, args, _)| args), preceded(contact, tags))).parse_next(input)?;
    Ok(tool("add_tag", args))
}

fn remove_tag(input: &mut Input<'_>) -> Parsed<Action> {
    let removed = (
        phrase(&[
            "remove tag",
            "remove the tag",
            "remove tags",
            "remove the tags",
            "delete tag",
            "delete the tag",
            "delete tags",
            "delete the tags",
        ]),
        tags,
        opt(phrase(&["from contact", "from the contact"])),
    );
    let contact = phrase(&["untag contact", "untag the contact"]);
    let args =
        alt((removed.map(|(_, args, _)| args), preceded(contact, tags))).parse_next(input)?;
    Ok(tool("remove_tag", args))
}

/// One tag, or several with `and`. One is the argument `tag`, and several are the list `tags`.
fn tags(input: &mut Input<'_>) -> Parsed<Map<String, Value>> {
    let _colon = opt(mark(":")).parse_next(input)?;
    let joint = alt(((comma, phrase(&["and"])).void(), comma, phrase(&["and"])));
    let mut found: Vec<String> = separated(1..=TAGS_MAX, filled_value, joint).parse_next(input)?;
    let arg = match found.as_slice() {
        [_] => text_field("tag", found.swap_remove(0)),
        _ => ("tags".to_owned(), Value::from(found)),
    };
    Ok(Map::from_iter([arg]))
}

/// `contact.stage` or `the contact's stage`.
fn contact_field(input: &mut Input<'_>) -> Parsed<String> {
    let owned = preceded((opt(phrase(&["the"])), owner), own_field);
    alt((dotted_field, owned)).parse_next(input)
}

fn dotted_field(input: &mut Input<'_>) -> Parsed<String> {
    take_word(input, FIELD, |word| {
        let field = word
            .strip_prefix("contact.")
            .filter(|field| is_field(field));
        field.map(str::to_owned)
    })
}

fn owner(input: &mut Input<'_>) -> Parsed<()> {
    take_word(input, FIELD, |word| {
        is_same_word(word, "contact's").then_some(())
    })
}

fn own_field(input: &mut Input<'_>) -> Parsed<String> {
    take_word(input, "a field such as `stage`", |word| {
        is_field(word).then(|| word.to_owned())
    })
}

fn is_field(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !text.is_empty() && text.chars().all(is_part)
}

fn update_contact(set: Map<String, Value>) -> Action {
    let args = Map::from_iter([("set".to_owned(), Value::Object(set))]);
    tool("update_contact", args)
}

fn tool(name: &str, args: Map<String, Value>) -> Action {
    Action::Tool {
        tool: name.to_owned(),
        args: Some(args),
    }
}
