//! What holds in every history: the checks of [`World::give`] after each of many random inputs.

pub(super) mod plans;
mod services;
mod workers;

use chrono::TimeDelta;
use holdpoint_contracts::asking::{AskMode, ToolQuestion};
use holdpoint_contracts::hold::{HoldOutcome, OnTimeout};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::{HoldKind, ResumeMode, RunStatus};
use holdpoint_contracts::suspension::StepOnResume;
use proptest::prelude::*;
use serde_json::{Value, json};
use strum::VariantArray as _;

use super::world::{Heard, World, closing, done, owner, pause_input, start_input};
use crate::domain::RunInput;
use crate::domain::plan::Plan;
use crate::domain::run::{Choice, Signal};
pub(super) use plans::a_plan;
use services::{by_child_runs, sent};
use workers::by_workers;

/// What happens next. Steps and hold numbers are taken modulo what there is.
#[derive(Debug, Clone)]
pub(super) enum Move {
    Start,
    Pause,
    Resume(ResumeMode),
    /// A resume that says what happens with the steps in progress.
    ResumeSteps(StepOnResume),
    Suspend,
    /// A worker reports a step of a suspended run, or shuts down.
    SuspendStep {
        step: usize,
        dispatch: Dispatch,
        node: bool,
        shutdown: bool,
        stopped: bool,
    },
    Cancel,
    /// The scheduler fires the next timer in time.
    Due,
    /// A timer with a number that may be old or never was.
    Stray {
        hold: u32,
        rev: u64,
    },
    Ask {
        step: usize,
        dispatch: Dispatch,
        node: bool,
        delivery: u64,
        without_lease: bool,
    },
    Report {
        step: usize,
        dispatch: Dispatch,
        fails: bool,
    },
    /// The tool of a step asks people, by one of two keys.
    AskPeople {
        step: usize,
        dispatch: Dispatch,
        how: u8,
    },
    /// The tool of a step parks.
    Parks {
        step: usize,
        dispatch: Dispatch,
    },
    /// The lease of a step ends, or is said to that never was.
    Lost {
        step: usize,
        dispatch: Dispatch,
        node: bool,
    },
    /// The sweep finds no node that offers the tool of a step, or finds one again.
    ToolAvailability {
        step: usize,
        dispatch: Dispatch,
        is_offered: bool,
    },
    /// An operator continues the run, perhaps from a step.
    Retry(Option<usize>),
    /// A program sends a signal, perhaps under a key that it has used.
    Signal(u8),
    /// A child run ends, perhaps one that has ended before.
    ChildEnds {
        which: usize,
        status: RunStatus,
    },
    /// The start of a child run is refused, perhaps of an older desired state.
    ChildRefused {
        which: usize,
        is_old: bool,
    },
    /// A hold on people is closed, perhaps one that is none.
    Closed {
        hold: u32,
        choice: Choice,
    },
    /// A hold on people of whatever kind is closed so.
    People {
        which: usize,
        what: usize,
    },
    /// An operator takes the run over.
    TakeOver(bool),
    Incident(bool),
    Replied(bool),
    Pass(i64),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Dispatch {
    Current,
    Before,
    After,
}

fn a_dispatch() -> impl Strategy<Value = Dispatch> {
    prop_oneof![
        6 => Just(Dispatch::Current),
        1 => Just(Dispatch::Before),
        1 => Just(Dispatch::After),
    ]
}

pub(super) fn a_move() -> impl Strategy<Value = Move> {
    let mode = prop_oneof![
        Just(ResumeMode::Continue),
        Just(ResumeMode::KeepDeadline),
        Just(ResumeMode::Restart),
        Just(ResumeMode::Now),
    ];
    prop_oneof![
        1 => Just(Move::Start),
        3 => Just(Move::Pause),
        4 => mode.prop_map(Move::Resume),
        2 => Just(Move::Suspend),
        3 => prop_oneof![
            Just(StepOnResume::Redo),
            Just(StepOnResume::Skip),
            Just(StepOnResume::CompleteWith { result: json!({ "by": "hand" }) }),
        ].prop_map(Move::ResumeSteps),
        4 => (0_usize..6, a_dispatch(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
            |(step, dispatch, node, shutdown, stopped)| {
                Move::SuspendStep { step, dispatch, node, shutdown, stopped }
            }
        ),
        1 => Just(Move::Cancel),
        3 => prop::option::of(0_usize..6).prop_map(Move::Retry),
        6 => Just(Move::Due),
        4 => (0_u8..9).prop_map(Move::Signal),
        1 => (0_u32..4, 0_u64..20).prop_map(|(hold, rev)| Move::Stray { hold, rev }),
        8 => (0_usize..6, a_dispatch(), any::<bool>(), 1_u64..3, prop::bool::weighted(0.3)).prop_map(
            |(step, dispatch, node, delivery, without_lease)| {
                Move::Ask { step, dispatch, node, delivery, without_lease }
            }
        ),
        8 => (0_usize..6, a_dispatch(), prop::bool::weighted(0.2)).prop_map(
            |(step, dispatch, fails)| Move::Report { step, dispatch, fails }
        ),
        8 => (0_usize..6, a_dispatch(), 0_u8..16).prop_map(
            |(step, dispatch, how)| Move::AskPeople { step, dispatch, how }
        ),
        5 => (0_usize..6, a_dispatch()).prop_map(
            |(step, dispatch)| Move::Parks { step, dispatch }
        ),
        6 => (0_usize..6, a_dispatch(), any::<bool>()).prop_map(
            |(step, dispatch, node)| Move::Lost { step, dispatch, node }
        ),
        3 => (0_usize..6, a_dispatch(), prop::bool::weighted(0.3)).prop_map(
            |(step, dispatch, is_offered)| Move::ToolAvailability { step, dispatch, is_offered }
        ),
        6 => (0_u32..6, 0_usize..3).prop_map(
            |(hold, choice)| Move::Closed { hold, choice: Choice::VARIANTS[choice] }
        ),
        8 => (0_usize..3, 0_usize..WAYS).prop_map(|(which, what)| Move::People { which, what }),
        8 => (0_usize..6, prop_oneof![
            3 => Just(RunStatus::Completed),
            1 => Just(RunStatus::Failed),
            1 => Just(RunStatus::Cancelled),
        ]).prop_map(|(which, status)| Move::ChildEnds { which, status }),
        1 => (0_usize..6, any::<bool>()).prop_map(
            |(which, is_old)| Move::ChildRefused { which, is_old }
        ),
        1 => any::<bool>().prop_map(Move::TakeOver),
        1 => any::<bool>().prop_map(Move::Incident),
        1 => any::<bool>().prop_map(Move::Replied),
        2 => (0_i64..200_000_000).prop_map(Move::Pass),
    ]
}

/// Ways to close a hold on people.
pub(super) const WAYS: usize = 13;

/// The owner says that time is up: perhaps it has not heard of a later deadline.
const TOO_EARLY: usize = 4;
/// The same, when it is.
const IN_TIME: usize = 5;

pub(super) fn way(what: usize) -> (HoldOutcome, Value) {
    let done = |disposition| json!({ "notes": "called", "disposition": disposition });
    match what {
        0 => (HoldOutcome::Answered, json!({ "customer": "c-9" })),
        1 => (HoldOutcome::Completed, done("finish")),
        2 => (HoldOutcome::Completed, done("return_to_agent")),
        3 => (HoldOutcome::TakenOver, Value::Null),
        6 | 7 => (HoldOutcome::Approved, json!("fine")),
        8 => {
            let edited = json!({ "idempotent": true, "to": "bob@x.example" });
            (
                HoldOutcome::Approved,
                json!({ "comment": null, "edited_args": edited }),
            )
        }
        9 => (HoldOutcome::Rejected, json!("too dear")),
        10 => (HoldOutcome::Revised, json!("shorter")),
        11 => (HoldOutcome::Answered, json!("fail the step")),
        TOO_EARLY | IN_TIME => (HoldOutcome::Timeout, Value::Null),
        _ => (
            HoldOutcome::Cancelled,
            json!({ "code": "assignee_inactive", "message": "nobody" }),
        ),
    }
}

/// A step of the run and a number of a dispatch of it.
fn place(world: &World, step: usize, dispatch: Dispatch) -> Option<(String, u64)> {
    let steps = &world.run.as_ref()?.steps;
    let step = steps.get(step % steps.len().max(1))?;
    let number = match dispatch {
        Dispatch::Current => step.dispatch,
        Dispatch::Before => step.dispatch.saturating_sub(1),
        Dispatch::After => step.dispatch + 1,
    };
    Some((step.id.clone(), number))
}

/// The move as an input; none if it is the world and not the run that changes.
pub(super) fn input(world: &mut World, next: &Move) -> Option<RunInput> {
    match next {
        Move::Start => Some(start_input()),
        Move::Pause => Some(pause_input()),
        Move::Resume(mode) => Some(RunInput::Resume {
            by: owner(),
            mode: *mode,
            step: None,
        }),
        Move::ResumeSteps(step) => Some(RunInput::Resume {
            by: owner(),
            mode: ResumeMode::Continue,
            step: Some(step.clone()),
        }),
        Move::Suspend => Some(super::suspension::suspend_input("odd")),
        Move::Due => {
            let set = world.timers.iter();
            let set = set.filter_map(|(hold, (rev, due))| Some((due.as_ref()?, *hold, *rev)));
            let (due, hold, rev) = set.min().map(|(due, hold, rev)| (*due, hold, rev))?;
            world.now = world.now.max(due);
            Some(RunInput::TimerFired { hold, rev })
        }
        Move::Stray { hold, rev } => Some(RunInput::TimerFired {
            hold: holdpoint_ids::HoldId {
                run: super::world::run_id(),
                number: *hold,
            },
            // None fires that was not set before: following a scope may set the next one.
            rev: (*rev).min(world.run.as_ref()?.version),
        }),
        Move::Ask { .. } | Move::Report { .. } | Move::SuspendStep { .. } => {
            by_workers(world, next)
        }
        Move::TakeOver(_)
        | Move::People { .. }
        | Move::Cancel
        | Move::Retry(_)
        | Move::Signal(_) => by_people(world, next),
        Move::AskPeople { .. } | Move::Parks { .. } => by_tools(world, next),
        Move::Lost { .. }
        | Move::ToolAvailability { .. }
        | Move::Closed { .. }
        | Move::Incident(_) => sent(world, next),
        Move::ChildEnds { .. } | Move::ChildRefused { .. } => by_child_runs(world, next),
        Move::Replied(replied) => {
            let contact = json!({ "id": "ada", "email": "ada@x.example", "replied": replied });
            world.contact = Some(contact);
            None
        }
        Move::Pass(ms) => {
            world.pass(TimeDelta::milliseconds(*ms));
            None
        }
    }
}

/// What people do, and how their holds end.
fn by_people(world: &mut World, next: &Move) -> Option<RunInput> {
    match next {
        Move::Cancel => Some(RunInput::Cancel {
            by: owner(),
            reason: None,
        }),
        Move::Retry(from) => Some(RunInput::Retry {
            by: owner(),
            from: from.and_then(|step| Some(place(world, step, Dispatch::Current)?.0)),
        }),
        Move::Signal(key) => Some(RunInput::Signal {
            by: owner(),
            signal: Signal {
                name: "go".to_owned(),
                data: json!({ "n": 2 }),
                key: Some(key.to_string()),
            },
        }),
        Move::TakeOver(one) => Some(RunInput::TakeOver {
            by: Actor(if *one { "ada" } else { "bob" }.to_owned()),
        }),
        Move::People { which, what } => {
            let open: Vec<_> = world.run.as_ref()?.people().map(|(_, on)| on.id).collect();
            let hold = *open.get(which % open.len().max(1))?;
            if let Some(due) = world.deadline(hold).filter(|_| *what == IN_TIME) {
                world.now = world.now.max(due);
            }
            let (outcome, data) = way(*what);
            let closing = closing(outcome, data, world.now);
            Some(RunInput::HoldClosed { hold, closing })
        }
        _ => None,
    }
}

/// What the tools of steps ask.
fn by_tools(world: &World, next: &Move) -> Option<RunInput> {
    match next {
        Move::AskPeople {
            step,
            dispatch,
            how,
        } => {
            let (step, dispatch) = place(world, *step, *dispatch)?;
            let ends = [
                OnTimeout::Fail,
                OnTimeout::Skip,
                OnTimeout::Default,
                OnTimeout::Escalate,
            ];
            let on_timeout = ends[usize::from(how / 4)];
            let asks = ToolQuestion {
                on_timeout,
                default: (on_timeout == OnTimeout::Default).then(|| json!("no")),
                mode: match how % 2 {
                    0 => AskMode::Block,
                    _ => AskMode::Park,
                },
                ..ToolQuestion::new(if how & 2 == 0 { "First?" } else { "Second?" })
            };
            Some(RunInput::AskPeople {
                by: owner(),
                step: Some(step),
                dispatch: Some(dispatch),
                question: Box::new(asks),
            })
        }
        Move::Parks { step, dispatch } => {
            let (step, dispatch) = place(world, *step, *dispatch)?;
            Some(RunInput::StepParks {
                step,
                dispatch,
                duration_ms: 3,
            })
        }
        _ => None,
    }
}

fn live(plan: Plan, moves: &[Move], times: usize) -> World {
    let mut world = World::of_plan(plan);
    world.give(start_input());
    // As if a planner had made the plan.
    if moves.len() % 2 == 1 {
        world.use_generated_plan();
    }
    for next in moves {
        let Some(input) = input(&mut world, next) else {
            continue;
        };
        world.give(input.clone());
        // A retry may fail at once, and may then be retried again.
        let times = if matches!(next, Move::Retry(_)) {
            1
        } else {
            times
        };
        for _ in 1..times {
            let again = world.give(input.clone());
            assert!(
                !matches!(again, Heard::Decided(_)),
                "{input:?} twice: {again:?}"
            );
        }
    }
    world
}

/// Everybody does what they are given: workers, people, time.
pub(super) fn lives_on(world: &mut World) {
    for _ in 0..200 {
        if world.run().is_final() {
            break;
        }
        // Whoever owns the run first: until then the others' words are kept.
        let open = world.run().people().filter(|(_, on)| on.closing.is_none());
        let asked = open.max_by_key(|(_, on)| on.taken.is_some());
        if let Some((id, kind)) = asked.map(|(_, on)| (on.id, on.kind)) {
            let what = match kind {
                HoldKind::Input => 0,
                HoldKind::Approval => 6,
                HoldKind::Handoff | HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun => 2,
            };
            let (outcome, mut data) = way(what);
            if kind == HoldKind::Input {
                data["region"] = json!("north");
            }
            world.close_as(id, outcome, data);
            continue;
        }
        let open = world.run().steps.iter().find(|step| {
            use crate::domain::run::StepPhase::{Granted, Queued, Uncertain};
            matches!(step.phase, Queued(_) | Granted(_) | Uncertain(_))
        });
        match open.map(|step| step.id.clone()) {
            Some(step) => drop(world.report(&step, done(Value::Null))),
            None => drop(world.fire_next()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Nothing waits without a waker; dispatch never sinks; only a retry leaves a final state; no gaps; the
    /// desired state is the timer: see `World::give`.
    #[test]
    fn every_history_keeps_every_invariant(plan in a_plan(), moves in prop::collection::vec(a_move(), 0..60)) {
        live(plan, &moves, 1);
    }

    /// Each input given twice does what it does once.
    #[test]
    fn twice_is_once(plan in a_plan(), moves in prop::collection::vec(a_move(), 0..40)) {
        let once = live(plan.clone(), &moves, 1);
        let twice = live(plan, &moves, 2);
        prop_assert_eq!(once.run, twice.run);
        prop_assert_eq!(once.trace, twice.trace);
    }

    /// Same history, same effects.
    #[test]
    fn a_history_can_be_replayed(plan in a_plan(), moves in prop::collection::vec(a_move(), 0..40)) {
        let (first, second) = (live(plan.clone(), &moves, 1), live(plan, &moves, 1));
        prop_assert_eq!(first.trace, second.trace);
        prop_assert_eq!(first.run, second.run);
    }

    /// Left to itself (timers fire, workers do what they are given) every run ends.
    #[test]
    fn every_run_that_is_left_to_itself_ends(plan in a_plan(), moves in prop::collection::vec(a_move(), 0..40)) {
        let mut world = live(plan, &moves, 1);
        if !world.run().is_final() {
            world.resume(ResumeMode::Continue);
        }
        lives_on(&mut world);
        prop_assert!(world.run().is_final(), "{:?}", world.run());
    }
}
