//! One action on many runs: its bounds, its pages, and one result for each run.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdpoint_contracts::executor::PauseWaiting;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::operation::{
    OPERATION_RUNS_MAX, OPERATIONS_MAX, OperationState, RunAction, RunFilter, RunResult,
};
use holdpoint_contracts::run::RunStatus;
use holdpoint_ids::{NAME_CHARS_MAX, OperationId, RunId};
use serde_json::{Value, json};

use super::world::{World, acme, owner, run_id, user};
use crate::domain::decision::{Decided, Lookup, Outcome, Undecided};
use crate::domain::refusal::REASON_CHARS_MAX;
use crate::domain::run::{LABEL_CHARS_MAX, SIGNAL_BYTES_MAX};
use crate::domain::{
    Aggregate, Effect, Fact, Input, Key, Need, Operation, OperationInput, OperationItem,
    OperationResult, Refusal, decide, input_of_action, selected_status,
};

const WAIT: &str = "  - wait: 5 days\n";

fn id() -> OperationId {
    OperationId::from_uuid(run_id().uuid())
}

fn start(action: RunAction, matched: u64) -> OperationInput {
    OperationInput::Start {
        by: owner(),
        action,
        filter: RunFilter::default(),
        matched,
    }
}

fn cancel(reason: &str) -> RunAction {
    let reason = Some(reason.to_owned());
    RunAction::Cancel { reason }
}

/// Decides on an operation while `running` others are not finished.
fn change(
    known: Option<&Operation>,
    input: OperationInput,
    running: u64,
) -> Result<Change, Refusal> {
    let state = known.cloned().map(Aggregate::Operation);
    let input = Input::Operation {
        workspace: acme(),
        id: id(),
        input,
    };
    let lookup = |need: &Need| match need {
        Need::RunningOperations(_) => Lookup::Found(Fact::Count(running)),
        other => panic!("{other:?}"),
    };
    match decide(state.as_ref(), &input, &lookup, World::of(WAIT).now) {
        Ok(Outcome::Decided(decided)) => Ok(Change::Changed(operation_of(*decided))),
        Ok(Outcome::Unchanged(_)) => Ok(Change::Unchanged),
        Err(Undecided::Refused(refusal)) => Err(refusal),
        Err(Undecided::NeedsMore(needs)) => panic!("{needs:?}"),
    }
}

#[derive(Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a test has few of them")]
enum Change {
    Changed(Operation),
    Unchanged,
}

fn operation_of(decided: Decided) -> Operation {
    match decided.state {
        Aggregate::Operation(operation) => operation,
        other => panic!("{other:?}"),
    }
}

fn started(action: RunAction) -> Operation {
    match change(None, start(action, 3), 0) {
        Ok(Change::Changed(operation)) => operation,
        other => panic!("{other:?}"),
    }
}

fn paged(after: Option<RunId>, upto: Option<RunId>, runs: u64) -> OperationInput {
    OperationInput::Paged { after, upto, runs }
}

#[test]
fn an_operation_has_bounds_and_is_repeated_without_an_effect() {
    let many = OPERATION_RUNS_MAX + 1;
    assert_eq!(
        change(None, start(cancel("x"), many), 0),
        Err(Refusal::TooManyRuns)
    );
    let text = Refusal::TooManyRuns.to_string();
    assert!(text.contains("more than 100000 runs"), "{text}");
    assert_eq!(
        change(None, start(cancel("x"), 1), OPERATIONS_MAX),
        Err(Refusal::TooManyOperations)
    );
    let long = "ä".repeat(REASON_CHARS_MAX + 1);
    assert_eq!(
        change(None, start(cancel(&long), 1), 0),
        Err(Refusal::ReasonTooLong)
    );
    let signal = |data: Value, key: &str| RunAction::Signal {
        name: "go".to_owned(),
        data,
        key: Some(key.to_owned()),
    };
    let large = signal(json!("x".repeat(SIGNAL_BYTES_MAX)), "k");
    assert!(matches!(
        change(None, start(large, 1), 0),
        Err(Refusal::SignalTooLarge(_))
    ));
    let unkeyed = signal(Value::Null, "");
    assert_eq!(
        change(None, start(unkeyed, 1), 0),
        Err(Refusal::InvalidSignalKey)
    );

    let own = started(cancel("x"));
    assert_eq!(own.state(), OperationState::Running);
    assert_eq!(
        change(Some(&own), start(cancel("x"), 3), 99),
        Ok(Change::Unchanged)
    );
    let foreign = Operation {
        workspace: "umbrella".parse().unwrap(),
        ..own
    };
    assert_eq!(
        change(Some(&foreign), start(cancel("x"), 3), 0),
        Err(Refusal::OperationIdTaken(id()))
    );
    for input in [OperationInput::Cancel { by: owner() }, paged(None, None, 1)] {
        let gone = Err(Refusal::OperationNotFound(id()));
        assert_eq!(change(Some(&foreign), input.clone(), 0), gone);
        assert_eq!(change(None, input, 0), gone);
    }
}

