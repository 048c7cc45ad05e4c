//! Words 4 and 5: templates and calendars of a workspace, and agents that name them.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::LibraryKind;
use holdpoint_contracts::message::Actor;
use holdpoint_ids::AgentName;
use serde_json::{Value, json};

use super::world::acme;
use crate::domain::commands::apply_agent::apply_agent;
use crate::domain::commands::change_library::change_library;
use crate::domain::decision::InWorkspace;
use crate::domain::model::library::{ENTRIES_MAX, Library};
use crate::domain::need::{Aggregate, Fact, Key, Need};
use crate::domain::plan::{Action, Plan};
use crate::domain::{
    Agent, Effect, LibraryChange, LibraryInput, Lookup, Outcome, Refusal, Undecided,
};

use LibraryKind::{Calendar, Template};

fn now() -> DateTime<Utc> {
    "2026-03-02T09:00:00Z".parse().unwrap()
}

fn change(kind: LibraryKind, name: &str, change: LibraryChange) -> LibraryInput {
    LibraryInput {
        kind,
        name: name.to_owned(),
        change,
        by: Actor("ada".to_owned()),
    }
}

#[derive(Default)]
struct Stored(Option<Library>);

impl Stored {
    /// Whether it changed.
    fn apply(&mut self, input: &LibraryInput) -> Result<bool, Refusal> {
        let state = self.0.clone().map(Aggregate::Library);
        match change_library(state.as_ref(), &acme(), input, now()) {
            Ok(Outcome::Unchanged(_)) => Ok(false),
            Ok(Outcome::Decided(decided)) => {
                self.0 = decided.state.try_as_library();
                Ok(true)
            }
            Err(Undecided::Refused(refusal)) => Err(refusal),
            Err(Undecided::NeedsMore(needs)) => panic!("{needs:?}"),
        }
    }

    fn put(&mut self, kind: LibraryKind, name: &str, value: Value) -> Result<bool, Refusal> {
        self.apply(&change(kind, name, LibraryChange::Put(value)))
    }

    fn delete(&mut self, kind: LibraryKind, name: &str) -> Result<bool, Refusal> {
        self.apply(&change(kind, name, LibraryChange::Delete))
    }

    /// Applies an agent. The agent, and its plan if it changed.
    fn agent(&self, known: Option<&Agent>, text: &Value) -> Result<(Agent, Option<Plan>), Refusal> {
        let library = self.0.clone().map(|it| Fact::Library(it.into()));
        let lookup = |need: &Need| {
            assert_eq!(*need, Need::State(Key::Library(acme())));
            library.clone().map_or(Lookup::Missing, Lookup::Found)
        };
        let (workspace, name) = (acme(), books());
        let of = InWorkspace::new(&workspace, &name);
        match apply_agent(known, of, &text.to_string(), &lookup, now()) {
            Ok(Outcome::Unchanged(_)) => {
                let known = known.cloned();
                Ok((known.ok_or(Refusal::AgentNotFound(name))?, None))
            }
            Ok(Outcome::Decided(mut decided)) => {
                let (Aggregate::Agent(agent), Some(Effect::AgentVersion { plan, .. })) =
                    (decided.state, decided.effects.pop())
                else {
                    panic!("a version of an agent");
                };
                Ok((agent, Some(*plan)))
            }
            Err(Undecided::Refused(refusal)) => Err(refusal),
            Err(Undecided::NeedsMore(needs)) => panic!("{needs:?}"),
        }
    }
}

fn books() -> AgentName {
    "books".parse().unwrap()
}

fn sends(template: &str) -> Value {
    json!({ "agent": "books", "instructions": format!("Send email \"{template}\" to contact") })
}

fn body(plan: Option<Plan>) -> String {
    let plan = plan.unwrap();
    let Action::Tool { args, .. } = &plan.steps[0].action else {
        panic!("{plan:?}");
    };
    serde_json::to_value(args).unwrap().to_string()
}

