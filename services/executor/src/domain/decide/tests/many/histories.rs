//! Whether and when pages come makes no difference to anybody.

use chrono::TimeDelta;
use holdpoint_calendar::WorkingDays;
use holdpoint_contracts::run::{PauseScope, PausedBy};
use proptest::prelude::*;

use super::super::histories::{self as runs, Move, a_move, a_plan};
use super::*;
use crate::domain::DeliveredStep;
use crate::domain::plan::{Action, Limits, OnError, OnPause, Plan, PlannedStep};
use crate::domain::run::{Phase, Timer};

/// What happens to a scope, or to the run in it.
#[derive(Debug, Clone)]
enum Event {
    Command(PauseScope, ScopeInput),
    /// The page with the run, and no more: the sweep stopped there.
    Page,
    Pages(PauseScope),
    Run(Move),
}

fn a_mode() -> impl Strategy<Value = ResumeMode> {
    prop_oneof![
        3 => Just(ResumeMode::Continue),
        1 => Just(ResumeMode::KeepDeadline),
        1 => Just(ResumeMode::Restart),
        1 => Just(ResumeMode::Now),
    ]
}

fn a_command() -> impl Strategy<Value = Event> {
    let input = prop_oneof![
        8 => Just(hold()),
        1 => Just(pause(PauseWaiting::Cancel, PauseNew::Accept)),
        8 => a_mode().prop_map(resume),
        1 => Just(delete()),
    ];
    (any::<bool>(), input)
        .prop_map(|(agent, input)| Event::Command(if agent { AGENT } else { WORKSPACE }, input))
}

fn an_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => a_command(),
        1 => Just(Event::Page),
        1 => any::<bool>().prop_map(|agent| Event::Pages(if agent { AGENT } else { WORKSPACE })),
        5 => a_move().prop_map(Event::Run),
    ]
}

/// Nothing that only a message brings: the two worlds of a comparison have different messages.
fn a_quiet_event() -> impl Strategy<Value = Event> {
    let own = prop_oneof![
        1 => Just(Move::Pause),
        1 => a_mode().prop_map(Move::Resume),
        4 => (0_i64..40 * 86_400_000).prop_map(Move::Pass),
    ];
    prop_oneof![4 => a_command(), 1 => Just(Event::Page), 3 => own.prop_map(Event::Run)]
}

/// Waits and tools beside each other, all begun at the start.
fn a_flat_plan() -> impl Strategy<Value = Plan> {
    let action = prop_oneof![
        3 => (1_u64..90).prop_map(|days| Action::Wait { duration_ms: days * 86_400_000 }),
        1 => Just(Action::Tool { tool: "log".to_owned(), args: serde_json::json!({}) }),
    ];
    prop::collection::vec(action, 1..=4).prop_map(|actions| Plan {
        inputs: None,
        limits: Limits::default(),
        working_days: WorkingDays::default(),
        planner: None,
        words: Vec::new(),
        steps: actions
            .into_iter()
            .enumerate()
            .map(|(index, action)| PlannedStep {
                id: format!("step-{:02}", index + 1),
                needs: Vec::new(),
                when: None,
                claim_timeout_ms: None,
                approval: None,
                timeout_ms: None,
                on_error: OnError::default(),
                retry: None,
                for_each: None,
                action,
            })
            .collect(),
        agent: "outreach".to_owned(),
        description: None,
        on_pause: OnPause::Hold,
    })
}

fn happen(world: &mut World, event: &Event) {
    match event {
        Event::Command(kind, input) => drop(world.command(*kind, input.clone())),
        Event::Page => drop(world.give(RunInput::ApplyScopes)),
        Event::Pages(kind) => world.pages(*kind),
        Event::Run(next) => {
            if let Some(input) = runs::input(world, next) {
                ask(world, input);
            }
        }
    }
    has_a_waker(world);
}