/// The count is loaded once for a batch, so each start raises it for the others.
#[test]
fn operations_of_one_batch_count() {
    let mut running = OPERATIONS_MAX - 2;
    let mut begun = 0;
    let refusal = loop {
        let input = Input::Operation {
            workspace: acme(),
            id: OperationId::fresh(),
            input: start(cancel("x"), 1),
        };
        let lookup = |_: &Need| Lookup::Found(Fact::Count(running));
        match decide(None, &input, &lookup, World::of(WAIT).now) {
            Ok(Outcome::Decided(decided)) => {
                let [(Need::RunningOperations(_), Fact::Count(raised))] = decided.facts[..] else {
                    panic!("{:?}", decided.facts);
                };
                (begun, running) = (begun + 1, raised);
            }
            Err(Undecided::Refused(refusal)) => break refusal,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((begun, refusal), (2, Refusal::TooManyOperations));
}

/// The operation keeps its texts, and a wrong one would be refused for every run.
#[test]
fn texts_of_an_operation_have_limits() {
    let started = |action, label: &str| {
        let filter = RunFilter {
            label: Some(label.to_owned()),
            ..RunFilter::default()
        };
        let input = OperationInput::Start {
            by: owner(),
            action,
            filter,
            matched: 1,
        };
        change(None, input, 0).map(|_| ())
    };
    let of = |chars| "ä".repeat(chars);
    let label = |name, value| format!("{}={}", of(name), of(value));
    let most = LABEL_CHARS_MAX;
    assert_eq!(started(cancel("x"), &label(most, most)), Ok(()));
    for wrong in [label(most + 1, 1), label(1, most + 1), of(1)] {
        assert_eq!(started(cancel("x"), &wrong), Err(Refusal::InvalidFilter));
    }
    let text = Refusal::InvalidFilter.to_string();
    assert!(text.contains("200 characters"), "{text}");
    let retry = |chars| RunAction::Retry {
        from_step: Some(of(chars)),
    };
    let signal = |chars| RunAction::Signal {
        name: of(chars),
        data: Value::Null,
        key: None,
    };
    for (long, short, field) in [
        (
            retry(NAME_CHARS_MAX + 1),
            retry(NAME_CHARS_MAX),
            "from_step",
        ),
        (signal(NAME_CHARS_MAX + 1), signal(NAME_CHARS_MAX), "name"),
    ] {
        let refusal = Refusal::NameTooLong(field);
        assert!(refusal.to_string().contains("100 characters"));
        assert_eq!(started(long, "a=b"), Err(refusal));
        assert_eq!(started(short, "a=b"), Ok(()));
    }
}

#[test]
fn a_page_counts_once_and_the_last_one_ends_the_operation() {
    let own = started(cancel("x"));
    let (one, other) = (run_id(), RunId::fresh());
    let Ok(Change::Changed(first)) = change(Some(&own), paged(None, Some(one), 500), 0) else {
        panic!("not paged");
    };
    assert_eq!((first.taken, first.cursor), (500, Some(one)));
    // Another replica has read the same page.
    let again = change(Some(&first), paged(None, Some(other), 500), 0);
    assert_eq!(again, Ok(Change::Unchanged));
    let Ok(Change::Changed(last)) = change(Some(&first), paged(Some(one), None, 7), 0) else {
        panic!("not ended");
    };
    assert_eq!((last.state(), last.taken), (OperationState::Completed, 507));
    assert!(!last.view().limit_reached && last.ended_at().is_some());
    for input in [
        paged(Some(one), None, 7),
        OperationInput::Cancel { by: owner() },
    ] {
        assert_eq!(change(Some(&last), input, 0), Ok(Change::Unchanged));
    }
    let full = Operation {
        taken: OPERATION_RUNS_MAX - 1,
        ..first
    };
    let Ok(Change::Changed(full)) = change(Some(&full), paged(Some(one), Some(other), 1), 0) else {
        panic!("not ended");
    };
    assert!(full.view().limit_reached, "{full:?}");
}

#[test]
fn a_filter_without_a_status_selects_what_the_action_can_concern() {
    let filter = RunFilter::default();
    let retry = RunAction::Retry { from_step: None };
    assert_eq!(selected_status(&retry, &filter), Some(RunStatus::Failed));
    assert_eq!(selected_status(&cancel("x"), &filter), None);
    let filter = RunFilter {
        status: Some(RunStatus::Completed),
        ..filter
    };
    assert_eq!(selected_status(&cancel("x"), &filter), filter.status);
}

/// Applies an operation to the run of a world, as the kernel does: nothing is known until it was asked for.
fn apply(
    world: &mut World,
    operation: &Operation,
    done: &mut BTreeSet<Need>,
) -> Option<OperationResult> {
    let input = Input::OperationItem(OperationItem {
        workspace: acme(),
        run: run_id(),
        operation: operation.id,
        input: Arc::new(input_of_action(operation)),
        user: operation.user(),
    });
    let state = world.run.clone().map(Aggregate::Run);
    let version = world.run().version;
    let mut known = BTreeSet::new();
    for _ in 0..4 {
        let lookup = |need: &Need| match need {
            unknown if !known.contains(unknown) => Lookup::NotLoaded,
            Need::State(Key::Operation(_)) => {
                Lookup::Found(Fact::Operation(Arc::new(operation.clone())))
            }
            result @ Need::OperationResult(..) if done.contains(result) => {
                Lookup::Found(Fact::Count(1))
            }
            other => world.find(other),
        };
        match decide(state.as_ref(), &input, &lookup, world.now) {
            Err(Undecided::NeedsMore(more)) => known.extend(more),
            Ok(Outcome::Unchanged(_)) => return None,
            Ok(Outcome::Decided(decided)) => {
                let Aggregate::Run(run) = decided.state else {
                    panic!("not a run")
                };
                assert_eq!(
                    run.version,
                    version + 1,
                    "of two replicas one has written it"
                );
                world.run = Some(run);
                done.extend(decided.facts.into_iter().map(|(need, _)| need));
                let mut effects = decided.effects.into_iter();
                return effects.find_map(|effect| match effect {
                    Effect::OperationResult(result) => Some(result),
                    _ => None,
                });
            }
            Err(Undecided::Refused(refusal)) => panic!("{refusal:?}"),
        }
    }
    panic!("it asks for more again and again")
}

fn result_of(world: &mut World, operation: &Operation) -> (RunResult, Option<String>) {
    let result = apply(world, operation, &mut BTreeSet::new()).unwrap();
    (result.result, result.code)
}

#[test]
fn each_run_has_one_result() {
    let mut world = World::started(WAIT);
    let pause = started(RunAction::Pause {
        waiting: PauseWaiting::Hold,
    });
    let mut done = BTreeSet::new();
    let first = apply(&mut world, &pause, &mut done).unwrap();
    assert_eq!((first.run, first.result), (run_id(), RunResult::Changed));
    assert!(!world.run().pauses.is_empty());
    let paused = world.run.clone();
    assert_eq!(
        apply(&mut world, &pause, &mut done),
        None,
        "a page that comes twice"
    );
    assert_eq!(world.run, paused);

    assert_eq!(result_of(&mut world, &pause), (RunResult::Unchanged, None));
    let over = started(cancel("over"));
    assert_eq!(result_of(&mut world, &over), (RunResult::Changed, None));
    assert_eq!(world.status(), RunStatus::Cancelled);
    assert_eq!(result_of(&mut world, &over), (RunResult::Unchanged, None));
    let final_run = (RunResult::Refused, Some("run_final".to_owned()));
    assert_eq!(result_of(&mut world, &pause), final_run);
    let retry = started(RunAction::Retry { from_step: None });
    let code = Some("run_not_failed".to_owned());
    assert_eq!(result_of(&mut world, &retry), (RunResult::Refused, code));
}

/// The input of the last page may be decided before its runs.
#[test]
fn the_runs_of_the_last_page_have_results() {
    let mut world = World::started(WAIT);
    let own = started(cancel("over"));
    let Ok(Change::Changed(completed)) = change(Some(&own), paged(None, None, 1), 0) else {
        panic!("not ended");
    };
    assert_eq!(completed.state(), OperationState::Completed);
    assert_eq!(
        result_of(&mut world, &completed),
        (RunResult::Changed, None)
    );
}

#[test]
fn a_cancelled_operation_does_nothing() {
    let mut world = World::started(WAIT);
    let own = started(cancel("over"));
    let Ok(Change::Changed(ended)) = change(Some(&own), OperationInput::Cancel { by: owner() }, 0)
    else {
        panic!("not cancelled");
    };
    assert_eq!(ended.state(), OperationState::Cancelled);
    assert_eq!(apply(&mut world, &ended, &mut BTreeSet::new()), None);
    assert_eq!(world.status(), RunStatus::Waiting);
}

#[test]
fn an_operation_of_a_disabled_user_is_refused_for_every_run() {
    let mut world = World::started(WAIT);
    let own = Operation {
        by: Actor("ada".to_owned()),
        ..started(cancel("over"))
    };
    world.users.insert("ada".to_owned(), user(false, &[]));
    let forbidden = (RunResult::Refused, Some("forbidden".to_owned()));
    assert_eq!(result_of(&mut world, &own), forbidden);
    assert_eq!(world.status(), RunStatus::Waiting);
    world
        .users
        .insert("ada".to_owned(), user(true, &["member"]));
    assert_eq!(result_of(&mut world, &own), (RunResult::Changed, None));
}
