//! The catalogue of all messages: `docs/messages.md` and the golden files.
//!
//! A golden file is the sample of its message. A command or query without a golden file fails a test.

mod golden;
mod page;
mod source;

use std::collections::BTreeSet;

use holdpoint_ids::Workspace;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::message::{Command, Envelope, Query, Reply};
use crate::subject::{self, Lane};

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Handled by the service that owns the aggregate.
    Command,
    /// Changes nothing.
    Query,
    /// Anything else that goes over the bus.
    Message,
}

/// The text of a golden file, and the function that reads it as its type and writes it again.
struct Body {
    text: String,
    rewrite: fn(&str) -> Result<String, serde_json::Error>,
}

/// One message with its sample and the sample of its reply.
pub(crate) struct Entry {
    kind: Kind,
    /// Name of its golden file.
    name: String,
    /// Rust type, where the fields are.
    type_name: String,
    service: &'static str,
    /// With the sample's workspace `acme`.
    subjects: Vec<String>,
    /// Id that decides the partition.
    aggregate: Option<String>,
    body: Body,
    reply: Option<Body>,
}

fn body<T: Serialize + DeserializeOwned>(name: &str) -> Body {
    Body {
        text: golden::newest(name),
        rewrite: |text| {
            let value = serde_json::from_str::<T>(text)?;
            Ok(serde_json::to_string_pretty(&value)? + "\n")
        },
    }
}

fn short_name<T>() -> String {
    let name = std::any::type_name::<T>();
    name.rsplit("::").next().unwrap_or(name).to_owned()
}

fn acme() -> Workspace {
    "acme".parse().unwrap()
}

pub(crate) fn command<C: Command>() -> Entry {
    let name = format!("{}.{}", C::SERVICE, C::VERB);
    let sample = body::<Envelope<C>>(&name);
    let envelope: Envelope<C> =
        serde_json::from_str(&sample.text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let command = envelope.command;
    Entry {
        kind: Kind::Command,
        type_name: short_name::<C>(),
        service: C::SERVICE,
        subjects: vec![command.subject(&acme()), command.ask_subject(&acme())],
        aggregate: Some(command.aggregate()),
        body: sample,
        reply: Some(body::<Reply<C::Reply>>(&format!("{name}.reply"))),
        name,
    }
}

pub(crate) fn query<Q: Query>() -> Entry {
    let name = format!("{}.get.{}", Q::SERVICE, Q::NAME);
    Entry {
        kind: Kind::Query,
        type_name: short_name::<Q>(),
        service: Q::SERVICE,
        subjects: vec![subject::query(&acme(), Q::SERVICE, Q::NAME)],
        aggregate: None,
        body: body::<Q>(&name),
        reply: Some(body::<Reply<Q::Reply>>(&format!("{name}.reply"))),
        name,
    }
}

/// A message that is neither, published by `service`.
fn message<T: Serialize + DeserializeOwned>(
    service: &'static str,
    name: &str,
    subjects: Vec<String>,
) -> Entry {
    Entry {
        kind: Kind::Message,
        name: name.to_owned(),
        type_name: short_name::<T>(),
        service,
        subjects,
        aggregate: None,
        body: body::<T>(name),
        reply: None,
    }
}

/// Every message of the crate, in the order of `docs/messages.md`.
fn all() -> Vec<Entry> {
    use crate::{executor, handoff, notification, scheduler};

    [
        executor::commands(),
        scheduler::commands(),
        handoff::commands(),
        notification::commands(),
        executor::queries(),
        handoff::queries(),
        notification::queries(),
        scheduler::queries(),
        messages(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn messages() -> Vec<Entry> {
    use crate::{dead_letter, executor, handoff, history, notification, scheduler, steps};

    let live = |service| vec![subject::live(&acme(), service)];
    let second = 1_772_874_000;
    let buckets = vec![subject::timer_due(0), subject::timer_bucket(0, second)];
    let node = "builtin-7f3a".parse().unwrap();
    let mut clock = message::<scheduler::AdvanceClock>(
        scheduler::SERVICE,
        "advance_clock",
        vec![subject::CLOCK_ADVANCE.to_owned()],
    );
    clock.reply = Some(body::<Reply<scheduler::AdvancedClock>>(
        "advance_clock.reply",
    ));
    let letters = vec![subject::dead_letters(&acme(), executor::SERVICE)];
    vec![
        message::<steps::StepDispatch>(
            executor::SERVICE,
            "step_dispatch",
            Lane::ALL
                .map(|lane| subject::steps(&acme(), "crm.find", lane))
                .to_vec(),
        ),
        message::<()>(
            executor::SERVICE,
            "heartbeat_now",
            vec![subject::node(&node)],
        ),
        message::<history::Nudge>(executor::SERVICE, "nudge", live(executor::SERVICE)),
        message::<handoff::RequestNudge>(handoff::SERVICE, "request_nudge", live(handoff::SERVICE)),
        message::<notification::NotificationNudge>(
            notification::SERVICE,
            "notification_nudge",
            live(notification::SERVICE),
        ),
        message::<dead_letter::DeadLetterRequest>(executor::SERVICE, "dead_letters", letters),
        message::<scheduler::DueBucket>(scheduler::SERVICE, "due_bucket", buckets),
        clock,
    ]
}

/// A subject as a pattern, with the variable tokens named.
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

/// M-1: a new command or query must be added to the catalogue. The tables of the services do that.
#[test]
fn every_command_and_query_of_the_crate_is_in_the_catalogue() {
    let sources = source::all();
    for by_hand in ["\nimpl Command for", "\nimpl Query for"] {
        assert!(!sources.contains(by_hand), "{by_hand}");
    }
    let tables = |table: &str| sources.matches(table).count();
    assert_eq!((tables("\ncommands! {"), tables("\nqueries! {")), (4, 4));
}

/// M-1
#[test]
fn no_two_messages_share_a_subject_or_a_name() {
    let entries = all();
    let mut subjects = BTreeSet::new();
    let mut names = BTreeSet::new();
    for entry in &entries {
        for subject in &entry.subjects {
            assert!(
                subjects.insert(pattern(subject)),
                "{subject} is there twice"
            );
        }
        assert!(names.insert(&entry.name), "{} is there twice", entry.name);
    }
}

/// M-1: a service reads a subject back as the command or query that was meant.
#[test]
fn every_subject_of_a_command_or_query_is_read_back() {
    for entry in all().iter().filter(|entry| entry.kind != Kind::Message) {
        for subject in &entry.subjects {
            let parts = subject::parse(subject).unwrap_or_else(|| panic!("{subject}"));
            assert_eq!(parts.service, entry.service);
            assert!(entry.name.ends_with(&parts.verb), "{subject}");
        }
    }
}
