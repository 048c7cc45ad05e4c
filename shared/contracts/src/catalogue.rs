//! The catalogue of all messages: `docs/messages.md` and the golden files.
//!
//! Owns one sample of each message and of each answer. A command or query that is missing here
//! fails a test, and so does a sample that is not what a golden file says.

mod asking;
mod golden;
mod holds;
mod notifications;
mod page;
mod people;
mod plain;
mod samples;
mod source;

use std::collections::BTreeSet;

use holdpoint_ids::Workspace;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::message::{Actor, Command, Envelope, Query, Reply};
use crate::subject;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Done by the service that owns the aggregate.
    Command,
    /// Changes nothing.
    Query,
    /// Anything else that goes over the bus.
    Message,
}

/// A body as it stands in a golden file, and whether a text is one.
struct Body {
    text: String,
    read: fn(&str) -> Result<String, serde_json::Error>,
}

/// One message with its sample and the sample of its answer.
struct Entry {
    kind: Kind,
    /// Name of its golden file.
    name: String,
    /// Rust type, where the fields are.
    type_name: String,
    service: &'static str,
    /// With the sample's workspace `acme`.
    subjects: Vec<String>,
    /// Id that the partition is made of.
    aggregate: Option<String>,
    body: Body,
    answer: Option<Body>,
}

fn body<T: Serialize + DeserializeOwned>(sample: &T) -> Body {
    Body {
        text: pretty(sample),
        read: |text| serde_json::from_str::<T>(text).map(|value| pretty(&value)),
    }
}

fn pretty<T: Serialize>(value: &T) -> String {
    serde_json::to_string_pretty(value).unwrap() + "\n"
}

fn short_name<T>() -> String {
    let name = std::any::type_name::<T>();
    name.rsplit("::").next().unwrap_or(name).to_owned()
}

fn acme() -> Workspace {
    "acme".parse().unwrap()
}

/// A command on behalf of `actor`.
fn command<C: Command>(actor: &str, command: C, answer: C::Reply) -> Entry {
    let subjects = vec![command.subject(&acme()), command.ask_subject(&acme())];
    let aggregate = Some(command.aggregate());
    let envelope = Envelope {
        actor: Actor(actor.to_owned()),
        assertion: None,
        key: None,
        command,
    };
    Entry {
        kind: Kind::Command,
        name: format!("{}.{}", C::SERVICE, C::VERB),
        type_name: short_name::<C>(),
        service: C::SERVICE,
        subjects,
        aggregate,
        body: body(&envelope),
        answer: Some(body(&Reply::Ok(answer))),
    }
}

fn query<Q: Query>(query: &Q, answer: Q::Reply) -> Entry {
    Entry {
        kind: Kind::Query,
        name: format!("{}.get.{}", Q::SERVICE, Q::NAME),
        type_name: short_name::<Q>(),
        service: Q::SERVICE,
        subjects: vec![query.subject(&acme())],
        aggregate: None,
        body: body(query),
        answer: Some(body(&Reply::Ok(answer))),
    }
}

/// Something that is neither, published by `service` to `subject`.
fn message<T: Serialize + DeserializeOwned>(
    service: &'static str,
    name: &str,
    subject: String,
    sample: &T,
) -> Entry {
    Entry {
        kind: Kind::Message,
        name: name.to_owned(),
        type_name: short_name::<T>(),
        service,
        subjects: vec![subject],
        aggregate: None,
        body: body(sample),
        answer: None,
    }
}

/// Every message of the crate. A new one is added in `samples`.
fn all() -> Vec<Entry> {
    let mut entries = samples::agents_and_contacts();
    entries.extend(samples::runs());
    entries.extend(samples::time());
    entries.extend(samples::work());
    entries.extend(asking::commands());
    entries.extend(people::scopes_and_tools());
    entries.extend(people::nodes());
    entries.extend(holds::holds());
    entries.extend(people::requests());
    entries.extend(people::handling());
    entries.extend(people::users());
    entries.extend(holds::policies());
    entries.extend(notifications::all());
    entries.extend(notifications::webhooks());
    entries.extend(notifications::watches());
    entries.extend(notifications::ends());
    entries.extend(samples::queries());
    entries.extend(plain::messages());
    entries
}

/// A subject as a pattern: what differs from message to message is named.
fn pattern(subject: &str) -> String {
    let mut tokens: Vec<&str> = subject.split('.').collect();
    if tokens.get(1) == Some(&"acme") {
        tokens[1] = "{workspace}";
    }
    if matches!(tokens.get(2), Some(&"cmd" | &"ask")) {
        tokens[4] = "{p}";
    }
    if tokens.get(1) == Some(&"timers") {
        for (token, name) in tokens.iter_mut().skip(3).zip(["{shard}", "{second}"]) {
            *token = name;
        }
    }
    if tokens.get(2) == Some(&"steps") {
        tokens[3] = "{queue}";
    }
    tokens.join(".")
}

/// M-1: whoever adds a command or a query adds it here.
#[test]
fn every_command_and_query_of_the_crate_is_in_the_catalogue() {
    let entries = all();
    let known = |kind: Kind| -> BTreeSet<String> {
        let of_kind = entries.iter().filter(|entry| entry.kind == kind);
        of_kind.map(|entry| entry.type_name.clone()).collect()
    };
    let sources = source::all();
    let commands = source::declared(&sources, "impl Command for ", "command!(");
    let queries = source::declared(&sources, "impl Query for ", "query!(");
    assert!(
        commands.len() > 5 && queries.len() > 5,
        "the scan finds nothing"
    );
    assert_eq!(known(Kind::Command), commands);
    assert_eq!(known(Kind::Query), queries);
}

/// M-1
#[test]
fn no_two_messages_share_a_subject_or_a_name() {
    let entries = all();
    let mut subjects = BTreeSet::new();
    let mut names = BTreeSet::new();
    for entry in &entries {
        for one in &entry.subjects {
            assert!(subjects.insert(pattern(one)), "{one} is there twice");
        }
        assert!(names.insert(&entry.name), "{} is there twice", entry.name);
    }
}

/// M-1: what a service subscribes to is read back as what was meant.
#[test]
fn every_subject_of_a_command_or_query_is_read_back() {
    for entry in all().iter().filter(|entry| entry.kind != Kind::Message) {
        for one in &entry.subjects {
            let parts = subject::parse(one).unwrap_or_else(|| panic!("{one}"));
            assert_eq!(parts.service, entry.service);
            assert!(entry.name.ends_with(&parts.verb), "{one}");
        }
    }
}