#[test]
fn an_agent_takes_a_template_of_its_workspace_when_it_is_applied() {
    let mut stored = Stored::default();
    assert!(stored.agent(None, &sends("Hello")).is_err());
    assert_eq!(stored.put(Template, "Hello", hello("Good day")), Ok(true));
    assert_eq!(stored.put(Template, "Hello", hello("Good day")), Ok(false));
    let (first, plan) = stored.agent(None, &sends("Hello")).unwrap();
    assert!(body(plan).contains("Good day"));
    let (same, plan) = stored.agent(Some(&first), &sends("Hello")).unwrap();
    assert_eq!((same, plan), (first.clone(), None));
    stored
        .put(Template, "Hello", hello("Good evening"))
        .unwrap();
    let (second, plan) = stored.agent(Some(&first), &sends("Hello")).unwrap();
    assert_eq!(second.version, first.version + 1);
    assert!(body(plan).contains("Good evening"));
    // The agent's own template wins.
    let own = json!({ "agent": "books", "templates": { "Hello": "Hi" },
        "instructions": "Send email \"Hello\" to contact" });
    let (_, plan) = stored.agent(None, &own).unwrap();
    assert!(body(plan).contains("\"Hi\""));
    let Err(Refusal::InvalidAgent(errors)) = stored.agent(None, &sends("Helo")) else {
        panic!("unknown");
    };
    assert_eq!(errors[0].nearest, ["Hello"]);
    assert_eq!(stored.delete(Template, "Hello"), Ok(true));
    assert!(stored.agent(None, &sends("Hello")).is_err());
}

#[test]
fn an_agent_names_a_calendar_of_its_workspace() {
    let mut stored = Stored::default();
    let berlin =
        json!({ "time_zone": "Europe/Berlin", "days": ["mon"], "holidays": ["2026-12-28"] });
    stored.put(Calendar, "berlin", berlin.clone()).unwrap();
    let of = |calendar: &Value| json!({ "agent": "books", "calendar": calendar, "steps": [{ "wait": "2 business days" }] });
    let (_, named) = stored.agent(None, &of(&json!("berlin"))).unwrap();
    let (_, written) = stored.agent(None, &of(&berlin)).unwrap();
    assert_eq!(named, written);
    let Err(Refusal::InvalidAgent(errors)) = stored.agent(None, &of(&json!("Berlin"))) else {
        panic!("unknown");
    };
    assert_eq!(errors[0].nearest, ["berlin"]);
    // A calendar of one day a week makes some waits too long.
    stored
        .put(Calendar, "berlin", json!({ "days": ["mon"] }))
        .unwrap();
    let long = json!({ "agent": "books", "calendar": "berlin", "steps": [{ "wait": "14 business days" }] });
    assert!(stored.agent(None, &long).is_err());
    // The names of templates are separate.
    assert!(stored.delete(Template, "berlin").is_err());
}

#[test]
fn an_invalid_entry_is_refused() {
    let mut stored = Stored::default();
    for (kind, name, value) in [
        (Template, "", hello("a")),
        (Template, "a b", hello("a")),
        (Template, "a/b", hello("a")),
        (Template, "a\nb", hello("a")),
        (Template, "a", json!({})),
        (Template, "a", json!(null)),
        (Template, "a", json!([1])),
        (Template, "a", json!({ "body": 1 })),
        (Template, "a", hello(" ")),
        (Template, "a", many_fields("body")),
        (Calendar, "a", many_fields("days")),
        (Calendar, "a", json!({ "days": vec!["mon"; 8] })),
        (Template, "a", json!({ "body": "a", "to": "b" })),
        (Template, "a", json!({ "body": "a", "subject": "b\nc" })),
        (Template, "a", hello(&"a".repeat(64 * 1024 + 1))),
        (Calendar, "a", json!(null)),
        (Calendar, "a", json!("b")),
        (Calendar, "a", json!({ "days": [] })),
        (Calendar, "a", json!({ "zone": "UTC" })),
        (Calendar, "a", json!({ "time_zone": "Europe/Berlim" })),
        (Calendar, "a", json!({ "holidays": ["2026-02-30"] })),
    ] {
        let refused = stored.put(kind, name, value.clone());
        let Err(Refusal::InvalidLibraryEntry(_, errors)) = &refused else {
            panic!("{kind} {name} {value}: {refused:?}");
        };
        // A hundred, and one that says that there are more.
        assert!((1..=101).contains(&errors.len()), "{}", errors.len());
    }
    assert_eq!(stored.0, None);
}