/// Cancelled, failed or paused never starts: from the commit of the scope on.
fn ask(world: &mut World, input: RunInput) {
    let read = world.read();
    let stands = |step: &str| {
        let found = world.run().steps.iter().find(|one| one.id == step);
        !read.may_call() && matches!(found.unwrap().phase, StepPhase::Queued(_))
    };
    let never = matches!(&input, RunInput::StartStep(DeliveredStep { step, .. }) if stands(step));
    let heard = world.give(input);
    if never {
        let (Heard::Decided(answer) | Heard::Unchanged(answer)) = &heard else {
            panic!("{heard:?}");
        };
        assert!(matches!(answer, Reply::Grant(Grant::Drop)), "{answer:?}");
    }
}

/// A run that stands, or moves, against its scope's will has pages to come.
fn has_a_waker(world: &World) {
    let run = world.run();
    if run.is_final() {
        return;
    }
    for kind in [AGENT, WORKSPACE] {
        let scope = world.scope(kind);
        let stands = run.pauses.iter().any(|pause| pause.scope == kind);
        let agrees = stands == scope.paused.is_some() && run.plan > scope.dead_up_to;
        assert!(agrees || !scope.is_followed(), "{kind:?} of {run:?}");
    }
}

/// What a user sees of a run, without numbers of dispatches.
fn seen(run: &Run) -> (Phase, Vec<PausedBy>, Vec<String>) {
    let step = |phase: &StepPhase| match phase {
        StepPhase::Waiting(hold) => match hold.timer {
            Timer::Set { due, .. } => format!("due {due}"),
            Timer::Frozen { remaining_ms, due } => format!("{remaining_ms} left, was due {due}"),
        },
        other => other.status().as_str().to_owned(),
    };
    let steps = run.steps.iter().map(|one| step(&one.phase)).collect();
    (run.phase.clone(), run.pauses.clone(), steps)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// All that `World::give` checks, with commands for many between, and pages whenever.
    #[test]
    fn every_history_keeps_every_invariant(
        plan in a_plan(),
        events in prop::collection::vec(an_event(), 0..60),
    ) {
        let mut world = World::of_plan(plan);
        world.give(start_input());
        for event in &events {
            happen(&mut world, event);
        }
    }

    /// The same end as if every page had come at once, and every read on the way.
    #[test]
    fn late_pages_make_no_difference(
        plan in a_flat_plan(),
        events in prop::collection::vec(a_quiet_event(), 0..40),
    ) {
        let mut at_once = World::of_plan(plan);
        at_once.give(start_input());
        let mut late = at_once.clone();
        for event in &events {
            happen(&mut at_once, event);
            happen(&mut late, event);
            if let Event::Command(kind, _) = event {
                at_once.pages(*kind);
                // Of two scopes changed within one millisecond nobody can say which was first.
                at_once.pass(TimeDelta::milliseconds(1));
                late.pass(TimeDelta::milliseconds(1));
            }
            prop_assert_eq!(seen(at_once.run()), seen(&late.read()));
            prop_assert_eq!(at_once.view().resume_at, late.shown().resume_at);
        }
        late.pages(AGENT);
        late.pages(WORKSPACE);
        prop_assert_eq!(seen(at_once.run()), seen(late.run()));
    }

    /// With everything resumed and all pages through, every run ends.
    #[test]
    fn every_run_that_is_left_to_itself_ends(
        plan in a_plan(),
        events in prop::collection::vec(an_event(), 0..40),
    ) {
        let mut world = World::of_plan(plan);
        world.give(start_input());
        for event in &events {
            happen(&mut world, event);
        }
        for kind in [AGENT, WORKSPACE] {
            world.command(kind, resume(ResumeMode::Continue));
            world.pages(kind);
        }
        world.resume(ResumeMode::Continue);
        runs::lives_on(&mut world);
        prop_assert!(world.run().is_final(), "{:?}", world.run());
    }
}
