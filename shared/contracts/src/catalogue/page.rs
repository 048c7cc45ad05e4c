//! `docs/messages.md`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::source::{self, Field};
use super::{Entry, Kind, all, pattern};
use crate::history::EventType;
use crate::subject::Lane;
use crate::{executor, scheduler, subject};

/// What people bring: its inside is theirs.
const FREE: [&str; 6] = ["labels", "input", "fields", "patch", "args", "data"];

const HEAD: &str = "# Messages

Written by `HOLDPOINT_WRITE_DOCS=1 cargo test -p holdpoint-contracts`, never by hand. The examples are the
golden files in `shared/contracts/golden`; the fields, their types and what may be left out are found out
from them and from the types in `shared/contracts/src`.

- `{workspace}` is the workspace; `{p}` the partition: CRC-32 (IEEE) of the aggregate's id, modulo 16, in
  decimal; `{queue}` the name of the tool, with `~` for each dot.
- A **command** goes to `ask` as a core request (answered after the commit, stored nowhere) or to `cmd`, which a
  work queue stores (answered only to an inbox `_INBOX.…` in the header `hp-reply`). Its body is an envelope:
  `actor`, `command`, and `key: {key, digest}` where the same is to be done once (remembered 24 h); unknown
  fields are refused.
- A **query** goes to `get` as a core request, without an envelope.
- An answer is `{\"ok\": …}` or `{\"problem\": {\"status\", \"code\", \"detail\", \"errors\"?}}`. Status 503 and no answer
  mean: ask again, with the same ids and key. In a list every item has its own `ok` or `problem`.
";

fn json_type(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::String(text) => text_type(text).to_owned(),
        Value::Array(items) => {
            let item = items
                .first()
                .map_or_else(|| "anything".to_owned(), json_type);
            format!("list of {item}")
        }
        Value::Object(_) => "object".to_owned(),
    }
}

fn text_type(text: &str) -> &'static str {
    let is_instant = chrono::DateTime::parse_from_rfc3339(text).is_ok();
    match text {
        _ if is_instant => "instant",
        _ if text.starts_with("run_") => "run id",
        _ if text.starts_with("hold_") => "hold id",
        _ => "text",
    }
}

/// The type inside `Vec<…>`, `Option<…>`, without its path.
fn inner(type_name: &str) -> &str {
    let name = type_name.rsplit('<').next().unwrap_or(type_name);
    let name = name.trim_end_matches('>');
    name.rsplit("::").next().unwrap_or(name)
}

/// A line for each field of the body at `pointer`, those of lists and objects below it.
fn fields(sources: &str, entry: &Entry, type_name: &str, pointer: &str) -> String {
    let sample: Value = serde_json::from_str(&entry.body.text).unwrap();
    let mut lines = String::new();
    for Field {
        name,
        type_name,
        comment,
    } in source::fields(sources, type_name)
    {
        let at = format!("{pointer}/{name}");
        let value = sample.pointer(&at).unwrap_or(&Value::Null);
        let shown = at.trim_start_matches("/command").trim_start_matches('/');
        let shown = shown.replace("/0", "[]").replace('/', ".");
        let optional = if may_be_left_out(entry, &sample, pointer, &name) {
            ", may be left out"
        } else {
            ""
        };
        let kind = match inner(&type_name) {
            "Value" => "any JSON".to_owned(),
            _ => json_type(value),
        };
        let comment = comment.replace('|', "\\|");
        writeln!(lines, "| `{shown}` | {kind}{optional} | {comment} |").unwrap();
        if FREE.contains(&name.as_str()) {
            continue;
        }
        let below = if value.is_array() {
            format!("{at}/0")
        } else {
            at
        };
        lines += &fields(sources, entry, inner(&type_name), &below);
    }
    lines
}

/// Found out by leaving it out.
fn may_be_left_out(entry: &Entry, sample: &Value, pointer: &str, name: &str) -> bool {
    let mut without = sample.clone();
    let Some(Value::Object(object)) = without.pointer_mut(pointer) else {
        return false;
    };
    object.remove(name);
    (entry.body.rewrite)(&without.to_string()).is_ok()
}

