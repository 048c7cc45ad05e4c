//! Whose end is told (S0-T4): that of a run that somebody watches, or whose agent somebody watches, once;
//! and of no other.

use holdpoint_contracts::run::RunStatus;
use holdpoint_ids::Workspace;
use serde_json::json;

use super::world::{Heard, World, broken, done};
use crate::domain::decision::{Lookup, Outcome, Undecided};
use crate::domain::scope::{EndsWatch, WorkspaceScope};
use crate::domain::{Agent, Aggregate, Input, Key, Need, Refusal, Reply, RunInput};

const STEPS: &str = "
  - id: it
    tool: send_email
    args: { to: x@x.example }
";

/// At work on its only step.
fn working() -> World {
    let mut world = World::started(STEPS);
    world.ask("node-a", "it");
    world
}

fn watched() -> World {
    let mut world = working();
    let heard = world.give(RunInput::Watch);
    let Heard::Decided(Reply::Watched(answer)) = heard else {
        panic!("{heard:?}");
    };
    assert_eq!(answer.ended, None);
    world
}

/// S0-T4
#[test]
fn the_end_of_a_watched_run_is_told_once() {
    let mut world = watched();
    let heard = world.give(RunInput::Watch);
    assert!(matches!(heard, Heard::Unchanged(_)), "{heard:?}");
    assert_eq!(world.ended, []);
    world.pass(chrono::TimeDelta::minutes(7));
    world.report("it", broken());
    let [end] = &world.ended[..] else {
        panic!("{:?}", world.ended);
    };
    assert_eq!((end.status, end.watch), (RunStatus::Failed, 0));
    assert_eq!((end.run, &end.by), (world.run().id, &None));
    assert_eq!(end.message, world.run().message(world.now));
    assert_eq!(end.took_ms(), 7 * 60 * 1_000);
    assert_eq!(Some(end.ended_at), world.run().ended_at());

    // What comes after the end is no end.
    world.report("it", done(json!({})));
    world.cancel();
    assert_eq!(world.ended.len(), 1);
}

/// S0-T4: nobody is told of what they did themselves, so it is said who did it.
#[test]
fn it_is_told_who_has_cancelled() {
    let mut world = watched();
    world.cancel();
    let [end] = &world.ended[..] else {
        panic!("{:?}", world.ended);
    };
    assert_eq!(end.status, RunStatus::Cancelled);
    assert_eq!(end.by.as_deref(), Some("owner"));
}

/// S0-T4: of a run that has ended it is told at once, and nothing changes.
#[test]
fn whoever_watches_too_late_is_told_how_it_ended() {
    let mut world = working();
    world.report("it", done(json!({})));
    assert_eq!(world.ended, [], "nobody watched");
    let before = world.run().clone();
    let heard = world.give(RunInput::Watch);
    let Heard::Unchanged(Reply::Watched(answer)) = heard else {
        panic!("{heard:?}");
    };
    let end = answer.ended.unwrap();
    assert_eq!(end.status, RunStatus::Completed);
    assert_eq!((world.ended.len(), world.run()), (0, &before));
}

/// S0-T4: the ends of the runs of a watched agent, whatever ends them.
#[test]
fn the_ends_of_the_runs_of_a_watched_agent_are_told() {
    for stands in [true, false] {
        let ends: [fn(&mut World); 3] = [
            |world| {
                world.report("it", done(json!({})));
            },
            |world| {
                world.report("it", broken());
            },
            |world| {
                world.cancel();
            },
        ];
        for end in ends {
            let mut world = working();
            world.agent_watch = EndsWatch { begun: 4, stands };
            end(&mut world);
            let sent: Vec<_> = world.ended.iter().map(|end| end.watch).collect();
            assert_eq!(sent, if stands { vec![4] } else { vec![] });
        }
    }
}

/// Mend C-10: the ends of all runs of a workspace, as long as a webhook wants them.
#[test]
fn all_ends_of_a_workspace_are_told_while_they_are_wanted() {
    let begin = Input::WatchRunEnds {
        workspace: acme(),
        agent: None,
    };
    let over = |watch| Input::UnwatchedEnds {
        workspace: acme(),
        agent: None,
        watch,
    };
    let nothing = |_: &Need| Lookup::NotLoaded;
    let mut known: Option<WorkspaceScope> = None;
    for (input, wanted) in [
        (over(1), 0),
        (begin.clone(), 1),
        (over(0), 1),
        (begin, 2),
        (over(1), 2),
        (over(2), 0),
        (over(2), 0),
    ] {
        let mut world = working();
        let state = known.clone().map(Aggregate::Workspace);
        if let Ok(Outcome::Decided(decision)) =
            super::super::decide(state.as_ref(), &input, &nothing, world.now)
        {
            let Aggregate::Workspace(next) = decision.state else {
                panic!("no workspace");
            };
            let text = serde_json::to_string(&next).unwrap();
            assert_eq!(serde_json::from_str::<WorkspaceScope>(&text).unwrap(), next);
            known = Some(next);
        }
        world.workspace_scope = known.clone();
        world.report("it", done(json!({})));
        let sent: Vec<_> = world.ended.iter().map(|end| end.workspace_watch).collect();
        assert_eq!(
            sent,
            Vec::from_iter((wanted > 0).then_some(wanted)),
            "{input:?}"
        );
    }
}

fn acme() -> Workspace {
    "acme".parse().unwrap()
}

fn decided(agent: &Agent, input: &Input) -> Option<Agent> {
    let state = Aggregate::Agent(agent.clone());
    let nothing = |_: &Need| Lookup::NotLoaded;
    match super::super::decide(Some(&state), input, &nothing, agent.updated_at) {
        Ok(Outcome::Decided(decision)) => {
            let Aggregate::Agent(next) = decision.state else {
                panic!("no agent");
            };
            assert_eq!(next.version, agent.version + 1);
            let text = serde_json::to_string(&next).unwrap();
            assert_eq!(serde_json::from_str::<Agent>(&text).unwrap(), next);
            Some(next)
        }
        Ok(Outcome::Unchanged(_)) => None,
        other => panic!("{other:?}"),
    }
}

/// S0-T4: that nobody watches any more counts only if nobody has begun since.
#[test]
fn a_watch_that_begins_meanwhile_stands() {
    let world = working();
    let need = Need::State(Key::Agent(acme(), "outreach".parse().unwrap()));
    let Lookup::Found(crate::domain::Fact::Agent(agent)) = world.find(&need) else {
        panic!("no agent");
    };
    let name = agent.name.clone();
    let begin = Input::WatchRunEnds {
        workspace: acme(),
        agent: Some(name.clone()),
    };
    let end = |watch| Input::UnwatchedEnds {
        workspace: acme(),
        agent: Some(name.clone()),
        watch,
    };
    let first = decided(&agent, &begin).unwrap();
    assert_eq!(first.watch.number(), 1);
    let second = decided(&first, &begin).unwrap();
    assert_eq!(decided(&second, &end(1)), None, "somebody has begun since");
    let ended = decided(&second, &end(2)).unwrap();
    assert_eq!(ended.watch.number(), 0);
    assert_eq!(decided(&ended, &end(2)), None);
    assert_eq!(decided(&ended, &end(0)), None);
    let again = decided(&ended, &begin).unwrap();
    assert_eq!(again.watch.number(), 3, "no number comes twice");
    let nothing = |_: &Need| Lookup::NotLoaded;
    let verdict = super::super::decide(None, &begin, &nothing, world.now);
    assert!(
        matches!(&verdict, Err(Undecided::Refused(Refusal::AgentNotFound(of))) if *of == name),
        "{verdict:?}"
    );
}