#[test]
fn a_library_is_bounded() {
    let mut stored = Stored::default();
    for number in 0..ENTRIES_MAX {
        stored
            .put(Calendar, &format!("c{number}"), json!({}))
            .unwrap();
    }
    let more = stored.put(Calendar, "more", json!({}));
    assert_eq!(more, Err(Refusal::TooManyLibraryEntries(Calendar)));
    let large = "a".repeat(60_000);
    let full = (0..20).map(|number| stored.put(Template, &format!("t{number}"), hello(&large)));
    let full: Vec<_> = full.collect();
    assert_eq!(full[16], Ok(true));
    assert_eq!(full[17..], [const { Err(Refusal::LibraryTooLarge) }; 3]);
    // A smaller text still replaces a larger one.
    assert_eq!(stored.put(Template, "t0", hello("a")), Ok(true));
}

/// More unknown fields than errors are answered (A-C2).
fn many_fields(first: &str) -> Value {
    let fields = (0..50_000).map(|number| (format!("{first}{number}"), json!(1)));
    Value::Object(fields.collect())
}

/// Fields that are null are absent.
#[test]
fn an_entry_with_null_is_the_same_without_it() {
    let mut stored = Stored::default();
    let with_null = json!({ "time_zone": "UTC", "days": null });
    assert_eq!(stored.put(Calendar, "a", with_null), Ok(true));
    assert_eq!(
        stored.put(Calendar, "a", json!({ "time_zone": "UTC" })),
        Ok(false)
    );
    let with_null = json!({ "body": "a", "subject": null });
    assert_eq!(stored.put(Template, "a", with_null), Ok(true));
    assert_eq!(stored.put(Template, "a", hello("a")), Ok(false));
}

/// The reply to an apply has the arguments of all steps, and must fit in one message.
#[test]
fn an_agent_with_a_mail_in_each_of_many_steps_is_refused() {
    let mut stored = Stored::default();
    stored
        .put(Template, "Hello", hello(&"\u{1}".repeat(1_000)))
        .unwrap();
    let steps = vec![
        json!({ "tool": "send_email", "args": { "to": "a@b.example", "template": "Hello" } });
        100
    ];
    let Err(Refusal::InvalidAgent(errors)) =
        stored.agent(None, &json!({ "agent": "books", "steps": steps }))
    else {
        panic!("too large");
    };
    assert!(
        errors[0].message.contains("524288 bytes of JSON"),
        "{errors:?}"
    );
}

/// A planner keeps the calendar for the plans of its runs.
#[test]
fn an_agent_with_a_planner_names_a_calendar() {
    let mut stored = Stored::default();
    let of = |calendar: Value| {
        json!({ "agent": "books", "instructions": "Win it back", "calendar": calendar,
            "planner": { "tool": "plans.make", "tools": ["log"] } })
    };
    let Err(Refusal::InvalidAgent(errors)) = stored.agent(None, &of(json!("berlin"))) else {
        panic!("unknown");
    };
    assert_eq!(errors.len(), 1, "{errors:?}");
    let berlin = json!({ "time_zone": "Europe/Berlin" });
    stored.put(Calendar, "berlin", berlin.clone()).unwrap();
    let (_, named) = stored.agent(None, &of(json!("berlin"))).unwrap();
    let (agent, written) = stored.agent(None, &of(berlin)).unwrap();
    assert_eq!(named, written);
    let (null, _) = stored.agent(Some(&agent), &of(Value::Null)).unwrap();
    let absent = json!({ "agent": "books", "instructions": "Win it back",
        "planner": { "tool": "plans.make", "tools": ["log"] } });
    assert_eq!(stored.agent(Some(&null), &absent), Ok((null, None)));
}

fn hello(text: &str) -> Value {
    json!({ "body": text })
}