fn section(sources: &str, entry: &Entry) -> String {
    let mut text = format!("\n### {}\n\n", entry.name);
    let comment = source::comment(sources, &entry.type_name);
    let (kind, service) = match entry.kind {
        Kind::Command => ("Command of", entry.service),
        Kind::Query => ("Query of", entry.service),
        Kind::Message => ("Message of", entry.service),
    };
    writeln!(
        text,
        "{comment}\n\n- {kind} **{service}**, `{}`",
        entry.type_name
    )
    .unwrap();
    for one in &entry.subjects {
        writeln!(text, "- subject `{}`", pattern(one)).unwrap();
    }
    if let (Some(aggregate), Some(subject)) = (&entry.aggregate, entry.subjects.first()) {
        writeln!(
            text,
            "- the sample's aggregate is `{aggregate}`, so it goes to `{subject}`"
        )
        .unwrap();
    }
    let pointer = match entry.kind {
        Kind::Command => "/command",
        Kind::Query | Kind::Message => "",
    };
    let lines = fields(sources, entry, &entry.type_name, pointer);
    if !lines.is_empty() {
        write!(text, "\n| field | type | |\n|---|---|---|\n{lines}").unwrap();
    }
    write!(text, "\n```json\n{}```\n", entry.body.text).unwrap();
    if let Some(reply) = &entry.reply {
        write!(text, "\nReply:\n\n```json\n{}```\n", reply.text).unwrap();
    }
    text
}

/// Settings are those of `shared/bus/src/streams.rs`; names and subjects are of this crate.
fn streams() -> String {
    let mut text = String::from(
        "\n## Streams and durable consumers\n\n\
         | stream | subjects | retention | durable consumer | ack wait |\n|---|---|---|---|---|\n",
    );
    for service in [executor::SERVICE, scheduler::SERVICE] {
        let (stream, filter) = (
            subject::commands_stream(service),
            subject::commands_filter(service),
        );
        writeln!(
            text,
            "| `{stream}` | `{filter}` | work queue, file | `{service}` | 10 s |"
        )
        .unwrap();
    }
    let consumers = Lane::ALL.map(|lane| {
        let consumer = subject::steps_consumer("{queue}", lane);
        let filter = subject::steps_queue_filter("{queue}", lane);
        format!("`{consumer}` on `{filter}`")
    });
    let consumers = consumers.join(", ");
    writeln!(
        text,
        "| `{}` | `{}` | work queue, file | {consumers}, two a queue | 2 s |",
        subject::STEPS,
        subject::STEPS_FILTER
    )
    .unwrap();
    writeln!(
        text,
        "| `{}` | `{}` | limits, none set; message schedules, TTL and rollup allowed | `scheduler-due` on `{}` | 30 s |",
        subject::TIMERS,
        subject::TIMERS_FILTERS.join("`, `"),
        subject::TIMERS_DUE_FILTER
    )
    .unwrap();
    text += "\nAll: dedupe window 2 s, explicit acks, at most 20 000 deliveries without an ack; as many replicas as the server has (one where a stream is made, or `--nats-replicas`). Work queues keep a message for an hour. Each stream and its consumers are made by one service: the one that takes from it, `HP_STEPS` by the executor.\n";
    text
}

fn events(sources: &str) -> String {
    let mut text = String::from(
        "\n## Types of events\n\nIn `HistoryItem.type`, numbered by `seq` without gaps within a run.\n\n\
         | type | when |\n|---|---|\n",
    );
    for kind in EventType::ALL {
        let rename = format!("#[strum(serialize = \"{kind}\")]");
        let at = sources.find(&rename).unwrap_or_else(|| panic!("{kind}"));
        let comment = sources[..at]
            .trim_end()
            .rsplit("///")
            .next()
            .unwrap()
            .trim();
        writeln!(text, "| `{kind}` | {comment} |").unwrap();
    }
    text
}

fn page() -> String {
    let (sources, entries) = (source::all(), all());
    let mut text = HEAD.to_owned();
    for (kind, title) in [
        (Kind::Command, "Commands"),
        (Kind::Query, "Queries"),
        (Kind::Message, "Other messages"),
    ] {
        write!(text, "\n## {title}\n").unwrap();
        for entry in entries.iter().filter(|entry| entry.kind == kind) {
            text += &section(&sources, entry);
        }
    }
    text + &streams() + &events(&sources)
}

/// The page is what the types say today.
#[test]
fn the_page_of_messages_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/messages.md");
    let wanted = page();
    if std::env::var_os("HOLDPOINT_WRITE_DOCS").is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/messages.md is stale: HOLDPOINT_WRITE_DOCS=1 cargo test -p holdpoint-contracts rewrites it"
    );
}
