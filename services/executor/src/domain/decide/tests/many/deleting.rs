//! An agent is deleted: what its runs become, and what is new under its name.

use super::*;
use crate::domain::decision::{Lookup, Outcome};

/// S0-AC9: the fixed words, for a run that waits and for one that does not.
#[test]
fn runs_of_a_deleted_agent_fail_from_that_commit_on() {
    let cases = [
        ("  - wait: 5 days\n", "Agent deleted during wait period"),
        (SEND, "Agent deleted"),
    ];
    for (steps, message) in cases {
        let mut world = World::started(steps);
        let heard = world.command(AGENT, delete());
        assert_eq!(
            (said(&heard).status.as_str(), said(&heard).changed),
            ("deleted", true)
        );
        for view in [world.shown(), {
            world.pages(AGENT);
            world.view()
        }] {
            let failure = view.failure.unwrap();
            assert_eq!(
                (view.status, failure.class),
                (RunStatus::Failed, FailureClass::Policy)
            );
            assert_eq!(
                (failure.code.as_str(), failure.message.as_str()),
                ("agent_deleted", message)
            );
        }
        for input in [delete(), hold(), resume(ResumeMode::Now)] {
            let heard = world.command(AGENT, input);
            assert!(
                matches!(heard, Heard::Refused(Refusal::AgentNotFound(_))),
                "{heard:?}"
            );
        }
    }
}

/// S0-T4: nobody is told of what they did themselves, so it is said who did it to so many.
#[test]
fn it_is_told_who_has_deleted_or_paused_the_agent() {
    let cancels = pause(PauseWaiting::Cancel, PauseNew::Accept);
    for (input, status) in [
        (delete(), RunStatus::Failed),
        (cancels, RunStatus::Cancelled),
    ] {
        let mut world = World::started("  - wait: 5 days\n");
        world.give(RunInput::Watch);
        world.command(AGENT, input);
        world.pages(AGENT);
        let [end] = &world.ended[..] else {
            panic!("{:?}", world.ended);
        };
        assert_eq!((end.status, end.by.as_deref()), (status, Some("owner")));
    }
}

/// S0-AC9: checked again at resume, when a timer fires, and when a step would start.
#[test]
fn a_deletion_counts_before_its_page() {
    let mut world = World::started("  - wait: 5 days\n");
    world.pause();
    world.command(AGENT, delete());
    let heard = world.resume(ResumeMode::Now);
    assert!(
        matches!(
            heard,
            Heard::Refused(Refusal::RunFinal(_, RunStatus::Failed))
        ),
        "{heard:?}"
    );
    let mut world = World::started("  - wait: 5 days\n");
    world.command(AGENT, delete());
    assert_eq!(world.fire_next(), Some(TimerReply::Stale));
    assert_eq!(world.status(), RunStatus::Failed);
    let mut world = World::started(SEND);
    world.command(AGENT, delete());
    assert_eq!(world.ask_as("node-a", "send", 1, 1), Grant::Drop);
    assert_eq!(
        world.report_as("send", 1, done(json!({}))),
        ResultReply::Late
    );
    let mut world = World::of(SEND);
    world.command(AGENT, delete());
    let heard = world.give(start_input());
    assert!(
        matches!(heard, Heard::Refused(Refusal::AgentNotFound(_))),
        "{heard:?}"
    );
}

/// S0-AC9: the name is free again, and what is new under it is alive.
#[test]
fn an_agent_applied_after_its_deletion_is_a_new_version_and_lives() {
    let text = "agent: outreach\nsteps:\n  - wait: 5 days\n";
    let apply = Input::ApplyAgent {
        workspace: acme(),
        agent: "outreach".parse().unwrap(),
        text: text.to_owned(),
    };
    let now = "2026-03-02T09:00:00Z".parse().unwrap();
    let give = |state: Option<&Aggregate>, input: &Input| {
        let lookup = |_: &Need| Lookup::Missing;
        match decide(state, input, &lookup, now) {
            Ok(Outcome::Decided(decision)) => decision.state,
            other => panic!("{other:?}"),
        }
    };
    let scope = |input| Input::Scope {
        workspace: acme(),
        agent: Some("outreach".parse().unwrap()),
        input,
    };
    let first = give(None, &apply);
    let paused = give(Some(&first), &scope(hold()));
    let deleted = give(Some(&paused), &scope(delete()));
    assert_eq!(deleted.try_as_agent_ref().unwrap().view().status, "deleted");
    let again = give(Some(&deleted), &apply);
    let agent = again.try_as_agent_ref().unwrap();
    assert_eq!((agent.newest, agent.view().status.as_str()), (2, "active"));
    let deleted = give(Some(&again), &scope(delete()));
    assert_eq!(deleted.try_as_agent_ref().unwrap().scope.dead_up_to, 2);
}
