//! How a run begins, and whose it is.

use std::collections::BTreeMap;

use holdpoint_contracts::executor::PauseWaiting;
use holdpoint_contracts::history::EventType;
use serde_json::json;

use super::world::{Heard, World, owner, start_input};
use crate::domain::{Refusal, Reply, RunInput};

const NAP: &str = "  - wait: 1 day\n";

/// S2-R1
#[test]
fn a_run_takes_the_newest_version_and_tells_who_started_it() {
    let mut world = World::of(NAP);
    let view = world.start();
    assert_eq!((view.agent.as_str(), view.version), ("outreach", 3));
    assert_eq!(view.contact.as_ref().unwrap().as_str(), "ada");
    let started = world.event(EventType::RunStarted);
    assert_eq!(
        started.message,
        "Run of outreach (version 3) for ada started by owner."
    );
    assert_eq!(started.seq, 1);
}

/// API "Runs": `contact` at start, an id: unknown is 422.
#[test]
fn an_unknown_contact_is_refused_and_nothing_is_started() {
    let mut world = World::of(NAP);
    world.contact = None;
    let Heard::Refused(refusal @ Refusal::UnknownContact(_)) = world.give(start_input()) else {
        panic!("accepted");
    };
    assert_eq!(refusal.problem().status, 422);
    assert!(world.run.is_none());
}

#[test]
fn an_unknown_agent_is_not_found() {
    let mut world = World::of(NAP);
    world.has_agent = false;
    let heard = world.give(start_input());
    let Heard::Refused(refusal @ Refusal::AgentNotFound(_)) = heard else {
        panic!("{heard:?}");
    };
    assert_eq!(refusal.problem().status, 404);
}

/// The caller asks again under the id it made: it is told what there is.
#[test]
fn the_same_start_twice_starts_one_run() {
    let mut world = World::of(NAP);
    let first = world.start();
    let Heard::Unchanged(Reply::Run(second)) = world.give(start_input()) else {
        panic!("started again");
    };
    assert_eq!(second.run, first);
}

/// API: somebody else's workspace does not exist.
#[test]
fn a_run_of_another_workspace_is_not_found() {
    let mut world = World::started(NAP);
    let before = world.run().clone();
    let other = || "umbrella".parse().unwrap();
    for input in [
        RunInput::Pause {
            by: owner(),
            waiting: PauseWaiting::Hold,
        },
        RunInput::Cancel {
            by: owner(),
            reason: None,
        },
    ] {
        let heard = world.give_from(other(), input);
        assert!(
            matches!(heard, Heard::Refused(Refusal::RunNotFound(_))),
            "{heard:?}"
        );
    }
    let heard = world.give_from(other(), start_input());
    assert!(
        matches!(heard, Heard::Refused(Refusal::RunIdTaken(_))),
        "{heard:?}"
    );
    assert_eq!(*world.run(), before);
}

#[test]
fn a_run_that_was_never_started_is_not_found() {
    let mut world = World::of(NAP);
    let heard = world.pause();
    assert!(
        matches!(heard, Heard::Refused(Refusal::RunNotFound(_))),
        "{heard:?}"
    );
}

/// STYLE 12: everything from outside has a limit.
#[test]
fn labels_have_limits() {
    let long = "x".repeat(201);
    let many = (0..33).map(|number| (format!("l{number}"), String::new()));
    let wrong: [BTreeMap<String, String>; 4] = [
        many.collect(),
        BTreeMap::from([("a".to_owned(), long)]),
        BTreeMap::from([("a=b".to_owned(), String::new())]),
        BTreeMap::from([(String::new(), "x".to_owned())]),
    ];
    for labels in wrong {
        let mut world = World::of(NAP);
        let heard = world.give(RunInput::Start {
            agent: "outreach".parse().unwrap(),
            input: json!(null),
            contact: None,
            labels,
            by: owner(),
        });
        assert!(
            matches!(heard, Heard::Refused(Refusal::Labels(_))),
            "{heard:?}"
        );
    }
}
