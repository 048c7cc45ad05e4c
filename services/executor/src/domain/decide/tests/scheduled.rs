//! Starts of runs by schedules.

use holdpoint_contracts::executor::{PauseNew, ScheduledStart, ScheduledStartReply};
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::scheduler::WhenPaused;

use super::world::{Heard, World, acme, owner, run_id, scheduled_start};
use crate::domain::scope::ScopePause;
use crate::domain::{Refusal, Reply, RunFact, RunInput};

const NAP: &str = "  - wait: 1 day\n";

/// A start that differs from the usual one.
fn start(change: impl FnOnce(&mut ScheduledStart)) -> RunInput {
    let mut input = scheduled_start();
    if let RunInput::StartScheduled(start) = &mut input {
        change(start);
    }
    input
}

fn pause(world: &mut World, new: PauseNew) {
    world.agent_scope.paused = Some(ScopePause {
        by: owner(),
        at: world.now,
        new,
    });
}

fn is_reply(heard: &Heard, expected: ScheduledStartReply) -> bool {
    let (Heard::Decided(reply) | Heard::Unchanged(reply)) = heard else {
        return false;
    };
    matches!(reply, Reply::ScheduledStart(reply) if *reply == expected)
}

/// Issue 17: exactly one start for each fire.
#[test]
fn the_same_fire_twice_starts_one_run() {
    let mut world = World::of(NAP);
    for _ in 0..2 {
        let heard = world.give(scheduled_start());
        assert!(is_reply(&heard, ScheduledStartReply::Started), "{heard:?}");
    }
    let started = world.event(EventType::RunStarted);
    assert!(started.message.ends_with("started by schedule:daily."));
    assert_eq!(
        world
            .events()
            .iter()
            .filter(|it| **it == EventType::RunStarted)
            .count(),
        1
    );
    assert_eq!(world.run().labels["schedule"], "daily");
}

/// API, `when_paused`
#[test]
fn a_fire_for_a_paused_agent_is_skipped_or_queued() {
    let mut world = World::of(NAP);
    pause(&mut world, PauseNew::Accept);
    let heard = world.give(scheduled_start());
    assert!(is_reply(&heard, ScheduledStartReply::Paused), "{heard:?}");
    assert!(world.run.is_none());
    let queue = || start(|start| start.when_paused = WhenPaused::Queue);
    pause(&mut world, PauseNew::Refuse);
    let heard = world.give(queue());
    assert!(
        matches!(heard, Heard::Refused(Refusal::AgentPaused { .. })),
        "{heard:?}"
    );
    pause(&mut world, PauseNew::Accept);
    let heard = world.give(queue());
    assert!(is_reply(&heard, ScheduledStartReply::Started), "{heard:?}");
    assert_eq!(world.run().pauses.len(), 1);
}

/// API, `overlap`: an ended run, a deleted one and one of another workspace do not count.
#[test]
fn a_fire_during_the_last_run_is_skipped() {
    let fact = |workspace, is_final| RunFact {
        workspace,
        is_final,
        out: Vec::new(),
    };
    for (last, expected) in [
        (Some(fact(acme(), false)), ScheduledStartReply::Open),
        (Some(fact(acme(), true)), ScheduledStartReply::Started),
        (
            Some(fact("other".parse().unwrap(), false)),
            ScheduledStartReply::Started,
        ),
        (None, ScheduledStartReply::Started),
    ] {
        let mut world = World::of(NAP);
        world.other_run = last;
        let heard = world.give(start(|start| start.unless_open = Some(run_id())));
        assert!(is_reply(&heard, expected), "{heard:?}");
    }
}

#[test]
fn a_fire_for_a_deleted_agent_is_refused() {
    let mut world = World::of(NAP);
    world.has_agent = false;
    let heard = world.give(scheduled_start());
    assert!(
        matches!(heard, Heard::Refused(Refusal::AgentNotFound(_))),
        "{heard:?}"
    );
}
